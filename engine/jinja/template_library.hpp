// What templates can call by name: filters, tests, methods of values and global functions, as rows of
// constant tables. None of them reaches anything but its arguments, and strftime_now the time.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/jinja/template_context.hpp"
#include "engine/jinja/template_value.hpp"

namespace orcd::engine::jinja {

struct named_value {
  std::string_view name;
  value item;
};

/// The arguments of a call as they were written, with spreads already expanded.
struct call_values {
  std::span<const value> items;
  std::span<const named_value> named;
};

inline constexpr std::size_t most_parameters = 6;

/// The arguments of a call, by parameter.
struct arguments {
  std::array<value, most_parameters> values{};
  std::uint32_t given = 0;  ///< bit i: parameter i was given
  call_values raw;          ///< for rows that take any number of arguments

  [[nodiscard]] bool has(std::size_t i) const noexcept { return (given >> i & 1U) != 0; }
  [[nodiscard]] const value& operator[](std::size_t i) const noexcept { return values[i]; }
  [[nodiscard]] bool flag(std::size_t i, bool fallback = false) const noexcept;
  /// The argument as an integer, or `fallback` if it was not given; fails when it is something else. The
  /// second one: as a string.
  [[nodiscard]] std::int64_t integer(std::size_t i, std::int64_t fallback) const;
  [[nodiscard]] std::string_view text(std::size_t i, std::string_view fallback) const;
};

using library_function = value (*)(context&, const value& self, const arguments&);

/// A row. `parameters` are names separated by spaces, the required ones first; "*" takes any arguments.
struct filter_row {
  std::string_view name;
  library_function run;
  std::string_view parameters = {};
  std::uint32_t required = 0;
};
struct test_row : filter_row {};
struct method_row : filter_row {};
/// A function's row; its `self` is undefined.
struct function_row : filter_row {};

/// nullptr when there is none of that name.
[[nodiscard]] const filter_row* find_filter(std::string_view name) noexcept;
[[nodiscard]] const test_row* find_test(std::string_view name) noexcept;
[[nodiscard]] const method_row* find_method(value_kind kind, std::string_view name) noexcept;
[[nodiscard]] const function_row* find_function(std::string_view name) noexcept;

/// Binds the arguments and calls the row; fails, naming it, when they do not fit.
[[nodiscard]] value call_row(context& c, const filter_row& row, const value& self, const call_values& values);

// The tables, a file each.
[[nodiscard]] std::span<const filter_row> text_filters() noexcept;
[[nodiscard]] std::span<const filter_row> list_filters() noexcept;
[[nodiscard]] std::span<const filter_row> selection_filters() noexcept;
[[nodiscard]] std::span<const method_row> text_methods() noexcept;

}  // namespace orcd::engine::jinja
