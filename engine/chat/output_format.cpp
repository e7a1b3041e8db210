#include "engine/chat/output_format.hpp"

#include <algorithm>
#include <array>

namespace orcd::engine {

namespace {

constexpr std::array<std::string_view, 10> known_marks{
    "<|channel|>", "<|message|>", "</think>",  "<think>",        "[TOOL_CALLS]",
    "<tool_call>", "<function=",  "<arg_key>", "<|python_tag|>", "<|start_header_id|>"};
constexpr std::string_view parameters_key = "\"parameters\"";

}  // namespace

output_format detect_output_format(std::string_view chat_template) {
  // One pass for all marks: a template may come with a request, written so that every mark nearly begins
  // everywhere.
  std::array<bool, known_marks.size()> seen{};
  bool has_parameters = false;
  for (std::size_t at = 0; at + 1 < chat_template.size(); ++at) {
    const char first = chat_template[at];
    if (first != '<' && first != '[' && first != '"') continue;
    const std::string_view rest = chat_template.substr(at);
    const auto begins = [&](std::string_view mark) { return mark[1] == rest[1] && rest.starts_with(mark); };
    has_parameters = has_parameters || begins(parameters_key);
    for (std::size_t i = 0; i < seen.size(); ++i) seen[i] = seen[i] || begins(known_marks[i]);
  }
  const auto has = [&](std::string_view mark) {
    return seen[static_cast<std::size_t>(std::find(known_marks.begin(), known_marks.end(), mark) -
                                         known_marks.begin())];
  };
  output_format out;
  if (has("<|channel|>") && has("<|message|>")) {
    out.calls = call_format::harmony;
    return out;
  }
  out.think = has("</think>") || has("<think>");
  if (has("[TOOL_CALLS]")) {
    out.calls = call_format::mistral;
  } else if (has("<tool_call>") && !has("<function=") && !has("<arg_key>")) {
    out.calls = call_format::hermes;
  } else if (has("<|python_tag|>") || (has("<|start_header_id|>") && has_parameters)) {
    out.calls = call_format::llama3;
  }
  return out;
}

std::vector<std::string_view> marks_of(const output_format& format) {
  std::vector<std::string_view> out;
  switch (format.calls) {
    case call_format::none: break;
    case call_format::hermes: out = {"<tool_call>", "</tool_call>"}; break;
    case call_format::llama3: out = {"<|python_tag|>"}; break;
    case call_format::mistral: out = {"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"}; break;
    case call_format::harmony:
      out = {"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>", "<|return|>"};
      break;
  }
  if (format.think && format.calls != call_format::harmony) {
    out.push_back("<think>");
    out.push_back("</think>");
  }
  return out;
}

bool ends_in_reasoning(std::string_view prompt) noexcept {
  const std::size_t last = prompt.find_last_not_of(" \n\t\r");
  return last != std::string_view::npos && prompt.substr(0, last + 1).ends_with("<think>");
}

}  // namespace orcd::engine
