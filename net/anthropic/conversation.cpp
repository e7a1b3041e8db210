#include "net/anthropic/conversation.hpp"

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "net/completion/completion_request.hpp"
#include "net/completion/sent_media.hpp"
#include "net/json/object_members.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::error;
using engine::result;

/// Texts that belong together, as the chat endpoint joins its text parts.
void append_text(json::string& to, std::string_view text) {
  if (!to.empty()) to += '\n';
  to += text;
}

/// Puts messages together.
class conversation {
 public:
  conversation(left_names* left, sent_media* media) : left_(left), media_(media) {}

  /// Where pictures of a user go; null: they are refused.
  [[nodiscard]] sent_media* media() const noexcept { return media_; }
  /// A picture stands between texts without line ends.
  void picture(std::string_view mark) {
    message("user").at("content").as_string() += mark;
    behind_picture_ = true;
  }

  /// Where pictures are noted; null: they are refused.
  [[nodiscard]] left_names* left() const noexcept { return left_; }
  void system(std::string_view text) { append_text(message("system").at("content").as_string(), text); }
  void user(std::string_view text) {
    auto& content = message("user").at("content").as_string();
    if (std::exchange(behind_picture_, false))
      content += text;
    else
      append_text(content, text);
  }
  void result_of(std::string_view id, std::string_view text) {
    json::object out{{"role", "tool"}, {"tool_call_id", id}, {"content", text}};
    const auto called = names_.find(id);
    if (called != names_.end()) out["name"] = called->second;
    messages_.push_back(std::move(out));
  }
  void assistant(std::string_view text) { append_text(message("assistant").at("content").as_string(), text); }
  void thought(std::string_view text) {
    auto& thoughts = message("assistant")["reasoning_content"];
    if (!thoughts.is_string()) thoughts.emplace_string();
    append_text(thoughts.get_string(), text);
  }
  void call(std::string_view id, std::string_view name, const json::value& input) {
    auto& calls = message("assistant")["tool_calls"];
    if (!calls.is_array()) calls.emplace_array();
    json::object function{{"name", name}, {"arguments", input}};
    calls.get_array().push_back(
        json::object{{"id", id}, {"type", "function"}, {"function", std::move(function)}});
    names_.insert_or_assign(std::string(id), std::string(name));
  }
  /// Begins a message of a role that has nothing to say yet.
  json::object& message(std::string_view role) {
    if (messages_.empty() || messages_.back().at("role") != json::value(role)) {
      behind_picture_ = false;
      messages_.push_back(json::object{{"role", role}, {"content", ""}});
    }
    return messages_.back().as_object();
  }
  [[nodiscard]] json::array take() && { return std::move(messages_); }

 private:
  left_names* left_;
  sent_media* media_;
  bool behind_picture_ = false;
  json::array messages_;
  std::map<std::string, std::string, std::less<>> names_;  ///< of the functions, by the ids of their calls
};

error refuse_type(const std::string& path, std::string_view type, std::string_view known) {
  return refuse_word(path + ".type", known, type);
}

/// A text block. `citations` name sources, which a model that is told the text alone does not see.
result<std::string_view> read_text_block(const json::object& block, const std::string& path) {
  constexpr std::array<std::string_view, 4> known = {"type", "text", "cache_control", "citations"};
  if (const auto ok = only_members(block, path, known); !ok) return ok.error();
  return text_member(block, path, "text");
}

/// Calls `take` with each block of a list, its type and its path.
template <class Take>
result<void> each_block(const json::array& blocks, const std::string& path, const Take& take) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::string where = element_path(path, i);
    const auto* block = blocks[i].if_object();
    if (block == nullptr) return refuse_kind(where, "an object", blocks[i]);
    const auto type = text_member(*block, where, "type");
    if (!type) return type.error();
    if (const auto taken = take(*block, *type, where); !taken) return taken;
  }
  return {};
}

/// A string or blocks of text, joined; with `media` pictures too, with `left` a word in their place.
result<json::string> read_texts(const json::value& value, const std::string& path, left_names* left = nullptr,
                                sent_media* media = nullptr) {
  if (value.is_string()) return value.get_string();
  if (!value.is_array()) return refuse_kind(path, "a string or an array of blocks", value);
  json::string out;
  bool behind_picture = false;
  const auto read = each_block(
      value.get_array(), path,
      [&](const json::object& block, std::string_view type, const std::string& where) -> result<void> {
        if (type == "image" && media != nullptr && !media->hears()) {
          const auto mark = media->take_image_block(block, where);
          if (!mark) return mark.error();
          out += *mark;
          behind_picture = true;
          return {};
        }
        if (type == "image" && left != nullptr) {
          note_left(*left, "content", "image");
          append_text(out, picture_text);
          return {};
        }
        if (type != "text") return refuse_type(where, type, "'text'");
        const auto text = read_text_block(block, where);
        if (!text) return text.error();
        if (std::exchange(behind_picture, false))
          out += *text;
        else
          append_text(out, *text);
        return {};
      });
  if (!read) return read.error();
  return out;
}

/// A line of facts about the client, which the API's own servers take out too: it is not for the model, and
/// differs in every request, so that no two prompts would begin alike.
bool is_client_line(std::string_view text) {
  return text.starts_with("x-anthropic-billing-header:") && text.find('\n') == std::string_view::npos;
}

result<void> read_system(const json::value& value, conversation& out) {
  if (value.is_null()) return {};
  if (value.is_string()) {
    if (!value.get_string().empty()) out.system(value.get_string());
    return {};
  }
  if (!value.is_array()) return refuse_kind("system", "a string or an array of text blocks", value);
  return each_block(
      value.get_array(), "system",
      [&out](const json::object& block, std::string_view type, const std::string& where) -> result<void> {
        if (type != "text") return refuse_type(where, type, "'text'");
        const auto text = read_text_block(block, where);
        if (!text) return text.error();
        if (!is_client_line(*text)) out.system(*text);
        return {};
      });
}

