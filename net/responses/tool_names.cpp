#include "net/responses/tool_names.hpp"

#include <boost/json/object.hpp>

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

std::string custom_input(std::string_view arguments) {
  const auto object = read_json_tree(arguments);
  if (object && object->size() == 1) {
    const auto* text = object->if_contains("input");
    if (text != nullptr && text->is_string()) return std::string(text->get_string());
  }
  return std::string(arguments);
}

}  // namespace orcd::net
