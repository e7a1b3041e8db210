// The answer of POST /v1/messages: the events of a stream, or one message. Pure. io thread only. Private to
// net/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "net/completion/message_output.hpp"

namespace orcd::net {

struct message_identity {
  std::string id;
  std::string model;
  std::uint32_t prompt_tokens = 0;
  bool omit_reasoning = false;  ///< thinking blocks are empty
  engine::call_format calls = engine::call_format::none;
};

/// message_start, then for each part of the output content_block_start, its deltas and content_block_stop,
/// then message_delta and message_stop. A failure is an event `error`.
[[nodiscard]] std::unique_ptr<message_writer> make_event_writer(message_identity identity);

/// Collects what render_message() makes the body of. `message` must outlive it.
[[nodiscard]] std::unique_ptr<message_writer> make_block_collector(const message_identity& identity,
                                                                   whole_message& message);
[[nodiscard]] std::string render_message(const message_identity& identity, const whole_message& message);

}  // namespace orcd::net
