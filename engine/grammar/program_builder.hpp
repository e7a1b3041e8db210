// Turns expressions into a program: each rule becomes a deterministic automaton, then the whole is checked.
// Failures are thrown as grammar_failure and caught in the public functions. One thread, whose compile_budget
// the builder holds: parts of a program may be made only while its builder lives.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/grammar/compile_budget.hpp"
#include "engine/grammar/program.hpp"
#include "engine/grammar/subset.hpp"

namespace orcd::engine::grammar {

struct program_limits {
  std::uint32_t states = 100'000;
  std::uint32_t rules = 20'000;
  compile_limits whole;  ///< for everything that is made while the builder lives
};

/// The usual limits for what messages call a `noun`.
[[nodiscard]] inline program_limits limits_for(const char* noun) {
  program_limits out;
  out.whole.noun = noun;
  return out;
}

class program_builder {
 public:
  /// A builder whose rule 0 is the string rule.
  explicit program_builder(const program_limits& limits = {});

  /// A rule to be defined later, so that rules may call each other.
  [[nodiscard]] rule_id declare(std::string where);
  void define(rule_id rule, const expr& body);
  /// Defines a rule as what all of `all` match and none of `but` does; none of them may call a rule.
  void define_common(rule_id rule, const std::vector<expr>& all, const std::vector<expr>& but);
  /// Defines a rule as the numbers that `body` matches, of at most so many decimal places and without
  /// exponents, whose remainder after division by `step` is kept; a step is counted in units of the last of
  /// these places.
  void define_multiples(rule_id rule, const expr& body, std::uint32_t step, std::uint32_t places,
                        const std::function<bool(std::uint32_t remainder)>& keeps);
  /// Whether a rule that has been defined and calls none matches the text.
  [[nodiscard]] bool matches(rule_id rule, std::string_view text) const;
  /// Tells of an annotation that asks for nothing; the first few are kept, with the characters of a header.
  void note_ignored(std::string what);
  [[nodiscard]] rule_id add(std::string where, const expr& body) {
    const rule_id id = declare(std::move(where));
    define(id, body);
    return id;
  }

  /// Refuses a rule that calls itself before it has matched a byte, and a root that no finite text matches.
  [[nodiscard]] std::shared_ptr<const program> finish(rule_id root);

 private:
  void append(rule_id rule, automaton made);
  void find_nullable();
  void refuse_left_recursion() const;
  [[nodiscard]] std::uint32_t states_left() const noexcept {
    return limits_.states - static_cast<std::uint32_t>(program_.states.size());
  }

  compile_budget budget_;
  program_limits limits_;
  program program_;
  held_bytes rules_cost_, states_cost_, edges_cost_;
};

}  // namespace orcd::engine::grammar
