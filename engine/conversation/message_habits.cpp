#include "engine/conversation/message_habits.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/sha256.hpp"
#include "engine/chat/call_syntax.hpp"
#include "engine/conversation/argument_text.hpp"

namespace orcd::engine {
namespace {

namespace json = boost::json;

constexpr std::string_view probe_name = "orcd_probe";
constexpr std::string_view probe_value = "Quetzalcoatlus";
constexpr std::string_view probe_metadata = "Pterodactylus";
constexpr std::string_view probe_text = "Dimorphodon";
constexpr std::string_view probe_id = "abcdef123";
constexpr std::string_view probe_second_id = "abcdef124";
/// A fixed time, so that a template's habits do not depend on when it was loaded.
constexpr chat_template::time_point probe_time{std::chrono::hours(24 * 20'000)};

std::string usual_text(const json::value& arguments) {
  return argument_text(arguments, json_spacing::usual);
}

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
      if (!arguments.is_string()) arguments = usual_text(arguments);
      out.push_back(json::object{{"role", "assistant"},
                                 {"metadata", std::move(function.at("name"))},
                                 {"content", std::move(arguments)}});
    }
  }
  messages = std::move(out);
}

/// Makes reasoning the first part of the content.
void put_thoughts_into_parts(json::object& message) {
  const auto* const thoughts = message.if_contains("reasoning_content");
  json::value& content = message.at("content");
  if (thoughts == nullptr || !thoughts->is_string() || thoughts->get_string().empty()) return;
  json::array parts{json::object{{"type", "thinking"}, {"thinking", *thoughts}}};
  if (content.is_string() && !content.get_string().empty()) {
    parts.push_back(json::object{{"type", "text"}, {"text", content}});
  }
  content = std::move(parts);
}

bool calls_with_text(const json::object& message) {
  const json::value& content = message.at("content");
  return message.contains("tool_calls") && content.is_string() && !content.get_string().empty();
}
std::size_t behind_results(const json::array& messages, std::size_t call) {
  std::size_t at = call + 1;
  while (at < messages.size() && messages[at].at("role") == json::value("tool")) ++at;
  return at;
}

/// Makes text beside calls a message behind their results, where the template has it anyhow: what follows it
/// is then the next message, and not the rest of this one.
void part_late_text(json::array& messages) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    json::object& message = messages[i].as_object();
    const std::size_t end = behind_results(messages, i);
    if (!calls_with_text(message) || end == i + 1) continue;
    json::object said{{"role", "assistant"}, {"content", message.at("content")}};
    message["content"] = "";
    messages.insert(messages.begin() + static_cast<std::ptrdiff_t>(end), std::move(said));
  }
}

/// The name of the function that a result is of.
json::value name_of_result(const json::object& calling, const json::object& answer) {
  const auto* const id = answer.if_contains("tool_call_id");
  for (const json::value& call : calling.at("tool_calls").as_array()) {
    const auto* const own = call.as_object().if_contains("id");
    if (id != nullptr && own != nullptr && *own == *id) return call.at("function").at("name");
  }
  const auto* const name = answer.if_contains("name");
  return name != nullptr ? *name : json::value("unknown");
}

