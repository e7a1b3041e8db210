#include "net/ollama/ollama_request.hpp"

#include <array>
#include <boost/json/array.hpp>
#include <utility>

#include "net/json/names.hpp"
#include "net/json/object_members.hpp"
#include "net/json/read_body.hpp"
#include "net/ollama/ollama_fields.hpp"
#include "net/ollama/ollama_messages.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::result;

class chat_fields {
 public:
  explicit chat_fields(const completion_limits& limits) : fields_(completion_kind::chat, limits) {}

  result<void> take(std::string_view name, const json::value& value) {
    if (name == "tools") return fields_.shared().take(name, read_ollama_tools(value));
    // ollama does not have them; nothing else says that a tool must be called.
    if (name == "tool_choice" || name == "parallel_tool_calls") return fields_.shared().take(name, value);
    if (name != "messages") return fields_.take(name, value);
    if (value.is_null()) return {};
    auto messages = read_ollama_messages(value);
    if (!messages) return messages.error();
    return fields_.shared().take(name, *messages);
  }

  result<completion_request> finish() && { return std::move(fields_).finish(); }

 private:
  ollama_fields fields_;
};

/// The fields of /api/generate that make its prompt. The views point into the body's tree.
struct prompt_parts {
  std::string_view prompt;
  std::string_view system;
  std::string_view suffix;
  std::string_view chat_template;
  bool raw = false;
};

constexpr std::array<std::string_view, 7> prompt_fields{"prompt", "system",  "suffix", "template",
                                                        "raw",    "context", "images"};

result<void> take_prompt_field(std::string_view name, const json::value& value, prompt_parts& out) {
  if (value.is_null()) return {};
  if (name == "images") return check_no_images(name, value);
  if (name == "context") {
    const auto* ids = value.if_array();
    if (ids == nullptr) return refuse_kind(name, "an array", value);
    return ids->empty() ? result<void>() : refuse_field(name, "is not supported: send messages to /api/chat");
  }
  if (name == "raw") {
    const auto truth = as_flag(name, value);
    if (!truth) return truth.error();
    out.raw = *truth;
    return {};
  }
  const auto text = as_text(name, value);
  if (!text) return text.error();
  (name == "prompt"   ? out.prompt
   : name == "system" ? out.system
   : name == "suffix" ? out.suffix
                      : out.chat_template) = *text;
  return {};
}

result<prompt_parts> read_prompt_parts(const json::object& body) {
  prompt_parts out;
  const auto read = each_member(body, [&out](std::string_view name, const json::value& value) {
    return is_listed(prompt_fields, name) ? take_prompt_field(name, value, out) : result<void>();
  });
  if (!read) return read.error();
  if (!out.chat_template.empty()) {
    return refuse_field("template", "is not supported: templates of ollama are written in Go's language");
  }
  if (!out.system.empty() && (out.raw || !out.suffix.empty())) {
    return refuse_field("system", "cannot be beside '" + std::string(out.raw ? "raw" : "suffix") + "'");
  }
  return out;
}

result<void> give_prompt(const prompt_parts& parts, completion_kind kind, completion_fields& to) {
  if (kind == completion_kind::text) {
    if (const auto taken = to.take("prompt", json::value(parts.prompt)); !taken) return taken;
    return to.take("suffix", json::value(parts.suffix));
  }
  if (parts.prompt.empty()) return refuse_field("prompt", "must not be empty");
  json::array messages;
  if (!parts.system.empty()) messages.push_back({{"role", "system"}, {"content", parts.system}});
  messages.push_back({{"role", "user"}, {"content", parts.prompt}});
  return to.take("messages", messages);
}

bool is_absent(const json::object& body, std::string_view name, const json::value& empty) {
  const auto* value = find_member(body, name);
  return value == nullptr || *value == empty;
}

/// What else a request without a prompt says, checked as if there were one.
json::array some_prompt() {
  return {{{"role", "user"}, {"content", "."}}};
}

result<completion_request> check_chat(const json::object& body, const completion_limits& limits) {
  chat_fields fields(limits);
  const auto read = each_member(body, [&fields](std::string_view name, const json::value& value) {
    return name == "messages" ? result<void>() : fields.take(name, value);
  });
  if (!read) return read.error();
  if (const auto given = fields.take("messages", some_prompt()); !given) return given.error();
  return std::move(fields).finish();
}

result<completion_request> check_generate(const json::object& body, const completion_limits& limits) {
  if (const auto parts = read_prompt_parts(body); !parts) return parts.error();
  ollama_fields fields(completion_kind::chat, limits);
  const auto read = each_member(body, [&fields](std::string_view name, const json::value& value) {
    return is_listed(prompt_fields, name) ? result<void>() : fields.take(name, value);
  });
  if (!read) return read.error();
  if (const auto given = fields.shared().take("messages", some_prompt()); !given) return given.error();
  return std::move(fields).finish();
}

}  // namespace

result<completion_request> parse_ollama_chat(std::string_view body, const completion_limits& limits) {
  return read_fields(body, chat_fields(limits));
}

result<completion_request> parse_ollama_generate(std::string_view body, const completion_limits& limits) {
  const auto tree = read_json_tree(body);
  if (!tree) return tree.error();
  const auto parts = read_prompt_parts(*tree);
  if (!parts) return parts.error();
  const bool as_is = parts->raw || !parts->suffix.empty();
  const auto kind = as_is ? completion_kind::text : completion_kind::chat;
  ollama_fields fields(kind, limits);
  const auto read = each_member(*tree, [&fields](std::string_view name, const json::value& value) {
    return is_listed(prompt_fields, name) ? result<void>() : fields.take(name, value);
  });
  if (!read) return read.error();
  if (const auto given = give_prompt(*parts, kind, fields.shared()); !given) return given.error();
  return std::move(fields).finish();
}

result<std::optional<std::string>> asks_to_load(ollama_use use, std::string_view body,
                                                const completion_limits& limits) {
  std::optional<std::string> none;
  const auto tree = read_json_tree(body);
  if (!tree) return none;
  const bool chat = use == ollama_use::chat;
  if (chat ? !is_absent(*tree, "messages", json::array())
           : !is_absent(*tree, "prompt", "") || !is_absent(*tree, "suffix", "")) {
    return none;
  }
  const auto checked = chat ? check_chat(*tree, limits) : check_generate(*tree, limits);
  if (!checked) return checked.error();
  return std::optional(checked->model.empty() ? limits.served.model_name : checked->model);
}

}  // namespace orcd::net
