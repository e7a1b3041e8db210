#include "engine/conversation/generic_messages.hpp"

#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <map>
#include <string_view>
#include <utility>

#include "engine/conversation/message_habits.hpp"

namespace orcd::engine {

namespace {

namespace json = boost::json;

constexpr std::string_view first_words =
    "You can call any of the following tools to satisfy the user's requests:\n";

std::string_view text_of(const json::value& value) {
  if (!value.is_string()) return {};
  return {value.get_string().data(), value.get_string().size()};
}

std::string quoted(std::string_view text) {
  return json::serialize(json::string(text));
}

/// The arguments as they were sent. A text that is no object may be the beginning of one.
std::string argument_text(const json::object& function) {
  if (const auto* sent = function.if_contains(sent_arguments)) return std::string(text_of(*sent));
  const json::value& arguments = function.at("arguments");
  const std::string_view text = text_of(arguments);
  const std::size_t first = text.find_first_not_of(" \n\t\r");
  const bool begins = first != std::string_view::npos && text[first] == '{';
  return begins ? std::string(text) : json::serialize(arguments);
}

/// An assistant's message as the model would write it.
std::string written(const json::object& message, const json::array& calls, bool parallel) {
  std::string out = "{";
  if (const std::string_view said = text_of(message.at("content")); !said.empty())
    out += "\"response\": " + quoted(said) + ", ";
  const bool list = parallel || calls.size() > 1;
  out += list ? "\"tool_calls\": [" : "\"tool_call\": ";
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const json::object& function = calls[i].at("function").as_object();
    if (i > 0) out += ", ";
    out += "{\"name\": " + quoted(text_of(function.at("name"))) +
           ", \"arguments\": " + argument_text(function) + "}";
  }
  return out + (list ? "]}" : "}");
}

std::string written_result(const json::object& message, std::string_view name) {
  std::string out = "{\"tool_response\": {";
  if (!name.empty()) out += "\"tool\": " + quoted(name) + ", ";
  return out + "\"content\": " + quoted(text_of(message.at("content"))) + "}}";
}

class text_writer {
 public:
  text_writer(bool parallel, bool responses) : parallel_(parallel), responses_(responses) {}

  void add(json::object message) {
    const std::string_view role = text_of(message.at("role"));
    if (role == "assistant") return add_turn(std::move(message));
    if (role == "tool") return add_result(message);
    const bool joined = role == "user" && behind_result_ && message.at("content").is_string();
    if (joined) return join(text_of(message.at("content")));
    behind_result_ = false;
    out_.push_back(std::move(message));
  }
  [[nodiscard]] json::array take() { return std::move(out_); }

 private:
  void add_turn(json::object message) {
    behind_result_ = false;
    json::value found;
    if (auto* calls = message.if_contains("tool_calls")) found = std::move(*calls);
    message.erase("tool_calls");
    if (found.is_array()) {
      const json::array& calls = found.get_array();
      for (const json::value& call : calls) names_[std::string(text_of(call.at("id")))] = name_of(call);
      message["content"] = written(message, calls, parallel_);
    } else if (responses_ && message.at("content").is_string()) {
      message["content"] = "{\"response\": " + quoted(text_of(message.at("content"))) + "}";
    }
    out_.push_back(std::move(message));
  }

  [[nodiscard]] static std::string name_of(const json::value& call) {
    return std::string(text_of(call.at("function").at("name")));
  }

  void add_result(const json::object& message) {
    std::string name;
    if (const auto* id = message.if_contains("tool_call_id")) {
      if (const auto called = names_.find(text_of(*id)); called != names_.end()) name = called->second;
    }
    if (const auto* own = message.if_contains("name")) name = std::string(text_of(*own));
    const std::string text = written_result(message, name);
    const bool behind_user = !out_.empty() && out_.back().at("role") == json::value("user") &&
                             out_.back().at("content").is_string();
    behind_result_ = true;
    if (behind_user) return join(text);
    out_.push_back(json::object{{"role", "user"}, {"content", text}});
  }

  void join(std::string_view text) {
    json::string& content = out_.back().at("content").as_string();
    content.push_back('\n');
    content.append(text);
  }

  bool parallel_;
  bool responses_;  ///< answers without calls have their form, too
  bool behind_result_ = false;
  json::array out_;
  std::map<std::string, std::string, std::less<>> names_;  ///< of called functions, by the calls' ids
};

void write(json::array& messages, bool parallel, bool responses) {
  text_writer writer(parallel, responses);
  for (json::value& message : messages) writer.add(std::move(message.as_object()));
  messages = writer.take();
}

}  // namespace

std::string generic_instructions(const json::array& tools, bool parallel) {
  std::string out(first_words);
  for (const json::value& tool : tools) out += json::serialize(tool) + "\n";
  out += "\nRespond in JSON format, either with ";
  out += parallel ? "`tool_calls` (a request to call tools)" : "`tool_call` (a request to call a tool)";
  out += " or with `response` (a reply to the user's request):\n";
  out += parallel ? R"({"tool_calls": [{"name": "NAME", "arguments": {"ARGUMENT": "VALUE"}}]})"
                  : R"({"tool_call": {"name": "NAME", "arguments": {"ARGUMENT": "VALUE"}}})";
  return out + "\n{\"response\": \"TEXT\"}";
}

bool has_generic_instructions(std::string_view prompt) noexcept {
  return prompt.find(first_words) != std::string_view::npos;
}

void write_calls_as_text(json::array& messages, bool parallel) {
  write(messages, parallel, false);
}

void write_tools_as_text(json::array& messages, const json::array& tools, bool parallel) {
  write(messages, parallel, true);
  const std::string told = generic_instructions(tools, parallel);
  const bool has_system = !messages.empty() && messages.front().at("role") == json::value("system") &&
                          messages.front().at("content").is_string();
  if (!has_system) {
    messages.insert(messages.begin(), json::object{{"role", "system"}, {"content", told}});
    return;
  }
  json::value& content = messages.front().at("content");
  std::string whole(text_of(content));
  if (!whole.empty()) whole += "\n\n";
  content = whole + told;
}

}  // namespace orcd::engine
