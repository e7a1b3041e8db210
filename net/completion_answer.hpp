// What a /v1/chat/completions or /v1/completions request is answered with: chunks of a stream or one object.
// Each choice is a job with an output of its own (job_output.hpp); this holds what they share. Pure.
// io thread only. Source: features.md (d) "OpenAI wire". Private to net/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/schedule/job.hpp"
#include "engine/text/tokenizer.hpp"
#include "net/completion_request.hpp"
#include "net/job_output.hpp"
#include "net/message_reader.hpp"

namespace orcd::net {

struct completion_identity {
  completion_kind kind = completion_kind::chat;
  std::string id;
  std::int64_t created = 0;  ///< seconds since 1970
  std::string model;
  std::string system_fingerprint;
  bool stream = false;
  bool include_usage = false;
  bool usage_in_chunks = false;     ///< with include_usage
  std::uint32_t prompt_tokens = 0;  ///< for usage_in_chunks
  bool logprobs = false;
  std::uint32_t choices = 1;
};

class completion_answer {
 public:
  explicit completion_answer(completion_identity identity);

  struct call {
    std::string id;
    std::string name;
    std::string arguments;  ///< one JSON object
  };
  /// How one choice went. Of a stream, the texts are sent and not kept; its calls have ids.
  struct choice {
    std::string text;
    std::string reasoning;
    std::vector<call> calls;
    std::uint32_t reasoning_tokens = 0;
    std::string logprobs;  ///< JSON, or empty
    engine::finish_reason reason = engine::finish_reason::stop;
    engine::job_stats stats;
    [[nodiscard]] std::string_view finish_reason() const noexcept;
  };
  [[nodiscard]] const completion_identity& identity() const noexcept { return identity_; }
  [[nodiscard]] choice& at(std::uint32_t index) { return choices_.at(index); }

  /// The opening of a chunk, up to and with "choices":[.
  [[nodiscard]] const std::string& chunk_head() const noexcept { return chunk_head_; }
  /// What stands between the choices of a chunk and its end; `tokens` are those of its choice so far.
  [[nodiscard]] std::string chunk_tail(std::uint32_t tokens) const;

  /// The last frames of a stream: the usage, if asked for, and [DONE].
  [[nodiscard]] std::string closing() const;
  /// The body of an answer that is no stream.
  [[nodiscard]] std::string whole() const;

 private:
  [[nodiscard]] std::string usage() const;

  completion_identity identity_;
  std::string chunk_head_;
  std::vector<choice> choices_;
};

/// The output of one choice. `vocabulary` must outlive it. With a `form` that parts the output, stop strings
/// are its own, not token_stream's.
[[nodiscard]] std::unique_ptr<job_output> make_choice_output(std::shared_ptr<completion_answer> answer,
                                                             std::uint32_t index,
                                                             const engine::tokenizer& vocabulary,
                                                             const message_form& form = {});

}  // namespace orcd::net
