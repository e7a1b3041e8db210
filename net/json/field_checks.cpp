#include "net/json/field_checks.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "net/json/json_text.hpp"
#include "net/json/text.hpp"
#include "net/limits.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;
using engine::result;

std::string shown(const json_scalar& value) {
  if (const auto* i = std::get_if<std::int64_t>(&value)) return std::to_string(*i);
  if (const auto* u = std::get_if<std::uint64_t>(&value)) return std::to_string(*u);
  if (const auto* d = std::get_if<double>(&value)) {
    std::array<char, 32> text;
    std::snprintf(text.data(), text.size(), "%.9g", *d);
    const std::string number = text.data();
    // A number that is no integer must not be shown as one.
    return number.find_first_not_of("-0123456789") == std::string::npos ? number + ".0" : number;
  }
  if (const auto* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
  return "null";
}

std::string shown(double value) {
  std::string text;
  append_decimal(text, value);
  return text;
}

/// Up to here a double holds every integer.
constexpr double whole_max = 9'007'199'254'740'992.0;

}  // namespace

std::optional<std::int64_t> whole_number(double value) noexcept {
  if (!(std::abs(value) <= whole_max) || std::trunc(value) != value) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

error refuse_field(std::string_view field, const std::string& what) {
  return {errc::invalid_request, "'" + std::string(field) + "' " + what, std::string(field)};
}

error rename_field(error refusal, std::string_view from, std::string_view to) {
  const std::string before = refusal.param;
  if (!before.starts_with(from)) return refusal;
  refusal.param = std::string(to) + before.substr(from.size());
  const auto at = refusal.message.find("'" + before + "'");
  if (at != std::string::npos) refusal.message.replace(at + 1, before.size(), refusal.param);
  return refusal;
}

error unknown_field(std::string_view name) {
  const std::string shown = shown_name(name);
  return {errc::invalid_request, "unknown field '" + shown + "'", shown};
}

result<std::uint64_t> check_integer(std::string_view field, const json_scalar& value, std::uint64_t low,
                                    std::uint64_t high) {
  const auto refuse = [&] {
    return refuse_field(field, "must be an integer from " + std::to_string(low) + " to " +
                                   std::to_string(high) + ", it is " + shown(value));
  };
  std::uint64_t out = 0;
  if (const auto* i = std::get_if<std::int64_t>(&value)) {
    if (*i < 0) return refuse();
    out = static_cast<std::uint64_t>(*i);
  } else if (const auto* u = std::get_if<std::uint64_t>(&value)) {
    out = *u;
  } else if (const auto* d = std::get_if<double>(&value)) {
    const auto whole = whole_number(*d);
    if (!whole || *whole < 0) return refuse();
    out = static_cast<std::uint64_t>(*whole);
  } else {
    return refuse();
  }
  if (out < low || out > high) return refuse();
  return out;
}

result<float> check_real(std::string_view field, const json_scalar& value, const real_range& range) {
  double number = std::numeric_limits<double>::quiet_NaN();
  if (const auto* d = std::get_if<double>(&value)) number = *d;
  if (const auto* i = std::get_if<std::int64_t>(&value)) number = static_cast<double>(*i);
  if (const auto* u = std::get_if<std::uint64_t>(&value)) number = static_cast<double>(*u);
  const auto out = static_cast<float>(std::isfinite(number) && std::abs(number) < 1e9 ? number : -1e9);
  // Compares the float, which is what is used: 1e-60 is above 0 as a double and 0 as a float.
  const bool low_ok = range.above_low ? out > range.low : number >= range.low;
  if (low_ok && number <= range.high) return out;
  return refuse_field(field, "must be a number " + std::string(range.above_low ? "above " : "from ") +
                                 shown(range.low) + " to " + shown(range.high) + ", it is " + shown(value));
}

result<bool> check_flag(std::string_view field, const json_scalar& value) {
  if (const auto* b = std::get_if<bool>(&value)) return *b;
  return refuse_field(field, "must be true or false, it is " + std::string(kind_name(value)));
}

result<void> add_stop(std::string_view field, std::string value, std::size_t count_max,
                      std::vector<std::string>& stops) {
  if (stops.size() == count_max) {
    return refuse_field(field, "may have " + std::to_string(count_max) + " strings, it has more");
  }
  if (value.empty()) return refuse_field(field, "must not hold an empty string");
  if (value.size() > stop_bytes_max) {
    return refuse_field(field, "strings may have " + std::to_string(stop_bytes_max) + " bytes, one has " +
                                   std::to_string(value.size()));
  }
  stops.push_back(std::move(value));
  return {};
}

result<void> check_cache_name(std::string_view field, std::string_view name) {
  if (!name.empty() && name.size() <= cache_name_bytes_max) return {};
  return refuse_field(field, "must have 1 to " + std::to_string(cache_name_bytes_max) + " bytes, it has " +
                                 std::to_string(name.size()));
}

result<void> check_length(std::string_view field, std::string_view text, std::size_t code_points_max) {
  // There are never more code points than bytes: most prompts need no count.
  if (text.size() <= code_points_max) return {};
  const auto count = code_points(text);
  if (count <= code_points_max) return {};
  return refuse_field(
      field, "may have " + std::to_string(code_points_max) + " characters, it has " + std::to_string(count));
}

}  // namespace orcd::net
