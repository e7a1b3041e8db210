#include "engine/message_habits.hpp"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "engine/sha256.hpp"

namespace orcd::engine {
namespace {

namespace json = boost::json;

constexpr std::string_view probe_name = "orcd_probe";
constexpr std::string_view probe_value = "Quetzalcoatlus";
constexpr std::string_view probe_metadata = "Pterodactylus";
constexpr std::string_view probe_id = "abcdef123";
/// A fixed time, so that a template's habits do not depend on when it was loaded.
constexpr chat_template::time_point probe_time{std::chrono::hours(24 * 20'000)};

/// A conversation with a call of `probe_name`.
json::object conversation(json::value content, json::value arguments, std::string_view id) {
  const json::object property{{"type", "string"}, {"description", "A text."}};
  const json::object parameters{
      {"type", "object"}, {"properties", json::object{{"x", property}}}, {"required", json::array{"x"}}};
  const json::object function{{"name", probe_name}, {"description", "A probe."}, {"parameters", parameters}};
  const json::object called{{"name", probe_name}, {"arguments", std::move(arguments)}};
  const json::object call{{"id", id}, {"type", "function"}, {"function", called}};
  const json::object asks{{"role", "user"}, {"content", "?"}};
  const json::object calls{
      {"role", "assistant"}, {"content", std::move(content)}, {"tool_calls", json::array{call}}};
  const json::object answers{{"role", "tool"}, {"content", "!"}, {"name", probe_name}, {"tool_call_id", id}};
  return {{"messages", json::array{asks, calls, answers}},
          {"tools", json::array{json::object{{"type", "function"}, {"function", function}}}},
          {"documents", nullptr},
          {"add_generation_prompt", true}};
}

/// Makes calls messages of their own (message_habits::metadata_calls).
void part_calls(json::array& messages) {
  json::array out;
  for (json::value& value : messages) {
    json::object& message = value.as_object();
    if (message.at("role") == json::value("tool")) message["role"] = "observation";
    json::value calls;
    if (auto* found = message.if_contains("tool_calls")) calls = std::move(*found);
    message.erase("tool_calls");
    const bool says = calls.is_null() || message.at("content") != json::value("");
    if (says) out.push_back(std::move(value));
    if (calls.is_null()) continue;
    for (json::value& call : calls.as_array()) {
      json::object& function = call.at("function").as_object();
      json::value& arguments = function.at("arguments");
      if (!arguments.is_string()) arguments = json::serialize(arguments);
      out.push_back(json::object{{"role", "assistant"},
                                 {"metadata", std::move(function.at("name"))},
                                 {"content", std::move(arguments)}});
    }
  }
  messages = std::move(out);
}

class prober {
 public:
  prober(const chat_template& compiled, const json::object& special_tokens)
      : compiled_(compiled), special_tokens_(special_tokens) {}

  /// Whether the template renders the conversation with the call's arguments in it.
  [[nodiscard]] bool shows(json::value content, json::value arguments, std::string_view id = probe_id) const {
    const auto text = rendered(conversation(std::move(content), std::move(arguments), id));
    return text && text->find(probe_value) != std::string::npos;
  }
  [[nodiscard]] bool shows_parted(const json::object& arguments) const {
    json::object variables = conversation("", arguments, probe_id);
    json::array& messages = variables.at("messages").as_array();
    part_calls(messages);
    // Any template may print the content; only one that reads the name shows a call.
    for (json::value& message : messages) {
      if (auto* name = message.as_object().if_contains("metadata")) *name = probe_metadata;
    }
    const auto text = rendered(variables);
    return text && text->find(probe_value) != std::string::npos &&
           text->find(probe_metadata) != std::string::npos;
  }
  [[nodiscard]] bool renders(std::string_view id) const {
    return rendered(conversation("", json::object{{"x", probe_value}}, id)).has_value();
  }

 private:
  [[nodiscard]] std::optional<std::string> rendered(const json::object& variables) const {
    auto quick = compiled_.render_quickly(variables, probe_time, special_tokens_);
    if (!quick || !*quick) return std::nullopt;
    return std::move(**quick);
  }

  const chat_template& compiled_;
  const json::object& special_tokens_;
};

bool is_short_id(std::string_view id) {
  return id.size() == 9 && std::all_of(id.begin(), id.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
         });
}

/// Gives foreign ids nine characters of their digest, which does not depend on where in a conversation they
/// are: the next turn's prompt begins with this one's.
class short_ids {
 public:
  void keep(std::string_view id) {
    if (is_short_id(id)) used_.emplace(id);
  }
  const std::string& of(const std::string& id) {
    if (is_short_id(id)) return id;
    std::string& made = made_[id];
    for (std::string from = id; made.empty(); from += '+') {
      std::string digest = sha256_of(from).substr(0, 9);
      if (used_.insert(digest).second) made = std::move(digest);
    }
    return made;
  }

 private:
  std::set<std::string, std::less<>> used_;
  std::map<std::string, std::string> made_;
};

/// Calls visit(value) for each id in the messages.
template <class Visit>
void for_ids(json::array& messages, Visit visit) {
  for (auto& message : messages) {
    auto& object = message.as_object();
    if (auto* id = object.if_contains("tool_call_id")) visit(*id);
    auto* calls = object.if_contains("tool_calls");
    if (calls == nullptr) continue;
    for (auto& call : calls->as_array()) visit(call.as_object().at("id"));
  }
}

void shorten_ids(json::array& messages) {
  short_ids ids;
  for_ids(messages, [&](const json::value& id) { ids.keep(id.as_string()); });
  for_ids(messages, [&](json::value& id) { id = ids.of(std::string(id.as_string())); });
}

void adapt_arguments(json::value& arguments, const message_habits& habits) {
  if (arguments.is_object()) {
    if (habits.text_arguments) arguments = json::serialize(arguments);
  } else if (!habits.any_text) {
    arguments = json::object{{"arguments", std::move(arguments)}};
    if (habits.text_arguments) arguments = json::serialize(arguments);
  }
}

}  // namespace

message_habits learn_habits(const chat_template& compiled, const json::object& special_tokens) {
  const prober probe(compiled, special_tokens);
  const json::object object{{"x", probe_value}};
  const json::string text(json::serialize(object));
  message_habits out;
  if (!probe.shows("", object)) {
    out.null_content = probe.shows(nullptr, object);
    out.text_arguments = !out.null_content && probe.shows("", text);
    if (!out.null_content && !out.text_arguments && probe.shows(nullptr, text)) {
      out.null_content = true;
      out.text_arguments = true;
    }
  }
  const json::value content = out.null_content ? json::value(nullptr) : json::value("");
  const bool shows = out.text_arguments ? probe.shows(content, text) : probe.shows(content, object);
  out.metadata_calls = !shows && probe.shows_parted(object);
  // A template that shows no calls cannot mind their arguments.
  if (shows) out.any_text = probe.shows(content, json::string(probe_value));
  out.short_ids = !probe.renders("call_1") && probe.renders(probe_id);
  return out;
}

void adapt_messages(json::array& messages, const message_habits& habits) {
  for (auto& message : messages) {
    auto& object = message.as_object();
    auto* calls = object.if_contains("tool_calls");
    if (calls == nullptr) continue;
    auto& content = object.at("content");
    if (habits.null_content && content.is_string() && content.get_string().empty()) content = nullptr;
    for (auto& call : calls->as_array()) {
      adapt_arguments(call.at("function").at("arguments"), habits);
    }
  }
  if (habits.short_ids) shorten_ids(messages);
  if (habits.metadata_calls) part_calls(messages);
}

}  // namespace orcd::engine
