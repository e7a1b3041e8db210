#include "net/completion/chat_messages.hpp"

#include <array>
#include <boost/json/object.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/jinja/template_limits.hpp"
#include "net/completion/completion_request.hpp"
#include "net/completion/left_fields.hpp"
#include "net/completion/sent_media.hpp"
#include "net/json/json_value.hpp"
#include "net/json/names.hpp"
#include "net/json/object_members.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::result;

/// A function's result is the older form of a tool's.
constexpr std::array<std::string_view, 6> roles = {"system",    "developer", "user",
                                                   "assistant", "tool",      "function"};

/// What a message says in its content.
struct content {
  std::string text;
  std::string thoughts;
};

/// Where a message is read, and what its role allows.
struct message_place {
  std::string path;
  bool assistant = false;
  bool tool = false;
  left_names* left = nullptr;   ///< of a tool; null: a picture is refused
  sent_media* media = nullptr;  ///< of a user; likewise
};

void join(std::string& to, std::string_view text, bool first) {
  if (!first) to += '\n';
  to += text;
}

/// A part's text under the member that has it.
result<std::string_view> text_of_part(const json::object& part, const std::string& where,
                                      std::string_view member) {
  const std::array<std::string_view, 2> known = {"type", member};
  if (const auto ok = only_members(part, where, known, left_fields(field_place::part)); !ok)
    return ok.error();
  return text_member(part, where, member);
}

/// What an assistant has thought: a string, or with Mistral a list of text parts.
result<std::string> thoughts_of_part(const json::object& part, const std::string& where) {
  constexpr std::array<std::string_view, 4> known = {"type", "thinking", "signature", "closed"};
  if (const auto ok = only_members(part, where, known, left_fields(field_place::part)); !ok)
    return ok.error();
  const auto* list = part.if_contains("thinking");
  if (list == nullptr || !list->is_array()) {
    const auto text = text_member(part, where, "thinking");
    if (!text) return text.error();
    return std::string(*text);
  }
  std::string out;
  for (std::size_t i = 0; i < list->get_array().size(); ++i) {
    const std::string path = element_path(where + ".thinking", i);
    const auto* piece = list->get_array()[i].if_object();
    if (piece == nullptr) return refuse_kind(path, "an object", list->get_array()[i]);
    const auto text = text_of_part(*piece, path, "text");
    if (!text) return text.error();
    out += *text;
  }
  return out;
}

bool is_picture(std::string_view type) {
  return type == "image_url" || type == "input_image" || type == "image";
}

/// Nothing where the part has no text of its own.
result<std::optional<content_piece>> read_part(const json::object& part, const std::string& where,
                                               const message_place& place, content& out) {
  using piece = std::optional<content_piece>;
  const auto type = text_member(part, where, "type");
  if (!type) return type.error();
  if (place.assistant && *type == "redacted_thinking") return piece();
  if (place.assistant && *type == "thinking") {
    const auto thoughts = thoughts_of_part(part, where);
    if (!thoughts) return thoughts.error();
    join(out.thoughts, *thoughts, out.thoughts.empty());
    return piece();
  }
  const bool seen = place.media != nullptr && !place.media->hears() && *type == "image_url";
  if (place.tool && !seen && place.left != nullptr && is_picture(*type)) {
    note_left(*place.left, "content", "image");
    return piece(content_piece{std::string(picture_text)});
  }
  if (place.media != nullptr && (*type == "image_url" || *type == "input_audio")) {
    auto mark = *type == "image_url" ? place.media->take_url_part(part, where)
                                     : place.media->take_audio_part(part, where);
    if (!mark) return mark.error();
    return piece(content_piece{std::move(*mark), true});
  }
  const bool refusal = *type == "refusal";
  if (!refusal && *type != "text" && *type != "input_text" && *type != "output_text") {
    return refuse_word(where + ".type", "'text'", *type);
  }
  const auto text = text_of_part(part, where, refusal ? "refusal" : "text");
  if (!text) return text.error();
  return piece(content_piece{std::string(*text)});
}

result<content> read_parts(const json::array& parts, const message_place& place) {
  content out;
  std::vector<content_piece> pieces;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string where = element_path(place.path + ".content", i);
    const auto* part = parts[i].if_object();
    if (part == nullptr) return refuse_kind(where, "an object", parts[i]);
    auto piece = read_part(*part, where, place, out);
    if (!piece) return piece.error();
    if (*piece) pieces.push_back(std::move(**piece));
  }
  out.text = place.media == nullptr ? join_pieces(pieces) : place.media->join(pieces);
  return out;
}

/// The content of a message: clients send null, "", no parts or nothing at all where there is none.
result<content> read_content(const json::object& message, const message_place& place) {
  const auto* value = find_member(message, "content");
  if (value == nullptr) return content();
  if (value->is_string()) return content{std::string(value->get_string()), {}};
  if (value->is_array()) return read_parts(value->get_array(), place);
  return refuse_kind(place.path + ".content", "a string or an array of parts", *value);
}

