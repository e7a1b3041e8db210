// The pictures or sounds of a chat on their way into its prompt: decoded and prepared, put where the template
// has them, and found among the tokens. Private to net/.
#pragma once

#include <boost/json/array.hpp>
#include <vector>

#include "engine/conversation/media_marks.hpp"
#include "engine/schedule/job.hpp"
#include "engine/served/media_input.hpp"
#include "net/completion/completion_api.hpp"
#include "net/completion/completion_context.hpp"
#include "net/completion/completion_request.hpp"

namespace orcd::net {

/// Decodes and prepares all media of a request, which takes long: none after those that fill the context, or
/// once nobody waits for the prompt. Refuses what they cannot be beside. Errors: invalid_request with the
/// medium's path as param; context_length_exceeded; cancelled; not_ready.
[[nodiscard]] engine::result<std::vector<engine::seen_medium>> see_media(const completion_request& asked,
                                                                         const completion_context& context,
                                                                         const request_form& form);

/// Where media stand in a chat's messages and its prompt, for one template.
class prompt_media {
 public:
  /// Without media in the request, or where none are taken, the object does nothing.
  prompt_media(const completion_request& asked, const engine::media_input* input,
               const engine::chat_format& format);
  /// Media of results go where the template prints them; before the messages are adapted to it.
  void lift(boost::json::array& messages) const;
  /// Brings messages into the form that the template takes.
  void spread(boost::json::array& messages) const;
  /// Puts the media's texts into the prompt; of media that were not seen the placeholder. Errors:
  /// invalid_request.
  [[nodiscard]] engine::result<void> put(engine::rendered_prompt& prompt,
                                         const std::vector<engine::seen_medium>& seen) const;

 private:
  const completion_request& asked_;
  const engine::media_input* input_;
  engine::part_habits habits_;
};

}  // namespace orcd::net
