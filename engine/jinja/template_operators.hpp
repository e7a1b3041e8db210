// A template's operators on values, as in Python; those that compute a new value are in
// template_arithmetic.hpp. All functions charge what they visit and throw template_failure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/jinja/template_context.hpp"
#include "engine/jinja/template_syntax.hpp"

namespace orcd::engine::jinja {

/// "a string", "a list": for messages.
[[nodiscard]] std::string_view kind_name(const value& v) noexcept;
/// Fails when `v` is undefined, naming it.
void require_defined(const value& v);
/// Fails because an operator, `what`, does not take these two.
[[noreturn]] void refuse_operands(std::string_view what, const value& a, const value& b);

[[nodiscard]] bool truth(const value& v) noexcept;
[[nodiscard]] bool equal(context& c, const value& a, const value& b);
[[nodiscard]] bool less(context& c, const value& a, const value& b);
[[nodiscard]] bool contains(context& c, const value& container, const value& item);
[[nodiscard]] bool compare(context& c, operation op, const value& a, const value& b);

[[nodiscard]] std::size_t length(context& c, const value& v);
/// The items of a list, keys of a dict, characters of a text; empty for an undefined value.
[[nodiscard]] std::span<const value> iterate(context& c, const value& v);
/// nullptr when there is none.
[[nodiscard]] const value* find_key(context& c, const value& dict, const value& key);
[[nodiscard]] const value* find_key(context& c, const value& dict, std::string_view key);
/// object[key]; an undefined value when there is none.
[[nodiscard]] value get_item(context& c, const value& object, const value& key);
/// object.name; an undefined value when there is none.
[[nodiscard]] value get_attribute(context& c, const value& object, std::string_view name);
/// The item at a path such as map(attribute="a.0.b") has.
[[nodiscard]] value get_path(context& c, const value& object, std::string_view path);
[[nodiscard]] value slice(context& c, const value& object, const value& start, const value& stop,
                          const value& step);
/// Adds an entry to a dict under construction, replacing one with an equal key.
void put(context& c, std::vector<dict_entry>& entries, const value& key, const value& item);

}  // namespace orcd::engine::jinja
