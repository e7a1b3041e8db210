// Reads values of a JSON body, and the members of an object that stands somewhere inside it. Each refusal
// names the path of what it refuses: "messages[2].content". A member that is null counts as absent. Pure.
// Private to net/.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "net/json/field_checks.hpp"

namespace orcd::net {

/// The path of an element of a list: "messages[2]".
[[nodiscard]] std::string element_path(const std::string& list, std::size_t index);

/// "'PATH' must be WHAT, it is a number".
[[nodiscard]] engine::error refuse_kind(std::string_view path, std::string_view must,
                                        const boost::json::value& value);

/// "'PATH' must be WHAT, it is 'WORD'", the word cut to a length that can be shown.
[[nodiscard]] engine::error refuse_word(std::string_view path, std::string_view must, std::string_view word);

/// A number without a fraction as an integer, any other value as it is.
[[nodiscard]] boost::json::value without_fraction(const boost::json::value& value);

// The value at a path.
[[nodiscard]] engine::result<std::string_view> as_text(std::string_view path,
                                                       const boost::json::value& value);
[[nodiscard]] engine::result<bool> as_flag(std::string_view path, const boost::json::value& value);
[[nodiscard]] engine::result<std::uint64_t> as_integer(std::string_view path, const boost::json::value& value,
                                                       std::uint64_t low, std::uint64_t high);
[[nodiscard]] engine::result<float> as_real(std::string_view path, const boost::json::value& value,
                                            const real_range& range);

/// The member of an object, unless it is absent or null.
[[nodiscard]] const boost::json::value* find_member(const boost::json::object& object, std::string_view name);

/// Refuses members that are in neither list, unless they are null.
[[nodiscard]] engine::result<void> only_members(const boost::json::object& object, const std::string& path,
                                                std::span<const std::string_view> known,
                                                std::span<const std::string_view> also = {});

/// A string that must be there.
[[nodiscard]] engine::result<std::string_view> text_member(const boost::json::object& object,
                                                           const std::string& path, std::string_view name);

/// A string; empty where it is not there.
[[nodiscard]] engine::result<std::string_view> optional_text_member(const boost::json::object& object,
                                                                    const std::string& path,
                                                                    std::string_view name);

/// An object that must be there.
[[nodiscard]] engine::result<const boost::json::object*> object_member(const boost::json::object& object,
                                                                       const std::string& path,
                                                                       std::string_view name);

/// True or false; `absent` where it is not there.
[[nodiscard]] engine::result<bool> flag_member(const boost::json::object& object, const std::string& path,
                                               std::string_view name, bool absent = false);

}  // namespace orcd::net
