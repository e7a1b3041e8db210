#include "net/responses/input_items.hpp"

#include <array>
#include <boost/json/object.hpp>
#include <optional>
#include <utility>

#include "engine/text/utf8_buffer.hpp"
#include "net/completion/sent_media.hpp"
#include "net/json/base64.hpp"
#include "net/json/names.hpp"
#include "net/json/object_members.hpp"
#include "net/responses/tool_names.hpp"
#include "net/responses/transcript.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::error;
using engine::result;

/// Reasoning of this worker's begins so; that of other servers cannot be read.
constexpr std::string_view seal = "orcd1.";

/// Members of any item that say nothing to a model: what a server or a client has noted about it.
constexpr std::array<std::string_view, 7> notes = {
    "type", "id", "status", "phase", "caller", "async", "internal_chat_message_metadata_passthrough"};

error refuse_type(const std::string& path, std::string_view type, std::string_view known) {
  return refuse_word(path + ".type", known, type);
}

/// The text of one part. Images, audio and files are refused: the model reads text. With `left`, a picture is
/// a text of its own.
result<std::string_view> read_part(const json::value& value, const std::string& path, left_names* left) {
  const auto* part = value.if_object();
  if (part == nullptr) return refuse_kind(path, "an object", value);
  const auto type = text_member(*part, path, "type");
  if (!type) return type.error();
  if (*type == "refusal") {
    constexpr std::array<std::string_view, 2> known = {"type", "refusal"};
    if (const auto ok = only_members(*part, path, known); !ok) return ok.error();
    return text_member(*part, path, "refusal");
  }
  if (*type == "input_image" && left != nullptr) {
    note_left(*left, "content", "image");
    return picture_text;
  }
  constexpr std::array<std::string_view, 5> kinds = {"input_text", "output_text", "text", "reasoning_text",
                                                     "summary_text"};
  if (!is_listed(kinds, *type)) {
    return refuse_type(path, *type, "'input_text', 'output_text' or 'refusal'");
  }
  constexpr std::array<std::string_view, 5> known = {"type", "text", "annotations", "logprobs",
                                                     "prompt_cache_breakpoint"};
  if (const auto ok = only_members(*part, path, known); !ok) return ok.error();
  return text_member(*part, path, "text");
}

/// A string, or a list of parts, which are joined by line ends.
result<std::string> read_texts(const json::object& item, const std::string& path, std::string_view member,
                               left_names* left = nullptr) {
  const auto* value = find_member(item, member);
  const std::string where = path + "." + std::string(member);
  if (value == nullptr) return std::string();
  if (value->is_string()) return std::string(value->get_string());
  if (!value->is_array()) return refuse_kind(where, "a string or an array of parts", *value);
  std::string out;
  const auto& parts = value->get_array();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto text = read_part(parts[i], element_path(where, i), left);
    if (!text) return text.error();
    if (i > 0) out += '\n';
    out += *text;
  }
  return out;
}

/// What a user says or a call gives, with the marks of its pictures.
result<std::string> read_seen_texts(const json::object& item, const std::string& path,
                                    std::string_view member, sent_media& media) {
  const auto* const value = find_member(item, member);
  if (value == nullptr || !value->is_array()) return read_texts(item, path, member);
  std::vector<content_piece> pieces;
  const auto& parts = value->get_array();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string where = element_path(path + "." + std::string(member), i);
    const auto* const part = parts[i].if_object();
    const auto* const type = part == nullptr ? nullptr : part->if_contains("type");
    if (type != nullptr && *type == json::value("input_image")) {
      auto mark = media.take_input_image(*part, where);
      if (!mark) return mark.error();
      pieces.push_back({std::move(*mark), true});
      continue;
    }
    const auto text = read_part(parts[i], where, nullptr);
    if (!text) return text.error();
    pieces.push_back({std::string(*text)});
  }
  return media.join(pieces);
}

result<void> read_message(const json::object& item, const std::string& path, transcript& out,
                          sent_media* media) {
  constexpr std::array<std::string_view, 2> known = {"role", "content"};
  if (const auto ok = only_members(item, path, known, notes); !ok) return ok;
  const auto role = text_member(item, path, "role");
  if (!role) return role.error();
  if (find_member(item, "content") == nullptr && *role != "assistant") {
    return refuse_field(path + ".content", "is missing");
  }
  const bool sees = media != nullptr && *role == "user";
  const auto text = sees ? read_seen_texts(item, path, "content", *media) : read_texts(item, path, "content");
  if (!text) return text.error();
  if (*role == "user") {
    out.user(*text);
  } else if (*role == "assistant") {
    out.assistant(*text);
  } else if (*role == "system" || *role == "developer") {
    out.system(*text);
  } else {
    return refuse_word(path + ".role", "user, assistant, system or developer", *role);
  }
  return {};
}

/// The reasoning that this worker has put into an item; nothing where another server has.
std::optional<std::string> unseal(std::string_view sealed) {
  if (!sealed.starts_with(seal)) return std::nullopt;
  const auto bytes = decode_base64(sealed.substr(seal.size()));
  if (!bytes) return std::nullopt;
  return engine::valid_utf8(*bytes);  // a client may have made up the bytes
}

/// Reasoning of an earlier turn, from whichever member has it.
result<void> read_reasoning(const json::object& item, const std::string& path, transcript& out) {
  constexpr std::array<std::string_view, 4> known = {"summary", "content", "encrypted_content",
                                                     "encrypted_function_args"};
  if (const auto ok = only_members(item, path, known, notes); !ok) return ok;
  auto text = read_texts(item, path, "content");
  if (!text) return text.error();
  const auto summary = read_texts(item, path, "summary");
  if (!summary) return summary.error();
  if (text->empty()) {
    const auto sealed = optional_text_member(item, path, "encrypted_content");
    if (!sealed) return sealed.error();
    if (auto own = unseal(*sealed)) *text = std::move(*own);
  }
  if (text->empty()) *text = *summary;
  if (!text->empty()) out.thought(*text);
  return {};
}

