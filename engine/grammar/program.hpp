// A compiled grammar: rules as byte automata that call one another. Each rule's automaton is deterministic in
// bytes and in calls; where two calls or a call and a byte are possible, the matcher follows them in
// parallel. Immutable once built but for its cache, any thread. Rule 0 is always the JSON string
// (json_rules.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/grammar/expression.hpp"
#include "engine/grammar/wide_tokens.hpp"

namespace orcd::engine::grammar {

using state_id = std::uint32_t;
inline constexpr state_id no_state = std::numeric_limits<state_id>::max();

struct byte_edge {
  unsigned char first = 0;
  unsigned char last = 0;
  state_id to = 0;
};

struct call_edge {
  rule_id rule = 0;
  state_id to = 0;  ///< the state after the called rule has ended
  std::uint32_t least = 0;
  std::uint32_t most = unbounded;
};

struct state {
  std::vector<byte_edge> bytes;  ///< disjoint, ascending
  std::vector<call_edge> calls;
  bool accepting = false;
  /// In the body of a string each byte other than the quote begins a character and is counted; the quote ends
  /// the string and needs the least number of characters.
  bool counted = false;
  /// So many bytes may follow that the tokens allowed here are worth caching; only in rules that call none.
  bool wide = false;
  std::uint32_t need = unbounded;  ///< levels of calls until the rule can end; unbounded = it cannot

  [[nodiscard]] state_id next(unsigned char byte) const noexcept {
    for (const byte_edge& edge : bytes) {
      if (byte <= edge.last) return byte >= edge.first ? edge.to : no_state;
    }
    return no_state;
  }
  /// Nothing can follow: a call whose next state this is need not return to it.
  [[nodiscard]] bool is_end() const noexcept { return accepting && bytes.empty() && calls.empty(); }
};

struct rule {
  state_id start = 0;
  bool nullable = false;
  std::string where;  ///< the schema's path, for messages
};

struct program {
  std::vector<rule> rules;
  std::vector<state> states;
  rule_id root = 0;
  std::vector<std::string> ignored;  ///< annotations of the schema, as "format=uri"; few and short
  std::size_t bytes = 0;             ///< size of rules and states
  std::shared_ptr<wide_cache> wide = std::make_shared<wide_cache>();
};

}  // namespace orcd::engine::grammar
