// The answer of POST /api/chat and POST /api/generate: lines of JSON, or one object. Times are nanoseconds.
// Pure. io thread only. Private to net/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/text/tokenizer.hpp"
#include "net/completion/message_output.hpp"
#include "net/ollama/ollama_request.hpp"

namespace orcd::net {

/// What all lines of an answer have in common.
struct ollama_identity {
  ollama_use use = ollama_use::chat;
  std::string id;  ///< from which those of calls follow
  std::string model;
  std::string created_at;  ///< RFC 3339
  engine::call_format calls = engine::call_format::none;
  bool logprobs = false;
};

/// A line for each part of the output, and a last one with the reason and the figures. A call is told when
/// it is whole; one that is cut and therefore no object is left out. A failure is {"error"}. `vocabulary`
/// must outlive the writer.
[[nodiscard]] std::unique_ptr<message_writer> make_line_writer(ollama_identity identity,
                                                               const engine::tokenizer& vocabulary);

/// Collects what render_ollama() makes the body of. `message` must outlive it.
[[nodiscard]] std::unique_ptr<message_writer> make_ollama_collector(const ollama_identity& identity,
                                                                    whole_message& message);
[[nodiscard]] std::string render_ollama(const ollama_identity& identity, const whole_message& message,
                                        const engine::tokenizer& vocabulary);

/// The answer where nothing was asked for but the model.
[[nodiscard]] std::string render_loaded(const ollama_identity& identity);

/// A duration as ollama tells it: nanoseconds.
[[nodiscard]] std::int64_t nanoseconds_of(double milliseconds) noexcept;

}  // namespace orcd::net