/// The result of a call. Templates know no failed results: the text has to say it.
result<void> read_result(const json::object& block, const std::string& path, conversation& out) {
  constexpr std::array<std::string_view, 5> known = {"type", "tool_use_id", "content", "is_error",
                                                     "cache_control"};
  if (const auto ok = only_members(block, path, known); !ok) return ok;
  const auto id = text_member(block, path, "tool_use_id");
  if (!id) return id.error();
  const auto failed = flag_member(block, path, "is_error");
  if (!failed) return failed.error();
  json::string text;
  if (const auto* content = find_member(block, "content")) {
    auto read = read_texts(*content, path + ".content", out.left(), out.media());
    if (!read) return read.error();
    text = std::move(*read);
  }
  constexpr std::string_view mark = "Error";
  if (*failed && !text.starts_with(mark)) text.insert(0, text.empty() ? "Error" : "Error: ");
  out.result_of(*id, text);
  return {};
}

result<void> read_user_block(const json::object& block, std::string_view type, const std::string& path,
                             conversation& out) {
  if (type == "tool_result") return read_result(block, path, out);
  if (type == "image" && out.media() != nullptr) {
    const auto mark = out.media()->take_image_block(block, path);
    if (!mark) return mark.error();
    out.picture(*mark);
    return {};
  }
  if (type != "text") return refuse_type(path, type, "'text' or 'tool_result'");
  const auto text = read_text_block(block, path);
  if (!text) return text.error();
  out.user(*text);
  return {};
}

result<void> read_call(const json::object& block, const std::string& path, conversation& out) {
  constexpr std::array<std::string_view, 6> known = {"type",          "id",    "name", "input",
                                                     "cache_control", "caller"};
  if (const auto ok = only_members(block, path, known); !ok) return ok;
  const auto id = text_member(block, path, "id");
  if (!id) return id.error();
  const auto name = text_member(block, path, "name");
  if (!name) return name.error();
  const auto input = object_member(block, path, "input");
  if (!input) return input.error();
  // Arguments that were cut come back as the answer had them.
  const auto* const cut = (*input)->size() == 1 ? (*input)->if_contains(cut_arguments) : nullptr;
  out.call(*id, *name, cut != nullptr && cut->is_string() ? *cut : json::value(**input));
  return {};
}

/// Thoughts of an earlier turn. Those that another server has encrypted are of no use to this one.
result<void> read_thought(const json::object& block, std::string_view type, const std::string& path,
                          conversation& out) {
  const bool hidden = type == "redacted_thinking";
  constexpr std::array<std::string_view, 3> open_members = {"type", "thinking", "signature"};
  constexpr std::array<std::string_view, 2> hidden_members = {"type", "data"};
  const auto ok =
      hidden ? only_members(block, path, hidden_members) : only_members(block, path, open_members);
  if (!ok) return ok;
  const auto text = text_member(block, path, hidden ? "data" : "thinking");
  if (!text) return text.error();
  if (!hidden && !text->empty()) out.thought(*text);
  return {};
}

result<void> read_assistant_block(const json::object& block, std::string_view type, const std::string& path,
                                  conversation& out) {
  if (type == "tool_use") return read_call(block, path, out);
  if (type == "thinking" || type == "redacted_thinking") return read_thought(block, type, path, out);
  if (type != "text") return refuse_type(path, type, "'text', 'tool_use' or 'thinking'");
  const auto text = read_text_block(block, path);
  if (!text) return text.error();
  out.assistant(*text);
  return {};
}

result<void> read_message(const json::object& message, const std::string& path, conversation& out) {
  constexpr std::array<std::string_view, 2> known = {"role", "content"};
  if (const auto ok = only_members(message, path, known); !ok) return ok;
  const auto role = text_member(message, path, "role");
  if (!role) return role.error();
  const bool assistant = *role == "assistant";
  if (!assistant && *role != "user" && *role != "system") {
    return refuse_word(path + ".role", "'user', 'assistant' or 'system'", *role);
  }
  const auto* content = find_member(message, "content");
  const std::string where = path + ".content";
  if (content == nullptr) return refuse_field(where, "is missing");
  if (content->is_string() || *role == "system") {
    const auto text = read_texts(*content, where);
    if (!text) return text.error();
    append_text(out.message(*role).at("content").as_string(), *text);
    return {};
  }
  if (!content->is_array()) return refuse_kind(where, "a string or an array of blocks", *content);
  if (assistant || content->get_array().empty()) out.message(*role);
  return each_block(content->get_array(), where,
                    [&](const json::object& block, std::string_view type, const std::string& block_path) {
                      return assistant ? read_assistant_block(block, type, block_path, out)
                                       : read_user_block(block, type, block_path, out);
                    });
}

}  // namespace

result<json::array> read_conversation(const json::value& system, const json::value& messages,
                                      left_names* left, sent_media* media) {
  if (!messages.is_array()) return refuse_kind("messages", "an array", messages);
  const auto& list = messages.get_array();
  if (list.empty()) return refuse_field("messages", "must not be empty");
  if (list.size() > messages_max) {
    return refuse_field("messages", "may have " + std::to_string(messages_max) + " messages, it has " +
                                        std::to_string(list.size()));
  }
  conversation out(left, media);
  if (const auto read = read_system(system, out); !read) return read.error();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string path = element_path("messages", i);
    const auto* message = list[i].if_object();
    if (message == nullptr) return refuse_kind(path, "an object", list[i]);
    if (const auto read = read_message(*message, path, out); !read) return read.error();
  }
  return std::move(out).take();
}

}  // namespace orcd::net