/// Puts results into the message of their calls and, if more follows, the answer behind them, too.
void enclose_results(json::array& messages) {
  json::array out;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    json::object& message = messages[i].as_object();
    const std::size_t end = behind_results(messages, i);
    if (message.contains("tool_calls") && end > i + 1) {
      json::array results;
      for (std::size_t at = i + 1; at < end; ++at) {
        const json::object& answer = messages[at].as_object();
        results.push_back(
            json::object{{"name", name_of_result(message, answer)}, {"response", answer.at("content")}});
      }
      message["tool_responses"] = std::move(results);
      i = end - 1;
      const bool more = end + 1 < messages.size() && message.at("content") == json::value("");
      const json::object* const next = more ? &messages[end].as_object() : nullptr;
      if (next != nullptr && next->at("role") == json::value("assistant") && !next->contains("tool_calls")) {
        message["content"] = next->at("content");
        i = end;
      }
    }
    out.push_back(std::move(message));
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
  /// Whether a message shows a second call of it.
  [[nodiscard]] bool shows_two(const json::value& content, const json::value& arguments,
                               const json::value& others) const {
    json::object variables = conversation(content, arguments, probe_id);
    json::array& messages = variables.at("messages").as_array();
    json::array& calls = messages[1].at("tool_calls").as_array();
    json::value second = calls[0];
    second.at("id") = probe_second_id;
    second.at("function").at("arguments") = others;
    calls.push_back(std::move(second));
    json::value result = messages[2];
    result.at("tool_call_id") = probe_second_id;
    messages.push_back(std::move(result));
    const auto text = rendered(variables);
    return text && text->find(probe_value) != std::string::npos &&
           text->find(probe_metadata) != std::string::npos;
  }
  /// Whether a message with a call shows this reasoning.
  [[nodiscard]] bool shows_thoughts(bool parts, const json::value& arguments) const {
    json::object variables = conversation("", arguments, probe_id);
    json::object& message = variables.at("messages").as_array()[1].as_object();
    message["reasoning_content"] = probe_metadata;
    message["thinking"] = probe_metadata;
    message["content"] = "Says.";
    if (parts) put_thoughts_into_parts(message);
    const auto text = rendered(variables);
    if (!text || text->find(probe_metadata) == std::string::npos) return false;
    // A template that prints any content prints a list of parts as such.
    return text->find("'thinking'") == std::string::npos && text->find("\"thinking\"") == std::string::npos;
  }
  /// Whether results within the message of their calls are shown, and not as they are in one of their own.
  [[nodiscard]] bool shows_results_within(const json::value& content, const json::value& arguments) const {
    json::object variables = conversation(content, arguments, probe_id);
    json::array& messages = variables.at("messages").as_array();
    messages[2].at("content") = probe_metadata;
    const auto own = rendered(variables);
    enclose_results(messages);
    const auto within = rendered(variables);
    return own && within && own != within && within->find(probe_metadata) != std::string::npos;
  }
  /// Whether text beside a call is shown behind its result.
  [[nodiscard]] bool shows_late_text(bool results_within, const json::value& arguments) const {
    json::object variables = conversation(json::string(probe_text), arguments, probe_id);
    json::array& messages = variables.at("messages").as_array();
    messages[2].at("content") = probe_metadata;
    if (results_within) enclose_results(messages);
    const auto shown = rendered(variables);
    if (!shown) return false;
    const std::size_t text = shown->find(probe_text), result = shown->find(probe_metadata);
    return text != std::string::npos && result != std::string::npos && text > result;
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

/// The arguments of one call, in the form that the template takes.
void adapt_arguments(json::object& function, const message_habits& habits) {
  json::value& arguments = function.at("arguments");
  auto* const sent = function.if_contains(sent_arguments);
  const bool as_text = habits.text_arguments || habits.metadata_calls;
  if (sent == nullptr && arguments.is_object()) {
    if (habits.text_arguments) arguments = usual_text(arguments);
    if (!as_text && habits.compact_arguments) {
      function[sent_arguments] = argument_text(arguments, json_spacing::none);
    }
  } else if (sent == nullptr) {
    if (habits.any_text) return;
    arguments = json::object{{"arguments", std::move(arguments)}};
    if (habits.text_arguments) arguments = usual_text(arguments);
  } else if (as_text) {
    arguments = std::move(*sent);
    function.erase(sent_arguments);
  } else if (arguments.is_object() && !habits.compact_arguments) {
    *sent = with_usual_spacing(sent->get_string());
  }
}

/// Writes calls into the text, as the model wrote them.
void write_calls(json::object& message, call_format format) {
  const auto* const calls = message.if_contains("tool_calls");
  json::value& content = message.at("content");
  if (calls == nullptr || !content.is_string()) return;
  std::vector<written_call> all;
  for (const json::value& call : calls->as_array()) {
    const json::object& function = call.at("function").as_object();
    const auto* const sent = function.if_contains(sent_arguments);
    const json::value& arguments = function.at("arguments");
    all.push_back({std::string(function.at("name").as_string()),
                   sent != nullptr         ? with_usual_spacing(sent->get_string())
                   : arguments.is_string() ? std::string(arguments.get_string())
                                           : usual_text(arguments)});
  }
  const std::string text = written_calls(format, all);
  if (text.empty()) return;
  std::string whole(content.get_string());
  whole += whole.empty() ? "" : "\n";
  content = whole + text;
  message.erase("tool_calls");
}

/// Makes a message of each call, with its results behind it. Results of no call stay behind all of them.
void part_messages(json::array& messages) {
  json::array out;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    json::object& message = messages[i].as_object();
    json::value calls;
    if (auto* found = message.if_contains("tool_calls")) calls = *found;
    if (calls.is_null() || calls.as_array().size() < 2) {
      out.push_back(std::move(messages[i]));
      continue;
    }
    std::size_t end = i + 1;
    std::map<std::string, std::vector<std::size_t>, std::less<>> results;
    for (; end < messages.size() && messages[end].at("role") == json::value("tool"); ++end) {
      results[std::string(messages[end].at("tool_call_id").as_string())].push_back(end);
    }
    for (json::value& call : calls.as_array()) {
      const auto own = results.find(std::string_view(call.at("id").as_string()));
      message["tool_calls"] = json::array{std::move(call)};
      out.push_back(message);
      message = json::object{{"role", "assistant"}, {"content", ""}};
      if (own == results.end()) continue;
      for (const std::size_t at : std::exchange(own->second, {})) {
        out.push_back(std::move(messages[at]));
        messages[at] = nullptr;
      }
    }
    for (++i; i < end; ++i) {
      if (!messages[i].is_null()) out.push_back(std::move(messages[i]));
    }
    --i;
  }
  messages = std::move(out);
}

}  // namespace

