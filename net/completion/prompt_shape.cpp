#include "net/completion/prompt_shape.hpp"

#include <algorithm>
#include <boost/json/object.hpp>

#include "net/json/field_checks.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;

/// Private-use characters, which no template looks at and no tokenizer ever sees. A message that has the same
/// text does no harm: the last one counts.
constexpr std::string_view mark = "\uF8FForcd-end-of-message\uF8FF";

}  // namespace

json::array with_mark(json::array messages) {
  auto& content = messages.back().as_object()["content"];
  std::string text = content.is_string() ? std::string(content.get_string()) : std::string();
  content = text.append(mark);
  return messages;
}

engine::result<void> cut_at_mark(engine::rendered_prompt& prompt) {
  const auto end = prompt.text.rfind(mark);
  if (end == std::string::npos) {
    return refuse_field("continue_final_message",
                        "cannot be served: the model's chat template does not print the last message's text");
  }
  prompt.text.resize(end);
  std::erase_if(prompt.callers, [end](const auto& part) { return part.from >= end; });
  for (auto& part : prompt.callers) part.size = std::min(part.size, end - part.from);
  return {};
}

bool is_within_reasoning(const engine::rendered_prompt& prompt,
                         const engine::output_format& format) noexcept {
  const engine::mark_pair marks = engine::reasoning_marks(format);
  if (marks.open.empty()) return false;
  std::string_view text = prompt.text;
  const auto& parts = prompt.callers;
  if (parts.size() >= 2) text.remove_prefix(parts[parts.size() - 2].from + parts[parts.size() - 2].size);
  const auto begin = text.rfind(marks.open);
  return begin != std::string_view::npos && text.find(marks.close, begin) == std::string_view::npos;
}

bool cut_prompt(std::vector<engine::token_id>& prompt, const prompt_shape& shape,
                std::uint32_t context_tokens, std::uint32_t max_tokens) {
  if (!shape.tokens) return false;
  // The last output token needs no position of its own.
  const std::uint32_t room = context_tokens + 1 - std::clamp(max_tokens, 1U, context_tokens);
  const auto most = *shape.tokens < 0 ? std::size_t{room} : static_cast<std::size_t>(*shape.tokens);
  if (prompt.size() <= most) return false;
  if (shape.keeps_first) {
    prompt.resize(most);
    return false;
  }
  prompt.erase(prompt.begin(), prompt.end() - static_cast<std::ptrdiff_t>(most));
  return true;
}

}  // namespace orcd::net
