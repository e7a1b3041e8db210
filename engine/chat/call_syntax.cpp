#include "engine/chat/call_syntax.hpp"

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace orcd::engine {

namespace {

using body = call_syntax::body;

constexpr auto syntaxes = std::to_array<call_syntax>({
    {.of = call_format::none},
    {.of = call_format::hermes,
     .what = body::objects,
     .open = "<tool_call>",
     .close = "</tool_call>",
     .result = "<tool_response>",
     .each = true,
     .head = "\n",
     .name = "{\"name\": \"",
     .middle = "\", \"arguments\": ",
     .tail = "}",
     .foot = "\n",
     .between = "\n"},
    {.of = call_format::llama3,
     .what = body::objects,
     .open = "<|python_tag|>",
     .bare = true,
     .name = "{\"name\": \"",
     .middle = "\", \"parameters\": ",
     .tail = "}"},
    {.of = call_format::mistral,
     .what = body::lead_name,
     .open = "[TOOL_CALLS]",
     .result = "[TOOL_RESULTS]",
     .bare_list = true,
     .head = "[",
     .name = "{\"name\": \"",
     .middle = "\", \"arguments\": ",
     .tail = "}",
     .foot = "]",
     .between = ", "},
    {.of = call_format::harmony, .what = body::channels},
    {.of = call_format::granite,
     .what = body::objects,
     .open = "<|tool_call|>",
     .also = "<tool_call>",
     .bare_list = true,
     .head = "[",
     .name = "{\"name\": \"",
     .middle = "\", \"arguments\": ",
     .tail = "}",
     .foot = "]",
     .between = ", "},
    {.of = call_format::command_r,
     .what = body::objects,
     .open = "Action:\n```json",
     .also = "Action: ```json",
     .trailer = "```",
     .head = "\n[\n    ",
     .name = "{\n        \"tool_name\": \"",
     .middle = "\",\n        \"parameters\": ",
     .tail = "\n    }",
     .foot = "\n]",
     .between = ",\n    "},
    {.of = call_format::action,
     .what = body::objects,
     .open = "<|START_ACTION|>",
     .close = "<|END_ACTION|>",
     .head = "[\n    ",
     .number = "{\"tool_call_id\": \"",
     .name = "\", \"tool_name\": \"",
     .middle = "\", \"parameters\": ",
     .tail = "}",
     .foot = "\n]",
     .between = ",\n    "},
    {.of = call_format::tool_code,
     .what = body::objects,
     .open = "```tool_code",
     .trailer = "```",
     .result = "```tool_output",
     .each = true,
     .head = "\n",
     .name = "{\"name\": \"",
     .middle = "\", \"parameters\": ",
     .tail = "}",
     .foot = "\n",
     .between = "\n"},
    {.of = call_format::glm,
     .what = body::named,
     .open = "<|assistant|>",
     .result = "<|observation|>",
     .bare = true,
     .middle = "\n"},
    {.of = call_format::arg_pairs,
     .what = body::elements,
     .open = "<tool_call>",
     .close = "</tool_call>",
     .result = "<|observation|>",
     .each = true,
     .between = "\n",
     .elements = {.key_open = "<arg_key>",
                  .key_close = "</arg_key>",
                  .value_open = "<arg_value>",
                  .value_close = "</arg_value>"}},
    {.of = call_format::qwen_coder,
     .what = body::elements,
     .open = "<tool_call>",
     .close = "</tool_call>",
     .result = "<tool_response>",
     .each = true,
     .head = "\n",
     .foot = "\n",
     .between = "\n",
     .elements = {.name_open = "<function=",
                  .name_close = ">",
                  .key_open = "<parameter=",
                  .key_close = ">",
                  .value_close = "</parameter>",
                  .call_close = "</function>",
                  .value_lines = true}},
    {.of = call_format::seed,
     .what = body::elements,
     .open = "<seed:tool_call>",
     .close = "</seed:tool_call>",
     .each = true,
     .head = "\n",
     .foot = "\n",
     .between = "\n",
     .elements = {.name_open = "<function=",
                  .name_close = ">",
                  .key_open = "<parameter=",
                  .key_close = ">",
                  .value_close = "</parameter>",
                  .call_close = "</function>"}},
    {.of = call_format::olmo,
     .what = body::python,
     .open = "<function_calls>",
     .close = "</function_calls>",
     .head = "\n",
     .middle = "(",
     .tail = ")",
     .foot = "\n",
     .between = "\n"},
    {.of = call_format::internlm,
     .what = body::objects,
     .open = "<|action_start|>",
     .kind = "<|plugin|>",
     .other = "<|interpreter|>",
     .close = "<|action_end|>",
     .each = true,
     .head = "\n",
     .name = "{\"name\": \"",
     .middle = "\", \"parameters\": ",
     .tail = "}"},
    {.of = call_format::gemma4,
     .what = body::marked,
     .open = "<|tool_call>",
     .close = "<tool_call|>",
     .result = "<|tool_response>",
     .each = true,
     .name = "call:",
     .quote = "<|\"|>"},
    {.of = call_format::lfm2,
     .what = body::python,
     .open = "<|tool_call_start|>",
     .close = "<|tool_call_end|>",
     .result = "<|tool_response_start|>",
     .head = "[",
     .middle = "(",
     .tail = ")",
     .foot = "]",
     .between = ", "},
    {.of = call_format::generic,
     .what = body::objects,
     .name = "{\"name\": \"",
     .middle = "\", \"arguments\": ",
     .tail = "}"},
});

// Looked up by its format's number.
constexpr bool each_in_its_place() {
  for (std::size_t i = 0; i < syntaxes.size(); ++i) {
    if (static_cast<std::size_t>(syntaxes[i].of) != i) return false;
  }
  return true;
}
static_assert(syntaxes.size() == call_formats && each_in_its_place());

std::string_view without_space(std::string_view text) noexcept {
  constexpr std::string_view space = " \n\t\r";
  const std::size_t first = text.find_first_not_of(space);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(space) + 1 - first);
}

/// Members of a JSON object as they are written, "key=value, key=value", as far as it goes; a text that is
/// none as it is.
std::string as_keywords(std::string_view object) {
  object = without_space(object);
  if (!object.starts_with('{')) return std::string(object);
  std::string out;
  std::string_view key;
  std::size_t begin = 1, depth = 0;
  bool quoted = false;
  const auto end_member = [&](std::size_t end) {
    if (key.size() < 2) return;
    out.append(out.empty() ? "" : ", ").append(key.substr(1, key.size() - 2)).append("=");
    out += without_space(object.substr(begin, end - begin));
    key = {};
  };
  for (std::size_t i = begin; i < object.size(); ++i) {
    const char c = object[i];
    if (c == '"') quoted = !quoted;
    if (quoted && c == '\\') ++i;
    if (quoted) continue;
    if (c == '[' || c == '{') ++depth;
    if (depth == 0 && (c == ',' || c == '}')) end_member(i);
    if (depth == 0 && c == ':') key = without_space(object.substr(begin, i - begin));
    if (depth == 0 && (c == ',' || c == ':' || c == '}')) begin = i + 1;
    if (depth > 0 && (c == ']' || c == '}')) --depth;
  }
  end_member(object.size());
  return out;
}

}  // namespace