/// The arguments of a past call: an object or, where they are none, the text as it was sent. A model may have
/// spoilt them, or max_tokens cut them, and the client can only send them back.
result<json::value> read_arguments(const json::object& function, const std::string& path) {
  const auto* value = find_member(function, "arguments");
  if (value == nullptr) return json::value(json::object());
  if (value->is_object()) return *value;
  const std::string where = path + ".arguments";
  if (!value->is_string()) return refuse_kind(where, "a JSON object as a string", *value);
  const std::string_view text = value->get_string();
  if (text == "null" || text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return json::value(json::object());
  }
  auto tree = read_json_tree(text);
  if (!tree) return *value;
  return json::value(std::move(*tree));
}

/// A call's function: its name and arguments.
result<json::object> read_called(const json::value& value, const std::string& path) {
  const auto* function = value.if_object();
  if (function == nullptr) return refuse_kind(path, "an object", value);
  constexpr std::array<std::string_view, 2> parts = {"name", "arguments"};
  if (const auto ok = only_members(*function, path, parts, left_fields(field_place::function)); !ok)
    return ok.error();
  const auto name = text_member(*function, path, "name");
  if (!name) return name.error();
  auto arguments = read_arguments(*function, path);
  if (!arguments) return arguments.error();
  json::object out{{"name", *name}, {"arguments", std::move(*arguments)}};
  // The text of an object is kept as it was, whether it could be read or not: the prompt shows it so.
  const auto* const sent = find_member(*function, "arguments");
  const auto* const text = sent == nullptr ? nullptr : sent->if_string();
  if (text != nullptr && text->find_first_not_of(" \t\r\n") == text->find('{') &&
      text->find('{') != text->npos) {
    out[engine::sent_arguments] = *sent;
  }
  return out;
}

json::object make_call(std::string_view id, json::object called) {
  return {{"id", id}, {"type", "function"}, {"function", std::move(called)}};
}

result<json::object> read_tool_call(const json::value& value, const std::string& path) {
  const auto* call = value.if_object();
  if (call == nullptr) return refuse_kind(path, "an object", value);
  constexpr std::array<std::string_view, 3> known = {"id", "type", "function"};
  if (const auto ok = only_members(*call, path, known, left_fields(field_place::call)); !ok)
    return ok.error();
  const auto id = optional_text_member(*call, path, "id");
  if (!id) return id.error();
  if (const auto* type = find_member(*call, "type"); type != nullptr && *type != json::value("function")) {
    return refuse_field(path + ".type", "must be 'function'");
  }
  const auto* function = find_member(*call, "function");
  if (function == nullptr) return refuse_field(path + ".function", "is missing");
  auto called = read_called(*function, path + ".function");
  if (!called) return called.error();
  return make_call(*id, std::move(*called));
}

result<void> read_tool_calls(const json::value& value, const std::string& path, json::object& out) {
  const std::string where = path + ".tool_calls";
  if (!value.is_array()) return refuse_kind(where, "an array", value);
  json::array calls;
  for (const auto& call : value.get_array()) {
    auto read = read_tool_call(call, element_path(where, calls.size()));
    if (!read) return read.error();
    calls.push_back(std::move(*read));
  }
  if (!calls.empty()) out["tool_calls"] = std::move(calls);
  return {};
}

/// Templates know it by either of two names.
void add_thoughts(json::object& message, std::string_view thoughts) {
  message["reasoning_content"] = thoughts;
  message["thinking"] = thoughts;
}

/// The members of an assistant's message besides its content.
result<void> read_assistant(const json::object& message, const std::string& path, json::object& out) {
  if (const auto* calls = find_member(message, "tool_calls")) {
    if (const auto ok = read_tool_calls(*calls, path, out); !ok) return ok;
  }
  if (const auto* call = find_member(message, "function_call");
      call != nullptr && !out.contains("tool_calls")) {
    auto called = read_called(*call, path + ".function_call");
    if (!called) return called.error();
    out["tool_calls"] = json::array{make_call("", std::move(*called))};
  }
  // OpenRouter and vLLM call it "reasoning".
  for (const std::string_view name : {"reasoning_content", "reasoning"}) {
    if (find_member(message, name) == nullptr || out.contains("reasoning_content")) continue;
    const auto thoughts = text_member(message, path, name);
    if (!thoughts) return thoughts.error();
    add_thoughts(out, *thoughts);
  }
  return {};
}