message_habits learn_habits(const chat_template& compiled, const json::object& special_tokens) {
  const prober probe(compiled, special_tokens);
  const json::object object{{"x", probe_value}};
  const json::string text(usual_text(object));
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
  out.no_calls = !shows && !out.metadata_calls && probe.renders(probe_id);
  // A template that shows no calls cannot mind their arguments.
  if (shows) {
    const auto form = [&](const json::object& one) {
      return out.text_arguments ? json::value(usual_text(one)) : json::value(one);
    };
    out.any_text = probe.shows(content, json::string(probe_value));
    out.one_call = !probe.shows_two(content, form(object), form({{"x", probe_metadata}}));
    out.results_within = probe.shows_results_within(content, form(object));
    out.late_text = probe.shows_late_text(out.results_within, form(object));
    out.thinking_parts =
        !probe.shows_thoughts(false, form(object)) && probe.shows_thoughts(true, form(object));
  }
  out.short_ids = !probe.renders("call_1") && probe.renders(probe_id);
  return out;
}

void adapt_messages(json::array& messages, const message_habits& habits) {
  if (habits.one_call) part_messages(messages);
  if (habits.late_text) part_late_text(messages);
  if (habits.results_within) enclose_results(messages);
  for (auto& message : messages) {
    auto& object = message.as_object();
    if (habits.no_calls) write_calls(object, habits.written_as);
    if (habits.thinking_parts) put_thoughts_into_parts(object);
    auto* calls = object.if_contains("tool_calls");
    if (calls == nullptr) continue;
    auto& content = object.at("content");
    if (habits.null_content && content.is_string() && content.get_string().empty()) content = nullptr;
    for (auto& call : calls->as_array()) adapt_arguments(call.at("function").as_object(), habits);
  }
  if (habits.short_ids) shorten_ids(messages);
  if (habits.metadata_calls) part_calls(messages);
}

}  // namespace orcd::engine
