// One output of a model as it comes, whatever the API that it is written for: separated into its parts
// (message_reader), counted, its log probabilities kept until the part that they belong to. A message_writer
// says what bytes a part becomes. No socket. io thread only. Private to net/.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/chat/output_delta.hpp"
#include "engine/schedule/job.hpp"
#include "engine/text/tokenizer.hpp"
#include "net/completion/logprob_text.hpp"
#include "net/completion/message_reader.hpp"
#include "net/jobs/job_output.hpp"
#include "net/json/request_fields.hpp"

namespace orcd::net {

/// What a writer may want to know besides the part that it writes.
struct message_progress {
  std::uint32_t tokens = 0;  ///< of the output so far
  /// Of the tokens whose text no writer has taken yet: a writer of chunks takes them with each part.
  std::vector<logprob_entry> logprobs;
  /// The tokens of the output that no writer has taken yet.
  std::vector<engine::token_id> ids{};
};

/// How an output ended.
struct message_end {
  engine::finish_reason reason = engine::finish_reason::stop;
  engine::job_stats stats;
  std::uint32_t reasoning_tokens = 0;
  std::uint32_t calls = 0;
  std::string stop;  ///< the stop string that ended it; empty for any other end
};

/// Every call may append frames to `out`. Order: started, part*, then one of ended and failed.
class message_writer {
 public:
  virtual ~message_writer() = default;
  virtual void started(std::string& out) = 0;
  virtual void progress(std::string& /*out*/, const prompt_progress& /*progress*/) {}
  virtual void part(std::string& out, const engine::output_delta& part, message_progress& progress) = 0;
  virtual void ended(std::string& out, const message_end& end, message_progress& progress) = 0;
  virtual void failed(std::string& out, const engine::error& failure) = 0;
  /// Whether a token's log probabilities are written once, with the part that takes them from the progress:
  /// else they may come again.
  [[nodiscard]] virtual bool writes_values_once() const noexcept { return false; }
  /// Appends something that clients skip.
  virtual void keep_alive(std::string& out) = 0;
};

/// A prompt that the output begins with.
struct prompt_echo {
  std::string text;
  engine::token_id first = -1;  ///< its first token, which has no log probability
  bool logprobs = false;        ///< its tokens are told (job_request::score_from is 1)
  std::size_t unshown = 0;      ///< code points of its tokens before those of the text, such as BOS
  std::uint32_t listed = engine::top_logprobs_max;  ///< at most so many likely tokens are told beside each
};

/// Takes what is told of a prompt's tokens.
using prompt_values = std::vector<prompt_value>;

/// `vocabulary` must outlive the output. Where `reader` separates reasoning or calls from the content, it
/// also looks for stop strings, in the content alone; otherwise token_stream does. `values`: where the values
/// of the prompt's tokens go, those of an echo too; null: they are not wanted.
[[nodiscard]] std::unique_ptr<job_output> make_message_output(std::unique_ptr<message_writer> writer,
                                                              const engine::tokenizer& vocabulary,
                                                              const reader_options& reader,
                                                              std::shared_ptr<const prompt_echo> echo = {},
                                                              std::shared_ptr<prompt_values> values = {});

/// An id for a tool call: the API's prefix and 24 characters of the series' next id. Mistral's templates take
/// ids of nine letters and digits only, so that its calls have such ones in every API.
[[nodiscard]] std::string make_call_id(std::string_view prefix, engine::call_format format, id_series& ids);

/// A whole message. What comes in pieces of one kind, one after the other, is one part.
struct whole_message {
  struct part {
    engine::output_delta::kind what = engine::output_delta::kind::content;  ///< never `arguments`
    std::string text;  ///< of a call its arguments, JSON unless they were cut off
    std::string name;  ///< of a call
    std::string id;    ///< of a call
  };
  std::vector<part> parts;
  message_end end;
  std::vector<logprob_entry> logprobs;  ///< of all tokens
  std::vector<engine::token_id> ids;    ///< of all tokens

  /// All text of one kind.
  [[nodiscard]] std::string text_of(engine::output_delta::kind what) const;
};

/// Collects a message for an answer that is no stream; writes nothing.
class message_collector : public message_writer {
 public:
  /// `message` must outlive the collector.
  message_collector(whole_message& message, std::function<std::string()> make_call_id);

  void started(std::string&) override {}
  void part(std::string&, const engine::output_delta& part, message_progress& progress) override;
  void ended(std::string&, const message_end& end, message_progress& progress) override;
  void failed(std::string&, const engine::error&) override {}
  void keep_alive(std::string&) override {}

 private:
  whole_message& message_;
  std::function<std::string()> make_call_id_;
};

}  // namespace orcd::net
