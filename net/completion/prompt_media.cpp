#include "net/completion/prompt_media.hpp"

#include <string>
#include <utility>

#include "net/completion/left_fields.hpp"
#include "net/completion/sent_media.hpp"
#include "net/jobs/job_checks.hpp"
#include "net/json/field_checks.hpp"

namespace orcd::net {

using engine::result;

result<std::vector<engine::seen_medium>> see_media(const completion_request& asked,
                                                   const completion_context& context,
                                                   const request_form& form) {
  std::vector<engine::seen_medium> out;
  if (!asked.media || asked.media->all().empty()) return out;
  const engine::media_input& input = *context.limits.media;
  const std::uint32_t most = prompt_tokens_max(context.limits.lengths);
  std::uint64_t rows = 0;
  const std::string what = input.hears() ? "sounds" : "pictures";
  if (asked.prompt_logprobs)
    return refuse_field("prompt_logprobs", "cannot be told of a prompt with " + what);
  if (asked.shows.token_ids)
    return refuse_field("return_token_ids", "cannot be told of a prompt with " + what);
  if (asked.shape.tokens) return refuse_field("truncate_prompt_tokens", "cannot cut a prompt with " + what);
  for (const sent_medium& sent : asked.media->all()) {
    if (context.unwanted && *context.unwanted)
      return engine::error(engine::errc::cancelled, "the client has gone");
    const auto file = std::as_bytes(std::span(sent.file));
    auto seen = input.hears() ? input.hear(file) : input.see(file, sent.detail);
    if (!seen && seen.error().code != engine::errc::invalid_request) return seen.error();
    if (!seen) return refuse_field(sent.path, seen.error().message);
    rows += seen->rows;
    if (rows > most) return form.too_long(rows, most, form.prompt_field);
    out.push_back(std::move(*seen));
  }
  return out;
}

prompt_media::prompt_media(const completion_request& asked, const engine::media_input* input,
                           const engine::chat_format& format)
    : asked_(asked), input_(asked.media ? input : nullptr) {
  if (input_ == nullptr) return;
  habits_ = engine::learn_part_habits(format, input_->text().placeholder, input_->text().part);
}

void prompt_media::lift(boost::json::array& messages) const {
  if (input_ != nullptr && !asked_.media->all().empty())
    asked_.media->marks().lift(messages, habits_, input_->hears() ? "[audio]" : picture_text);
}

void prompt_media::spread(boost::json::array& messages) const {
  if (input_ != nullptr) asked_.media->marks().spread(messages, habits_);
}

result<void> prompt_media::put(engine::rendered_prompt& prompt,
                               const std::vector<engine::seen_medium>& seen) const {
  if (input_ == nullptr || asked_.media->all().empty()) return {};
  std::vector<std::string> texts(asked_.media->all().size(), input_->text().placeholder);
  for (std::size_t i = 0; i < seen.size(); ++i) texts[i] = seen[i].text;
  return asked_.media->marks().put(prompt, texts, habits_, input_->text().placeholder);
}

}  // namespace orcd::net
