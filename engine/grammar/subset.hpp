// The subset construction for one rule; calls are symbols of the alphabet like bytes. Charged to the thread's
// compile_budget.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/grammar/program.hpp"

namespace orcd::engine::grammar {

/// An automaton that is being made; charged for as long as it lives.
struct automaton {
  std::vector<state> states;  ///< numbered from 0, which is the start
  held_bytes cost;            ///< the vector's memory
  held_bytes edges;           ///< the memory that the states own
};

/// Makes the deterministic automaton of `body`. Throws grammar_failure when over budget, and naming `where`
/// for more than `states_max` states.
[[nodiscard]] automaton make_deterministic(const expr& body, const std::string& where,
                                           std::uint32_t states_max);

/// The memory that a state owns besides itself.
[[nodiscard]] std::size_t owned_bytes(const state& s) noexcept;

}  // namespace orcd::engine::grammar