result<void> read_call(const json::object& item, const std::string& path, bool custom, transcript& out) {
  constexpr std::array<std::string_view, 5> known = {"call_id", "name", "namespace", "arguments", "input"};
  if (const auto ok = only_members(item, path, known, notes); !ok) return ok;
  const auto id = text_member(item, path, "call_id");
  if (!id) return id.error();
  const auto name = text_member(item, path, "name");
  if (!name) return name.error();
  const auto space = optional_text_member(item, path, "namespace");
  if (!space) return space.error();
  const auto text = text_member(item, path, custom ? "input" : "arguments");
  if (!text) return text.error();
  out.call(*id, flat_name(*space, *name), custom ? custom_arguments(*text) : std::string(*text));
  return {};
}

result<void> read_call_result(const json::object& item, const std::string& path, transcript& out,
                              left_names* left, sent_media* media) {
  constexpr std::array<std::string_view, 4> known = {"call_id", "output", "name", "namespace"};
  if (const auto ok = only_members(item, path, known, notes); !ok) return ok;
  const auto id = text_member(item, path, "call_id");
  if (!id) return id.error();
  if (find_member(item, "output") == nullptr) return refuse_field(path + ".output", "is missing");
  const bool sees = media != nullptr && !media->hears();
  const auto text =
      sees ? read_seen_texts(item, path, "output", *media) : read_texts(item, path, "output", left);
  if (!text) return text.error();
  out.result_of(*id, *text);
  return {};
}

result<void> read_item(const json::object& item, const std::string& path, transcript& out, left_names* left,
                       sent_media* media = nullptr) {
  // A message may leave its type out, and so may a reference.
  std::string_view type = "message";
  if (find_member(item, "type") != nullptr) {
    const auto given = text_member(item, path, "type");
    if (!given) return given.error();
    type = *given;
  } else if (find_member(item, "role") == nullptr && find_member(item, "id") != nullptr) {
    type = "item_reference";
  }
  if (type == "message") return read_message(item, path, out, media);
  if (type == "reasoning") return read_reasoning(item, path, out);
  if (type == "function_call") return read_call(item, path, false, out);
  if (type == "custom_tool_call") return read_call(item, path, true, out);
  if (type == "function_call_output" || type == "custom_tool_call_output") {
    return read_call_result(item, path, out, left, media);
  }
  // A search that another server has made: its results are in the text that followed.
  if (type == "web_search_call") return {};
  if (type == "item_reference") {
    return refuse_field(path, "refers to a stored item, and this worker has no such item: send it as it is");
  }
  return refuse_type(path, type,
                     "message, reasoning, function_call, function_call_output, custom_tool_call or "
                     "custom_tool_call_output");
}

result<void> read_kept(const kept_items& items, transcript& out, left_names* left) {
  for (const kept_item& item : items) {
    const auto tree = read_json_tree(item.json);
    if (!tree) return tree.error();
    if (const auto read = read_item(*tree, "previous_response_id", out, left); !read) return read;
  }
  return {};
}

/// Reads what earlier requests asked and were answered, of which with `more` items there may be as many as of
/// one input.
result<void> read_turns(const kept_turns& turns, std::size_t more, transcript& out, left_names* left) {
  std::size_t items = more;
  for (const auto& turn : turns) items += turn->input->size() + turn->output.size();
  if (items > input_items_max) {
    return refuse_field("input", "may have " + std::to_string(input_items_max) +
                                     " items with those of earlier responses, it has " +
                                     std::to_string(items));
  }
  if (const auto bytes = text_bytes(turns); bytes > earlier_bytes_max) {
    return refuse_field("previous_response_id", "may bring " + std::to_string(earlier_bytes_max) +
                                                    " bytes of earlier responses, they have " +
                                                    std::to_string(bytes));
  }
  for (const auto& turn : turns) {
    if (const auto read = read_kept(*turn->input, out, left); !read) return read;
    if (const auto read = read_kept(turn->output, out, left); !read) return read;
  }
  return {};
}

}  // namespace

result<json::array> read_input(const json::value& instructions, const kept_turns& earlier,
                               const json::value& input, left_names* left, sent_media* media) {
  transcript out;
  if (!instructions.is_null()) {
    if (!instructions.is_string()) return refuse_kind("instructions", "a string", instructions);
    if (!instructions.get_string().empty()) out.system(instructions.get_string());
  }
  const auto* items = input.if_array();
  if (items == nullptr && !input.is_string()) {
    return refuse_kind("input", "a string or an array of items", input);
  }
  const auto recalled = read_turns(earlier, items == nullptr ? 1 : items->size(), out, left);
  if (!recalled) return recalled.error();
  if (items == nullptr) {
    out.user(input.get_string());
    return std::move(out).take();
  }
  if (items->empty()) return refuse_field("input", "must not be empty");
  for (std::size_t i = 0; i < items->size(); ++i) {
    const std::string path = element_path("input", i);
    const auto* item = (*items)[i].if_object();
    if (item == nullptr) return refuse_kind(path, "an object", (*items)[i]);
    if (const auto read = read_item(*item, path, out, left, media); !read) return read.error();
  }
  if (out.size() == 0) return refuse_field("input", "has nothing that a model could answer");
  return std::move(out).take();
}

std::string seal_reasoning(std::string_view text) {
  std::string out(seal);
  append_base64(out, text);
  return out;
}

}  // namespace orcd::net
