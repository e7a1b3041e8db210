// Compiled grammars of the last requests: most clients send the same schema again and again. Bounded by
// entries, by automaton states and by the bytes of a key; the least recently used goes first. io thread only.
// compile_demand() is for any thread. Source: issue 5 item 1 and "Bad input" (schema bombs). Private to net/.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <utility>

#include "engine/chat/output_grammar.hpp"
#include "net/output_demand.hpp"

namespace orcd::net {

/// A grammar to be made. Owns what it names.
struct grammar_order {
  output_demand demand;  ///< whose rule is not none
  engine::output_frame frame;
  std::shared_ptr<const engine::grammar::token_table> tokens;
};

using grammar_program = std::shared_ptr<const engine::grammar::program>;

/// Takes up to some seconds for the worst that passes the compiler's limits. Errors: invalid_request, with
/// the field as param and the path of what cannot be compiled in its schema.
[[nodiscard]] engine::result<grammar_program> compile_demand(const grammar_order& order);

/// Equal for orders that give the same grammar.
[[nodiscard]] std::string key_of(const grammar_order& order);

class grammar_cache {
 public:
  static constexpr std::size_t entries_max = 32;
  static constexpr std::size_t states_max = 400'000;    ///< of all together, some 100 bytes each
  static constexpr std::size_t key_bytes_max = 65'536;  ///< longer ones are not kept

  /// Null when it is not here.
  [[nodiscard]] grammar_program find(const std::string& key);
  void keep(std::string key, grammar_program grammar);
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

 private:
  using entry = std::pair<std::string, grammar_program>;
  std::list<entry> entries_;  ///< the most recently used first
  std::size_t states_ = 0;
};

}  // namespace orcd::net
