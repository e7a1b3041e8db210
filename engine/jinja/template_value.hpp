// The values of a template's expressions, with Python's semantics; small and trivially copyable. Text, lists
// and dicts live in an arena or in memory that outlives the rendering, and never change: the sandbox that is
// imitated refuses append, pop and update. Only a namespace changes, and lists that the template itself has
// made take `append`, as published templates expect it. Numbers, lists and dicts that were read from text
// remember how it spelled them, and are shown so: what a model has written stays what it wrote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace orcd::engine::jinja {

enum class value_kind : std::uint8_t {
  undefined,  ///< text = the name of what is missing, for messages
  none,
  boolean,
  integer,
  large,  ///< an integer of 2^63 to 2^64 - 1; it can be shown and compared, not computed with
  real,
  string,  ///< valid UTF-8
  list,    ///< list_data: lists, tuples, views and generators
  dict,
  space,  ///< namespace()
  loop,
  macro,
  method,    ///< a value's method, before its call
  function,  ///< a global such as range
};

struct list_data;
struct dict_data;
struct space_data;
struct loop_data;
struct macro_data;
struct method_data;
struct function_row;

struct value {
  value_kind kind = value_kind::undefined;
  bool safe = false;  ///< a string that HTML escaping skips, as Python's Markup
  union {
    std::int64_t integer = 0;
    std::uint64_t large;
    double real;
    const char* text;
    const list_data* list;
    const dict_data* dict;
    space_data* space;
    const loop_data* loop;
    const macro_data* macro;
    const method_data* method;
    const function_row* function;
  };
  union {
    std::size_t size = 0;              ///< bytes of the text
    const std::string_view* spelling;  ///< of a number, as it was written; null: as Python would
  };

  [[nodiscard]] bool is(value_kind k) const noexcept { return kind == k; }
  [[nodiscard]] std::string_view view() const noexcept { return {text, size}; }
};

enum class list_form : std::uint8_t { list, tuple, keys, values, items, generator, range };

struct list_data {
  mutable std::span<const value> items;
  list_form form = list_form::list;
  bool own = false;                 ///< the template made it, and may append to it
  mutable bool consumed = false;    ///< a generator gives its items once
  mutable std::span<value> room{};  ///< of `items`, once something was appended; else nothing
  std::string_view spelling{};      ///< its JSON as it was written; empty: as Python would
};

struct dict_entry {
  value key;
  value item;
};

/// A dict's entries, in the order of insertion.
struct dict_data {
  std::span<const dict_entry> entries;
  std::string_view spelling{};  ///< its JSON as it was written; empty: as Python would
};

struct method_row;
struct method_data {
  value self;
  const method_row* row;
};

[[nodiscard]] inline value make_undefined(std::string_view what) noexcept {
  value v;
  v.text = what.data();
  v.size = what.size();
  return v;
}
[[nodiscard]] inline value make_none() noexcept {
  value v;
  v.kind = value_kind::none;
  return v;
}
[[nodiscard]] inline value make_bool(bool b) noexcept {
  value v;
  v.kind = value_kind::boolean;
  v.integer = b ? 1 : 0;
  return v;
}
[[nodiscard]] inline value make_integer(std::int64_t i) noexcept {
  value v;
  v.kind = value_kind::integer;
  v.integer = i;
  v.spelling = nullptr;
  return v;
}
[[nodiscard]] inline value make_large(std::uint64_t u) noexcept {
  if (u <= INT64_MAX) return make_integer(static_cast<std::int64_t>(u));
  value v;
  v.kind = value_kind::large;
  v.large = u;
  v.spelling = nullptr;
  return v;
}
[[nodiscard]] inline value make_real(double d) noexcept {
  value v;
  v.kind = value_kind::real;
  v.real = d;
  v.spelling = nullptr;
  return v;
}
/// A view: the bytes must outlive the rendering.
[[nodiscard]] inline value make_string(std::string_view bytes) noexcept {
  value v;
  v.kind = value_kind::string;
  v.text = bytes.data();
  v.size = bytes.size();
  return v;
}
[[nodiscard]] inline value make_value(const list_data* list) noexcept {
  value v;
  v.kind = value_kind::list;
  v.list = list;
  return v;
}
[[nodiscard]] inline value make_value(const dict_data* dict) noexcept {
  value v;
  v.kind = value_kind::dict;
  v.dict = dict;
  return v;
}

[[nodiscard]] inline bool is_form(const value& v, list_form form) noexcept {
  return v.kind == value_kind::list && v.list->form == form;
}
/// A list, a tuple or a range: what has a length and can be indexed.
[[nodiscard]] inline bool is_indexed(const value& v) noexcept {
  return v.kind == value_kind::list && (v.list->form == list_form::list || v.list->form == list_form::tuple ||
                                        v.list->form == list_form::range);
}
/// An integer or a boolean, which Python counts as one.
[[nodiscard]] inline bool is_integral(const value& v) noexcept {
  return v.kind == value_kind::integer || v.kind == value_kind::boolean;
}
[[nodiscard]] inline bool is_number(const value& v) noexcept {
  return is_integral(v) || v.kind == value_kind::real;
}
[[nodiscard]] inline double as_real(const value& v) noexcept {
  return v.kind == value_kind::real ? v.real : static_cast<double>(v.integer);
}

}  // namespace orcd::engine::jinja
