// Checks of values of request fields that several endpoints share. Each refusal names field, limit and value.
// Pure. Source: M0-W-1302, WORK-3120. Private to net/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/sampling/sampling_ranges.hpp"
#include "net/json/json_value.hpp"

namespace orcd::net {

/// invalid_request: "'FIELD' WHAT", with the field as param.
[[nodiscard]] engine::error refuse_field(std::string_view field, const std::string& what);

/// A refusal with another name for its field: `to` instead of `from`, with which the name begins.
[[nodiscard]] engine::error rename_field(engine::error refusal, std::string_view from, std::string_view to);

/// The refusal of a field that this request does not have.
[[nodiscard]] engine::error unknown_field(std::string_view name);

using engine::min_p_range;
using engine::penalty_range;
using engine::real_range;
using engine::repetition_penalty_range;
using engine::temperature_range;
using engine::top_p_range;

/// The integer that a number without a fraction is: JSON has one kind of number, and some languages write 4.0
/// for 4. Nothing where it has a fraction or is too large to be exact.
[[nodiscard]] std::optional<std::int64_t> whole_number(double value) noexcept;

[[nodiscard]] engine::result<std::uint64_t> check_integer(std::string_view field, const json_scalar& value,
                                                          std::uint64_t low, std::uint64_t high);
[[nodiscard]] engine::result<float> check_real(std::string_view field, const json_scalar& value,
                                               const real_range& range);
[[nodiscard]] engine::result<bool> check_flag(std::string_view field, const json_scalar& value);
/// Appends one stop string to a list of at most `count_max`.
[[nodiscard]] engine::result<void> add_stop(std::string_view field, std::string value, std::size_t count_max,
                                            std::vector<std::string>& stops);
/// A cache_salt or imc_id: not empty, bounded.
[[nodiscard]] engine::result<void> check_cache_name(std::string_view field, std::string_view name);
/// Refuses text of more than `code_points_max` code points.
[[nodiscard]] engine::result<void> check_length(std::string_view field, std::string_view text,
                                                std::size_t code_points_max);

}  // namespace orcd::net
