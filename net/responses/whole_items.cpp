#include "net/responses/whole_items.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "net/json/object_members.hpp"
#include "net/json/request_fields.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;

constexpr std::size_t id_bytes_max = 128;

std::string_view prefix_of(std::string_view type) {
  if (type == "message") return "msg_";
  if (type == "reasoning") return "rs_";
  if (type == "function_call") return "fc_";
  if (type == "custom_tool_call") return "ctc_";
  return "item_";
}

/// The client's id where it has one.
std::string id_of(const json::object& item, std::string_view type) {
  const auto* given = find_member(item, "id");
  if (given != nullptr && given->is_string()) {
    const auto& id = given->get_string();
    if (!id.empty() && id.size() <= id_bytes_max) return std::string(id);
  }
  return std::string(prefix_of(type)) + make_request_id();
}

json::array parts_of(const json::string& text, bool answer) {
  json::object part{{"type", answer ? "output_text" : "input_text"}, {"text", text}};
  if (answer) part["annotations"] = json::array();
  return {std::move(part)};
}

kept_item whole_item(const json::object& given) {
  const auto* kind = find_member(given, "type");
  const std::string type(kind == nullptr ? std::string_view("message")
                                         : std::string_view(kind->get_string()));
  kept_item out{id_of(given, type), {}};
  json::object item{{"id", out.id}, {"type", type}};
  if (type != "reasoning") item["status"] = "completed";
  for (const auto& member : given) {
    if (member.key() == "id" || member.key() == "type" || member.value().is_null()) continue;
    item[member.key()] = member.value();
  }
  auto* content = item.if_contains("content");
  if (type == "message" && content == nullptr) {
    item["content"] = json::array();
  } else if (type == "message" && content->is_string()) {
    item["content"] =
        parts_of(json::string(content->get_string()), given.at("role") == json::value("assistant"));
  }
  out.json = json::serialize(item);
  out.json.shrink_to_fit();  // it may be kept for long
  return out;
}

}  // namespace

kept_items whole_items(const json::value& input) {
  kept_items out;
  if (input.is_string()) {
    out.push_back(whole_item({{"role", "user"}, {"content", input}}));
    return out;
  }
  const auto& items = input.get_array();
  out.reserve(items.size());
  for (const json::value& item : items) out.push_back(whole_item(item.get_object()));
  return out;
}

}  // namespace orcd::net
