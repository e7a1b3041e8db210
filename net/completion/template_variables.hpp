// The variables of a chat template. Pure. Private to net/.
#pragma once

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <string_view>

#include "engine/base/error.hpp"
#include "engine/conversation/chat_format.hpp"
#include "net/completion/completion_request.hpp"

namespace orcd::net {

/// Whether it is the worker's: neither a request nor an option sets it.
[[nodiscard]] constexpr bool is_own_variable(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 8> own{
      "messages",  "tools",     "documents", "add_generation_prompt",
      "bos_token", "eos_token", "unk_token", "pad_token"};
  return std::find(own.begin(), own.end(), name) != own.end();
}

/// What the template sees besides the messages. Error: invalid_request for what it does not read.
[[nodiscard]] engine::result<boost::json::object> template_variables_of(const engine::chat_format& format,
                                                                        const completion_request& asked,
                                                                        const completion_limits& limits);

}  // namespace orcd::net
