#include "net/responses/tool_names.hpp"

#include <boost/json/object.hpp>
#include <optional>
#include <utility>

#include "net/json/json_text.hpp"
#include "net/json/json_value.hpp"

namespace orcd::net {

std::string flat_name(std::string_view space, std::string_view name) {
  if (space.empty()) return std::string(name);
  return std::string(space) + (space.ends_with("__") ? "" : "__") + std::string(name);
}

std::string custom_arguments(std::string_view text) {
  std::string out;
  json_object object(out);
  object.text("input", text);
  object.close();
  return out;
}

namespace {

std::optional<std::string> input_of(std::string_view arguments) {
  const auto object = read_json_tree(arguments);
  if (!object || object->size() != 1) return std::nullopt;
  const auto* text = object->if_contains("input");
  if (text == nullptr || !text->is_string()) return std::nullopt;
  return std::string(text->get_string());
}

}  // namespace

std::string custom_input(std::string_view arguments) {
  if (auto whole = input_of(arguments)) return std::move(*whole);
  // Arguments that were cut off may end within an escape.
  constexpr std::size_t escape_bytes_max = 12;
  for (std::size_t cut = 0; cut < escape_bytes_max && cut < arguments.size(); ++cut) {
    auto begun = input_of(std::string(arguments.substr(0, arguments.size() - cut)) + "\"}");
    if (begun) return std::move(*begun);
  }
  return std::string(arguments);
}

}  // namespace orcd::net