result<json::object> read_message(const json::value& value, const std::string& path, left_names* left,
                                  sent_media* media) {
  const auto* message = value.if_object();
  if (message == nullptr) return refuse_kind(path, "an object", value);
  auto role = text_member(*message, path, "role");
  if (!role) return role.error();
  if (!is_listed(roles, *role)) {
    return refuse_word(path + ".role", "system, developer, user, assistant, tool or function", *role);
  }
  const bool assistant = *role == "assistant";
  const bool tool = *role == "tool" || *role == "function";
  constexpr std::array<std::string_view, 3> plain = {"role", "content", "name"};
  constexpr std::array<std::string_view, 4> of_tools = {"role", "content", "name", "tool_call_id"};
  constexpr std::array<std::string_view, 8> of_assistants = {
      "role", "content", "name", "tool_calls", "function_call", "reasoning_content", "reasoning", "prefix"};
  using name_list = std::span<const std::string_view>;
  const auto known = assistant ? name_list(of_assistants) : tool ? name_list(of_tools) : name_list(plain);
  if (const auto ok = only_members(*message, path, known, left_fields(field_place::message)); !ok) {
    return ok.error();
  }
  const auto said =
      read_content(*message, {path, assistant, tool, left, *role == "user" || tool ? media : nullptr});
  if (!said) return said.error();
  const std::string_view known_as = tool ? "tool" : *role == "developer" ? "system" : *role;
  json::object out{{"role", known_as}, {"content", said->text}};
  if (find_member(*message, "name") != nullptr) {
    const auto name = text_member(*message, path, "name");
    if (!name) return name.error();
    out["name"] = *name;
  }
  if (tool) {
    const auto id = optional_text_member(*message, path, "tool_call_id");
    if (!id) return id.error();
    out["tool_call_id"] = *id;
  }
  if (assistant) {
    if (const auto read = read_assistant(*message, path, out); !read) return read.error();
    if (!said->thoughts.empty() && !out.contains("reasoning_content")) add_thoughts(out, said->thoughts);
  }
  return out;
}

/// The calls of the assistant's last message, whose results follow it.
class open_calls {
 public:
  void begin() {
    ids_.clear();
    answered_.clear();
    next_ = 0;
  }
  void add(std::string_view id) { ids_.emplace_back(id); }
  void answer(std::string_view id) { answered_.emplace(id); }
  /// The first call that has no result yet.
  std::optional<std::string> take() {
    while (next_ < ids_.size() && answered_.contains(ids_[next_])) ++next_;
    if (next_ == ids_.size()) return std::nullopt;
    return ids_[next_];
  }

 private:
  std::vector<std::string> ids_;
  std::set<std::string, std::less<>> answered_;
  std::size_t next_ = 0;
};

/// Gives ids to calls that have none, and to results the id of the first call that has no result yet: some
/// clients, and the older form of calls, go by the order.
void complete_ids(json::array& messages) {
  open_calls open;
  std::size_t made = 0;
  const auto make = [&] { return "call_" + std::to_string(made++); };
  for (auto& message : messages) {
    auto& object = message.as_object();
    if (auto* calls = object.if_contains("tool_calls")) {
      open.begin();
      for (auto& call : calls->as_array()) {
        auto& id = call.as_object().at("id");
        if (id.as_string().empty()) id = make();
        open.add(id.as_string());
      }
    } else if (auto* id = object.if_contains("tool_call_id")) {
      if (id->as_string().empty()) {
        const auto first = open.take();
        *id = first ? *first : make();
      }
      open.answer(id->as_string());
    }
  }
}

/// The path of a member that would be left, of the object or of those in it; empty without one.
std::string find_left(const json::value& value, const std::string& path, field_place place) {
  const auto* object = value.if_object();
  if (object == nullptr) return {};
  for (const auto& field : *object) {
    if (!field.value().is_null() && is_listed(left_fields(place), field.key())) {
      return path + "." + shown_name(field.key());
    }
  }
  const auto within = [&](std::string_view name, field_place inner) {
    const auto* list = find_member(*object, name);
    std::string found;
    if (list == nullptr || !list->is_array()) return found;
    const auto& items = list->get_array();
    const std::string where = path + "." + std::string(name);
    for (std::size_t i = 0; i < items.size() && found.empty(); ++i) {
      found = find_left(items[i], element_path(where, i), inner);
    }
    return found;
  };
  if (place == field_place::call) {
    const auto* function = find_member(*object, "function");
    return function == nullptr ? std::string()
                               : find_left(*function, path + ".function", field_place::function);
  }
  if (place != field_place::message) return {};
  std::string found = within("content", field_place::part);
  return found.empty() ? within("tool_calls", field_place::call) : found;
}

}  // namespace

result<json::array> read_messages(const json::value& value, bool strict_fields, left_names* left,
                                  sent_media* media) {
  const std::string name = "messages";
  if (!value.is_array()) return refuse_kind(name, "an array", value);
  const auto& messages = value.get_array();
  if (messages.empty()) return refuse_field(name, "must not be empty");
  if (messages.size() > messages_max) {
    return refuse_field(name, "may have " + std::to_string(messages_max) + " messages, it has " +
                                  std::to_string(messages.size()));
  }
  json::array out;
  out.reserve(messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (strict_fields) {
      const std::string unread = find_left(messages[i], element_path(name, i), field_place::message);
      if (!unread.empty()) return refuse_field(unread, "is not supported");
    }
    auto message = read_message(messages[i], element_path(name, i), strict_fields ? nullptr : left, media);
    if (!message) return message.error();
    out.push_back(std::move(*message));
  }
  complete_ids(out);
  return out;
}

}  // namespace orcd::net
