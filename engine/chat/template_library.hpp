// What templates can call by name: filters, tests, methods of values and global functions. Rows of constant
// tables; none of them reaches anything outside of its arguments but the time of strftime_now.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/chat/template_context.hpp"
#include "engine/chat/template_value.hpp"

namespace orcd::engine::jinja {

struct named_value {
  std::string_view name;
  value item;
};

/// As they were written, spreads included.
struct call_values {
  std::span<const value> items;
  std::span<const named_value> named;
};

inline constexpr std::size_t most_parameters = 6;

/// Arguments by parameter.
struct arguments {
  std::array<value, most_parameters> values{};
  std::uint32_t given = 0;  ///< bit i: parameter i was given
  call_values raw;          ///< for what takes any number

  [[nodiscard]] bool has(std::size_t i) const noexcept { return (given >> i & 1U) != 0; }
  [[nodiscard]] const value& operator[](std::size_t i) const noexcept { return values[i]; }
  [[nodiscard]] bool flag(std::size_t i, bool fallback = false) const noexcept;
  /// Fails unless the argument, where given, is an integer or a string.
  [[nodiscard]] std::int64_t integer(std::size_t i, std::int64_t fallback) const;
  [[nodiscard]] std::string_view text(std::size_t i, std::string_view fallback) const;
};

using library_function = value (*)(context&, const value& self, const arguments&);

/// `parameters` are names separated by spaces, those that must be given first; "*" takes any.
struct filter_row {
  std::string_view name;
  library_function run;
  std::string_view parameters = {};
  std::uint32_t required = 0;
};
struct test_row : filter_row {};
struct method_row : filter_row {};
/// `self` of a function is undefined.
struct function_row : filter_row {};

/// nullptr when there is none of that name.
[[nodiscard]] const filter_row* find_filter(std::string_view name) noexcept;
[[nodiscard]] const test_row* find_test(std::string_view name) noexcept;
[[nodiscard]] const method_row* find_method(value_kind kind, std::string_view name) noexcept;
[[nodiscard]] const function_row* find_function(std::string_view name) noexcept;

/// Calls one with its arguments bound; fails when they do not fit, naming it.
[[nodiscard]] value call_row(context& c, const filter_row& row, const value& self, const call_values& values);

// The tables, a file each.
[[nodiscard]] std::span<const filter_row> text_filters() noexcept;
[[nodiscard]] std::span<const filter_row> list_filters() noexcept;
[[nodiscard]] std::span<const filter_row> selection_filters() noexcept;
[[nodiscard]] std::span<const method_row> text_methods() noexcept;

}  // namespace orcd::engine::jinja
