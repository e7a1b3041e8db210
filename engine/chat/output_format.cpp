#include "engine/chat/output_format.hpp"

#include <algorithm>
#include <array>

namespace orcd::engine {

namespace {

constexpr auto known_marks = std::to_array<std::string_view>({"<|channel|>",
                                                              "<|message|>",
                                                              "</think>",
                                                              "<think>",
                                                              "[TOOL_CALLS]",
                                                              "<tool_call>",
                                                              "<function=",
                                                              "<arg_key>",
                                                              "<|python_tag|>",
                                                              "<|observation|>",
                                                              "<|start_header_id|>",
                                                              "<start_of_turn>",
                                                              "<seed:tool_call>",
                                                              "<seed:think>",
                                                              "[THINK]",
                                                              "<|START_THINKING|>",
                                                              "<|START_ACTION|>",
                                                              "<response>",
                                                              "<|START_RESPONSE|>",
                                                              "<|tool_call|>",
                                                              "<|tool_call>",
                                                              "<|channel>",
                                                              "<function_calls>",
                                                              "<|action_start|>",
                                                              "<|tool_call_start|>",
                                                              "<|tool_list_start|>",
                                                              "<|plugin|>",
                                                              "```tool_code",
                                                              "\"parameters\"",
                                                              "\"tool_name\"",
                                                              "Action:"});

// In the order of call_format.
constexpr auto names = std::to_array<std::string_view>(
    {"none", "hermes", "llama3", "mistral", "harmony", "granite", "command_r", "action", "tool_code", "glm",
     "arg_pairs", "qwen_coder", "seed", "olmo", "internlm", "gemma4", "lfm2", "generic"});
static_assert(names.size() == call_formats);

constexpr std::string_view beginnings = "<[\"`A";  ///< the first bytes of the marks

// In the order of reasoning_style.
constexpr auto reasonings =
    std::to_array<reasoning_syntax>({{{"<think>", "</think>"}},
                                     {{"<seed:think>", "</seed:think>"}},
                                     {{"[THINK]", "[/THINK]"}},
                                     {{"<|START_THINKING|>", "<|END_THINKING|>"}},
                                     {{"<|channel>", "<channel|>"}, "thought", true}});
static_assert(reasonings.size() == static_cast<std::size_t>(reasoning_style::channel) + 1);

/// What a template mentions.
class mentions {
 public:
  // One pass for all marks: a template may come with a request, written so that every mark nearly begins
  // everywhere.
  explicit mentions(std::string_view text) {
    for (std::size_t at = 0; at + 1 < text.size(); ++at) {
      if (beginnings.find(text[at]) == std::string_view::npos) continue;
      const std::string_view rest = text.substr(at);
      for (std::size_t i = 0; i < seen_.size(); ++i) {
        const std::string_view mark = known_marks[i];
        if (mark[0] == rest[0] && mark[1] == rest[1]) seen_[i] = seen_[i] || rest.starts_with(mark);
      }
    }
  }
  [[nodiscard]] bool operator()(std::string_view mark) const {
    return seen_[static_cast<std::size_t>(std::find(known_marks.begin(), known_marks.end(), mark) -
                                          known_marks.begin())];
  }

 private:
  std::array<bool, known_marks.size()> seen_{};
};

call_format calls_of(const mentions& has) {
  if (has("[TOOL_CALLS]")) return call_format::mistral;
  if (has("<seed:tool_call>")) return call_format::seed;
  if (has("<|START_ACTION|>")) return call_format::action;
  if (has("<|tool_call|>")) return call_format::granite;
  if (has("<|tool_call>")) return call_format::gemma4;
  if (has("<tool_call>")) {
    if (has("<function=")) return call_format::qwen_coder;
    return has("<arg_key>") ? call_format::arg_pairs : call_format::hermes;
  }
  if (has("<function_calls>")) return call_format::olmo;
  if (has("<|tool_call_start|>") || has("<|tool_list_start|>")) return call_format::lfm2;
  if (has("<|action_start|>") && has("<|plugin|>")) return call_format::internlm;
  if (has("Action:") && has("\"tool_name\"")) return call_format::command_r;
  if (has("```tool_code")) return call_format::tool_code;
  const bool turns = has("<|start_header_id|>") || has("<start_of_turn>");
  if (has("<|python_tag|>") || (turns && has("\"parameters\""))) return call_format::llama3;
  return has("<|observation|>") ? call_format::glm : call_format::none;
}

std::string_view without_space_behind(std::string_view text) noexcept {
  return text.substr(0, text.find_last_not_of(" \n\t\r") + 1);
}

/// Whether a mark stands at the end, white space behind it left out. No mark is nowhere.
bool ends_with_mark(std::string_view text, std::string_view mark) noexcept {
  return !mark.empty() && without_space_behind(text).ends_with(mark);
}

}  // namespace

std::string_view to_string(call_format format) noexcept {
  return names[static_cast<std::size_t>(format)];
}

output_format detect_output_format(std::string_view chat_template) {
  const mentions has(chat_template);
  output_format out;
  if (has("<|channel|>") && has("<|message|>")) {
    out.calls = call_format::harmony;
    return out;
  }
  out.calls = calls_of(has);
  out.think = true;
  if (has("<seed:think>")) {
    out.reasoning = reasoning_style::seed;
  } else if (has("<|START_THINKING|>")) {
    out.reasoning = reasoning_style::thinking;
  } else if (has("[THINK]")) {
    out.reasoning = reasoning_style::brackets;
  } else if (has("<|channel>")) {
    out.reasoning = reasoning_style::channel;
  } else {
    out.think = has("</think>") || has("<think>");
  }
  if (has("<|START_RESPONSE|>")) {
    out.answer = answer_style::response_tokens;
  } else if (out.think && has("<response>")) {
    out.answer = answer_style::response;
  }
  return out;
}

reasoning_syntax reasoning_marks(const output_format& format) noexcept {
  if (!format.think || format.calls == call_format::harmony) return {};
  return reasonings[static_cast<std::size_t>(format.reasoning)];
}

bool ends_in_reasoning(std::string_view prompt, const output_format& format) noexcept {
  const reasoning_syntax marks = reasoning_marks(format);
  const std::string_view end = without_space_behind(prompt);
  const bool labelled = !marks.label.empty() && end.ends_with(marks.label);
  return ends_with_mark(prompt, marks.open) ||
         (labelled && end.substr(0, end.size() - marks.label.size()).ends_with(marks.open));
}

bool ends_after_reasoning(std::string_view prompt, const output_format& format) noexcept {
  return ends_with_mark(prompt, reasoning_marks(format).close);
}

}  // namespace orcd::engine
