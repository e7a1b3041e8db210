// The items of a /v1/responses request, in the form of /v1/chat/completions: messages, reasoning, calls and
// their results. Pure. Private to net/.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "net/completion/left_fields.hpp"
#include "net/store/response_store.hpp"

namespace orcd::net {

class sent_media;

constexpr std::size_t input_items_max = 4'096;
/// Of earlier responses: each request that goes on from them has them read again.
constexpr std::size_t earlier_bytes_max = 16 * 1024 * 1024;

/// `instructions` (null: none) become the first system message. What was asked and answered `earlier` comes
/// before `input`, which is the user's text or a list of items. A picture in the output of a call becomes a
/// text and is noted in `left`; where that is null it is refused. Errors: invalid_request with the path:
/// "input[2].content[0].type". Pictures of the user's messages in `input` go to `media`; where that is
/// null they are refused.
[[nodiscard]] engine::result<boost::json::array> read_input(const boost::json::value& instructions,
                                                            const kept_turns& earlier,
                                                            const boost::json::value& input,
                                                            left_names* left = nullptr,
                                                            sent_media* media = nullptr);

/// Reasoning in a form that no client looks into: what `encrypted_content` of a reasoning item holds.
[[nodiscard]] std::string seal_reasoning(std::string_view text);

}  // namespace orcd::net
