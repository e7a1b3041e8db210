// The subset construction for one rule. Calls are symbols of the alphabet beside the bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/grammar/program.hpp"

namespace orcd::engine::grammar {

struct subset_budget {
  std::uint64_t work = 0;    ///< left; what is used is taken off
  std::uint32_t states = 0;  ///< at most
};

/// States numbered from 0, which is the start. Throws grammar_failure naming `where` over budget.
[[nodiscard]] std::vector<state> make_deterministic(const expr& body, const std::string& where,
                                                    subset_budget& budget);

}  // namespace orcd::engine::grammar
