#include "net/responses/transcript.hpp"

#include <boost/json/value.hpp>
#include <utility>

namespace orcd::net {

namespace json = boost::json;

json::object& transcript::message(std::string_view role) {
  if (messages_.empty() || messages_.back().at("role") != json::value(role)) {
    messages_.push_back(json::object{{"role", role}, {"content", ""}});
  }
  return messages_.back().as_object();
}

void transcript::append(std::string_view role, std::string_view member, std::string_view text,
                        std::string_view between) {
  auto& value = message(role)[member];
  if (!value.is_string()) value.emplace_string();
  auto& to = value.get_string();
  if (!to.empty() && !text.empty()) to += between;
  to += text;
}

void transcript::call(std::string_view id, std::string_view name, std::string_view arguments) {
  auto& calls = message("assistant")["tool_calls"];
  if (!calls.is_array()) calls.emplace_array();
  json::object function{{"name", name}, {"arguments", arguments}};
  calls.get_array().push_back(
      json::object{{"id", id}, {"type", "function"}, {"function", std::move(function)}});
}

void transcript::result_of(std::string_view id, std::string_view text) {
  messages_.push_back(json::object{{"role", "tool"}, {"tool_call_id", id}, {"content", text}});
}

}  // namespace orcd::net
