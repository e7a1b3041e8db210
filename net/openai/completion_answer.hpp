// The answer of a /v1/chat/completions or /v1/completions request: chunks of a stream, or one object. Each
// choice is a job with an output of its own (job_output.hpp); this holds what they share. Pure. io thread
// only. Private to net/.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/schedule/job.hpp"
#include "engine/text/tokenizer.hpp"
#include "net/completion/completion_request.hpp"
#include "net/completion/message_output.hpp"
#include "net/jobs/job_output.hpp"

namespace orcd::net {

struct completion_identity {
  completion_kind kind = completion_kind::chat;
  std::string id;
  std::int64_t created = 0;  ///< seconds since 1970
  std::string model;
  std::string system_fingerprint;
  bool stream = false;
  bool include_usage = false;
  bool null_usage = true;                       ///< the other chunks say then "usage": null, as OpenAI's do
  bool usage_in_chunks = false;                 ///< with include_usage
  std::vector<std::uint32_t> prompt_tokens{0};  ///< of each prompt
  std::uint64_t audio_tokens = 0;               ///< rows of sounds among them
  bool logprobs = false;
  std::uint32_t choices = 1;  ///< of each prompt
  bool predicted = false;     ///< the usage tells what became of drafts
  answer_shape shows{};
  std::function<engine::steady_time()> now{};  ///< for the timings of a stream; set where it shows them
  /// Set where the answer shows the values of the prompt's tokens; outlives it.
  const engine::tokenizer* vocabulary = nullptr;
};

class completion_answer {
 public:
  explicit completion_answer(completion_identity identity);

  struct choice {
    whole_message message;  ///< of a stream its end alone
    /// Makes the JSON of the log probabilities, which may take long; unset: there are none. Any thread.
    std::function<std::string()> logprobs;
    std::uint32_t prompt_tokens = 0;
    std::vector<engine::token_id> prompt_ids{};  ///< where the answer shows them
    /// Of the prompt that begins with this choice, where the answer shows them; else null.
    std::shared_ptr<prompt_values> values{};
    [[nodiscard]] std::string_view finish_reason() const noexcept;
  };
  [[nodiscard]] const completion_identity& identity() const noexcept { return identity_; }
  [[nodiscard]] choice& at(std::uint32_t index) { return choices_.at(index); }

  /// The beginning of a chunk, up to and including "choices":[.
  [[nodiscard]] const std::string& chunk_head() const noexcept { return chunk_head_; }
  /// The end of a chunk after the choice at `index`; `tokens` are those of that choice so far.
  [[nodiscard]] std::string chunk_tail(std::uint32_t index, std::uint32_t tokens) const;

  /// The last frames of a stream: the usage, if asked for, and [DONE].
  [[nodiscard]] std::string closing() const;
  /// The body of an answer that is no stream.
  [[nodiscard]] std::string body() const;

 private:
  [[nodiscard]] std::string usage() const;
  /// ,"prompt_logprobs":[...] of the prompt of the choice at `index`, if the answer shows it.
  void append_prompt_values(std::string& out, std::size_t index) const;

  completion_identity identity_;
  std::string chunk_head_;
  std::vector<choice> choices_;
};

/// The output of one choice: chunks if the answer is a stream, otherwise kept for body(). The rest as
/// make_message_output.
[[nodiscard]] std::unique_ptr<job_output> make_choice_output(std::shared_ptr<completion_answer> answer,
                                                             std::uint32_t index,
                                                             const engine::tokenizer& vocabulary,
                                                             const reader_options& reader = {},
                                                             std::shared_ptr<const prompt_echo> echo = {});

}  // namespace orcd::net
