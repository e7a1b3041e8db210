// What a tool of the Responses API is called where tools are functions with one name each, as the model and
// /v1/chat/completions have them, and back. Pure. Private to net/.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace orcd::net {

/// How a client knows a function that the model may call.
struct called_tool {
  std::string name;
  std::string space;    ///< the namespace; empty: none
  bool custom = false;  ///< takes text, not JSON
};

/// By the names that the model uses.
using tool_names = std::map<std::string, called_tool, std::less<>>;

/// The function's name for the model: "space__name".
[[nodiscard]] std::string flat_name(std::string_view space, std::string_view name);

/// A custom tool is a function with one argument, its text: to that function's arguments and back. What is no
/// such object is taken as the text itself.
[[nodiscard]] std::string custom_arguments(std::string_view text);
[[nodiscard]] std::string custom_input(std::string_view arguments);

}  // namespace orcd::net
