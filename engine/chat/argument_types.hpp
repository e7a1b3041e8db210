// Which types the arguments of functions may have, by the functions' schemas: formats that write arguments as
// text do not say it. Immutable; any thread.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace orcd::engine {

/// Types of JSON values, as bits.
using value_kinds = std::uint8_t;
inline constexpr value_kinds text_kind = 1, number_kind = 2, boolean_kind = 4, null_kind = 8, array_kind = 16,
                             object_kind = 32, any_kind = 63;

/// The types that a schema allows; references are to places in `root`. A schema that says nothing, or what
/// is not understood or has many parts, allows any.
[[nodiscard]] value_kinds kinds_of(const boost::json::value& schema, const boost::json::value& root);

/// Whether a schema asks for nothing at all.
[[nodiscard]] bool is_open(const boost::json::value& schema);

struct argument_type {
  value_kinds kinds = any_kind;
  bool open = true;  ///< nothing is asked of the argument: it is JSON if it can be, else text

  /// A text as it stands. Of other arguments texts are written as JSON.
  [[nodiscard]] bool is_text() const noexcept { return kinds == text_kind; }
};
using named_arguments = std::map<std::string, argument_type, std::less<>>;

/// The most arguments of a function that are known. Grammars refuse a function with more.
inline constexpr std::size_t arguments_max = 512;

/// The first arguments that a function's parameters name. The time is bounded for all of them together: where
/// the schemas are too large, the later ones may be of any type. Grammars and readers both ask here, so that
/// what one writes the other reads as the same type.
[[nodiscard]] named_arguments arguments_of(const boost::json::value& parameters);

class argument_types {
 public:
  /// The functions of tools as requests have them: {"type": "function", "function": {"name", "parameters"}}.
  [[nodiscard]] static std::shared_ptr<const argument_types> of(const boost::json::array& tools);

  [[nodiscard]] bool has(std::string_view function) const { return functions_.contains(function); }
  /// Whether the name of one begins so.
  [[nodiscard]] bool has_name_from(std::string_view beginning) const;
  /// Whether a function's parameters name this argument.
  [[nodiscard]] bool names(std::string_view function, std::string_view argument) const;
  [[nodiscard]] argument_type of(std::string_view function, std::string_view argument) const;

 private:
  std::map<std::string, named_arguments, std::less<>> functions_;
};

}  // namespace orcd::engine
