// How many levels of calls each state needs until its rule can end, so that the matcher never begins
// something that cannot be ended within depth_max. Private to engine/grammar.
#pragma once

#include "engine/grammar/program.hpp"

namespace orcd::engine::grammar {

/// Sets `need` of all states, the least solution. Linear in states and edges; charged to the thread's
/// compile_budget.
void find_needs(program& of);

}  // namespace orcd::engine::grammar
