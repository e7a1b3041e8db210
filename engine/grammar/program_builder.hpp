// From expressions to a program: each rule becomes a deterministic automaton, then the whole is checked.
// Failures are thrown as grammar_failure and caught where a public function begins. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "engine/grammar/program.hpp"

namespace orcd::engine::grammar {

/// Why a grammar cannot be made; `where` is the schema's path (a JSON pointer after '#').
struct grammar_failure {
  std::string where;
  std::string what;
};

struct program_limits {
  std::uint32_t states = 100'000;
  std::uint32_t rules = 20'000;
  std::uint64_t work = 3'000'000;  ///< states that the construction looks at: a tenth of a second or two
};

class program_builder {
 public:
  /// Begins with the string rule.
  explicit program_builder(const program_limits& limits = {});

  /// A rule to be defined later, so that rules may call each other.
  [[nodiscard]] rule_id declare(std::string where);
  void define(rule_id rule, const expr& body);
  /// What `body` matches and `but` does not; neither may call.
  void define_difference(rule_id rule, const expr& body, const expr& but);
  [[nodiscard]] rule_id add(std::string where, const expr& body) {
    const rule_id id = declare(std::move(where));
    define(id, body);
    return id;
  }

  /// Refuses a rule that calls itself before it has matched a byte, and a root that no finite text matches.
  [[nodiscard]] std::shared_ptr<const program> finish(rule_id root);

 private:
  void append(rule_id rule, std::vector<state> states);
  [[nodiscard]] std::vector<state> automaton(const expr& body, const std::string& where);
  void find_nullable();
  void refuse_left_recursion() const;
  void find_needs();

  program program_;
  program_limits limits_;
  std::uint64_t work_ = 0;
};

}  // namespace orcd::engine::grammar
