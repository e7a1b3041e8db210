#include "engine/chat/call_syntax.hpp"

#include <array>
#include <cstddef>

namespace orcd::engine {

namespace {

using body = call_syntax::body;

// In the order of call_format.
constexpr auto syntaxes = std::to_array<call_syntax>({
    {},
    {.what = body::objects,
     .open = "<tool_call>",
     .close = "</tool_call>",
     .each = true,
     .head = "\n",
     .name = "{\"name\": \"",
     .middle = "\", \"arguments\": ",
     .tail = "}",
     .foot = "\n",
     .between = "\n"},
    {.what = body::objects,
     .open = "<|python_tag|>",
     .bare = true,
     .name = "{\"name\": \"",
     .middle = "\", \"parameters\": ",
     .tail = "}"},
    {.what = body::lead_name,
     .open = "[TOOL_CALLS]",
     .head = "[",
     .name = "{\"name\": \"",
     .middle = "\", \"arguments\": ",
     .tail = "}",
     .foot = "]",
     .between = ", "},
    {.what = body::channels},
    {.what = body::objects,
     .open = "<|tool_call|>",
     .head = "[",
     .name = "{\"name\": \"",
     .middle = "\", \"arguments\": ",
     .tail = "}",
     .foot = "]",
     .between = ", "},
    {.what = body::objects,
     .open = "Action:\n```json",
     .trailer = "```",
     .head = "\n[\n    ",
     .name = "{\n        \"tool_name\": \"",
     .middle = "\",\n        \"parameters\": ",
     .tail = "\n    }",
     .foot = "\n]",
     .between = ",\n    "},
    {.what = body::objects,
     .open = "<|START_ACTION|>",
     .close = "<|END_ACTION|>",
     .head = "[\n    ",
     .number = "{\"tool_call_id\": \"",
     .name = "\", \"tool_name\": \"",
     .middle = "\", \"parameters\": ",
     .tail = "}",
     .foot = "\n]",
     .between = ",\n    "},
    {.what = body::objects,
     .open = "```tool_code",
     .trailer = "```",
     .each = true,
     .head = "\n",
     .name = "{\"name\": \"",
     .middle = "\", \"parameters\": ",
     .tail = "}",
     .foot = "\n",
     .between = "\n"},
    {.what = body::named, .open = "<|assistant|>", .bare = true, .middle = "\n"},
    {.what = body::elements,
     .open = "<tool_call>",
     .close = "</tool_call>",
     .each = true,
     .between = "\n",
     .elements = {.key_open = "<arg_key>",
                  .key_close = "</arg_key>",
                  .value_open = "<arg_value>",
                  .value_close = "</arg_value>"}},
    {.what = body::elements,
     .open = "<tool_call>",
     .close = "</tool_call>",
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
    {.what = body::elements,
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
    {.what = body::python,
     .open = "<function_calls>",
     .close = "</function_calls>",
     .head = "\n",
     .middle = "(",
     .tail = ")",
     .foot = "\n",
     .between = "\n"},
    {.what = body::objects,
     .open = "<|action_start|>",
     .kind = "<|plugin|>",
     .other = "<|interpreter|>",
     .close = "<|action_end|>",
     .each = true,
     .head = "\n",
     .name = "{\"name\": \"",
     .middle = "\", \"parameters\": ",
     .tail = "}"},
});
static_assert(syntaxes.size() == static_cast<std::size_t>(call_format::internlm) + 1);

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

}  // namespace orcd::engine
