// Searches for one text in another, from either end, in time that is linear in both whatever they hold; the
// standard library's find and rfind are not. Charges for what it visits.
//
// It looks for the first byte first, which is fastest for most texts; where that finds too many candidates,
// the rest is searched with the two-way algorithm. Source: M. Crochemore, D. Perrin, "Two-way
// string-matching", 1991.
#pragma once

#include <cstddef>
#include <string_view>

#include "engine/jinja/template_work.hpp"

namespace orcd::engine::jinja {

/// The first occurrence of `what` at or after `from`, or npos. An empty `what` occurs everywhere.
[[nodiscard]] std::size_t find_text(work_meter& meter, std::string_view text, std::string_view what,
                                    std::size_t from = 0);

/// The last occurrence of `what`, or npos.
[[nodiscard]] std::size_t rfind_text(work_meter& meter, std::string_view text, std::string_view what);

}  // namespace orcd::engine::jinja
