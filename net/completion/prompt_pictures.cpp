#include "net/completion/prompt_pictures.hpp"

#include <string>
#include <utility>

#include "net/completion/sent_pictures.hpp"
#include "net/json/field_checks.hpp"

namespace orcd::net {

using engine::result;

result<std::vector<engine::seen_picture>> see_pictures(const completion_request& asked,
                                                       const engine::picture_input& input) {
  std::vector<engine::seen_picture> out;
  if (!asked.pictures || asked.pictures->all().empty()) return out;
  if (asked.prompt_logprobs)
    return refuse_field("prompt_logprobs", "cannot be told of a prompt with pictures");
  if (asked.shows.token_ids)
    return refuse_field("return_token_ids", "cannot be told of a prompt with pictures");
  if (asked.shape.tokens) return refuse_field("truncate_prompt_tokens", "cannot cut a prompt with pictures");
  for (const sent_picture& sent : asked.pictures->all()) {
    auto seen = input.see(std::as_bytes(std::span(sent.file)), sent.detail);
    if (!seen && seen.error().code != engine::errc::invalid_request) return seen.error();
    if (!seen) return refuse_field(sent.path, seen.error().message);
    out.push_back(std::move(*seen));
  }
  return out;
}

prompt_pictures::prompt_pictures(const completion_request& asked, const engine::picture_input* input,
                                 const engine::chat_format& format)
    : asked_(asked), input_(asked.pictures ? input : nullptr) {
  if (input_ != nullptr) habits_ = engine::learn_part_habits(format, input_->text().placeholder);
}

void prompt_pictures::spread(boost::json::array& messages) const {
  if (input_ != nullptr) asked_.pictures->marks().spread(messages, habits_);
}

result<void> prompt_pictures::put(engine::rendered_prompt& prompt,
                                  const std::vector<engine::seen_picture>& seen) const {
  if (input_ == nullptr || asked_.pictures->all().empty()) return {};
  std::vector<std::string> texts(asked_.pictures->all().size(), input_->text().placeholder);
  for (std::size_t i = 0; i < seen.size(); ++i) texts[i] = seen[i].text;
  return asked_.pictures->marks().put(prompt, texts, habits_, input_->text().placeholder);
}

}  // namespace orcd::net
