// What a chat template wants of the messages that it is given. Templates differ in what they can take where
// the API leaves a choice: no content, arguments of calls as text or as an object, the form of calls' ids,
// several calls in a message, reasoning. They are asked, by rendering a short conversation with a call.
// Immutable; any thread.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string_view>

#include "engine/chat/output_format.hpp"
#include "engine/jinja/chat_template.hpp"

namespace orcd::engine {

struct message_habits {
  bool null_content = false;    ///< calls are shown only where the content is null, not ""
  bool text_arguments = false;  ///< calls' arguments are shown only where they are JSON text, not an object
  bool any_text = true;         ///< text that is no JSON can stand for arguments
  bool short_ids = false;       ///< calls' ids must have nine letters or digits
  /// A call is a message of its own, whose `metadata` is the function's name and whose content the arguments;
  /// a result has the role "observation" (GLM-4).
  bool metadata_calls = false;
  bool one_call = false;  ///< a message shows one call at most: each has a message, with its result behind it
  bool thinking_parts = false;  ///< reasoning is shown only as a part of the content
  bool late_text = false;       ///< text beside calls is shown behind their results
  bool results_within = false;  ///< results are shown as such only in the message of their calls
  bool no_calls = false;        ///< no call is shown in any form, in a template that was seen to render one
  /// What is known of the model, and no habit of the template: how calls are written into the text where
  /// `no_calls`, and whether arguments have no spaces (gpt-oss).
  call_format written_as = call_format::none;
  bool compact_arguments = false;
};

/// Learns a template's habits, in a bounded number of quick renderings.
[[nodiscard]] message_habits learn_habits(const chat_template& compiled,
                                          const boost::json::object& special_tokens);

/// Brings messages into the form of the habits. They are checked: each has a content, "" where there is none,
/// and each call an id, a function and arguments: an object or, where they are no JSON object, a text. Ids
/// that a template would refuse are replaced, the same by the same and different ones by different ones.
/// Arguments keep the text that the client sent (sent_arguments), so that a prompt says what the model wrote.
void adapt_messages(boost::json::array& messages, const message_habits& habits);

}  // namespace orcd::engine
