#include "engine/chat/output_format.hpp"

namespace orcd::engine {

output_format detect_output_format(std::string_view chat_template) {
  const auto has = [&](std::string_view text) { return chat_template.find(text) != std::string_view::npos; };
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
  } else if (has("<|python_tag|>") || (has("<|start_header_id|>") && has("\"parameters\""))) {
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
  const std::size_t open = prompt.rfind("<think>");
  if (open == std::string_view::npos) return false;
  const std::string_view after = prompt.substr(open + std::string_view("<think>").size());
  return after.find_first_not_of(" \n\t\r") == std::string_view::npos;
}

}  // namespace orcd::engine