const call_syntax& syntax_of(call_format format) noexcept {
  return syntaxes[static_cast<std::size_t>(format)];
}

mark_pair answer_marks(const output_format& format) noexcept {
  switch (format.answer) {
    case answer_style::bare: break;
    case answer_style::response: return {"<response>", "</response>"};
    case answer_style::response_tokens: return {"<|START_RESPONSE|>", "<|END_RESPONSE|>"};
  }
  return {};
}

std::vector<std::string_view> marks_of(const output_format& format) {
  if (format.calls == call_format::harmony) {
    return {"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>", "<|return|>"};
  }
  const call_syntax& syntax = syntax_of(format.calls);
  std::vector<std::string_view> out{syntax.open, syntax.kind, syntax.other, syntax.close, syntax.quote};
  if (syntax.what == call_syntax::body::lead_name) out.insert(out.end(), {"[CALL_ID]", "[ARGS]"});
  // Elements with an end of their own may be tokens; "<function=" and the like are the beginning of a text.
  const element_syntax& elements = syntax.elements;
  if (elements.key_open.ends_with('>')) {
    out.insert(out.end(), {elements.key_open, elements.key_close, elements.value_open, elements.value_close});
  }
  for (const mark_pair& pair : {mark_pair(reasoning_marks(format)), answer_marks(format)}) {
    out.insert(out.end(), {pair.open, pair.close});
  }
  std::erase(out, std::string_view());
  return out;
}

std::vector<std::string_view> reading_marks(const output_format& format) {
  std::vector<std::string_view> out = marks_of(format);
  const call_syntax& syntax = syntax_of(format.calls);
  for (const std::string_view mark : {syntax.also, syntax.result, syntax.elements.name_open}) {
    if (!mark.empty()) out.push_back(mark);
  }
  if (format.text_end) out.push_back(end_mark_of(format));
  return out;
}

std::string written_calls(call_format format, std::span<const written_call> calls) {
  const call_syntax& syntax = syntax_of(format);
  const bool keywords = syntax.what == call_syntax::body::python;
  if ((!keywords && syntax.what != call_syntax::body::objects) || !syntax.number.empty() || calls.empty())
    return {};
  std::string open(syntax.open);
  open.append(syntax.kind).append(syntax.head);
  std::string close(syntax.foot);
  close.append(syntax.close).append(syntax.trailer);
  std::string out = open;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (i > 0 && syntax.each) out += close;
    if (i > 0) out += syntax.between;
    if (i > 0 && syntax.each) out += open;
    out.append(syntax.name).append(calls[i].name).append(syntax.middle);
    out.append(keywords ? as_keywords(calls[i].arguments) : calls[i].arguments).append(syntax.tail);
  }
  return out + close;
}

std::string_view end_mark_of(const output_format& format) noexcept {
  return format.text_end ? "<|im_end|>" : std::string_view();
}

}  // namespace orcd::engine
