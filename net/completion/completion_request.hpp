// The bodies of POST /v1/chat/completions and /v1/completions: bytes to a validated request. A field is
// honoured, left because it cannot change an answer (left_fields.hpp), or refused by name; docs/api/openai.md
// lists them. Pure: no socket, no tokenizer, no template. Source: WORK-3120. Private to net/.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/sampling/logprobs.hpp"
#include "engine/sampling/sampling.hpp"
#include "engine/schedule/job.hpp"
#include "engine/text/tokenizer.hpp"
#include "engine/worker_state.hpp"
#include "net/completion/left_fields.hpp"
#include "net/completion/output_constraints.hpp"
#include "net/limits.hpp"
#include "net/models/adapter_list.hpp"
#include "net/store/response_store.hpp"

namespace orcd::engine {
class media_input;
}

namespace orcd::net {

class sent_media;

constexpr std::size_t token_list_max = 1'024;  ///< stop_token_ids, allowed_token_ids
constexpr std::size_t bad_words_max = 256;
constexpr std::size_t breakers_max = 16;  ///< dry_sequence_breakers
constexpr std::size_t messages_max = 4'096;
constexpr float logit_bias_max = 100.0F;

/// The most choices of a request: its `n`, for each of its prompts.
constexpr std::uint32_t choices_max = 128;

enum class completion_kind { chat, text };

struct prompt_text {
  std::string text;
  bool parse_special = true;  ///< the texts of special tokens are recognised
  bool add_special = true;    ///< BOS and EOS as the model's rules say
  friend bool operator==(const prompt_text&, const prompt_text&) = default;
};

/// A prompt in its parts, one after the other: texts and token ids.
using prompt_part = std::variant<prompt_text, std::vector<engine::token_id>>;
using text_prompt = std::vector<prompt_part>;

/// How a prompt ends and what of it is kept.
struct prompt_shape {
  bool continues = false;                   ///< chat: the last message is the beginning of the answer
  std::optional<bool> generation_prompt{};  ///< chat: whether the answer's beginning is added; else as fits
  bool add_special = true;                  ///< text: BOS and EOS as the model's rules say
  /// Of a longer prompt only this many tokens are used; -1 = as many as the context has room for.
  std::optional<std::int64_t> tokens{};
  bool keeps_first = false;  ///< the first ones rather than the last
};

/// A bias of each token of a text; without one they are forbidden.
struct text_bias {
  std::string text;
  std::optional<float> bias;
};

/// What an answer shows besides its text.
struct answer_shape {
  bool token_ids = false;       ///< of prompt and output
  bool tokens_as_ids = false;   ///< in log probabilities a token is "token_id:5"
  bool timings = false;         ///< in every chunk and in the answer
  bool progress = false;        ///< chunks that tell how much of the prompt is computed
  bool special_tokens = false;  ///< control tokens are text
  bool stop_string = false;     ///< the stop string or token that ends the output is part of it
  bool reasoning = true;        ///< what the model reasons
  bool raw_reasoning = false;   ///< reasoning is not separated from the content
};

/// An API's parser makes its own kind, which its answer gets back.
struct request_notes {
  virtual ~request_notes() = default;
};

struct completion_request {
  completion_kind kind = completion_kind::chat;

  /// Chat: those in the messages; null: there are none.
  std::shared_ptr<sent_media> media;
  boost::json::array messages;             ///< chat: checked, in the form that templates expect
  boost::json::object template_variables;  ///< chat: the caller's own, none of ours
  /// Chat: further variables, for a template that reads them.
  boost::json::object template_hints;
  std::optional<std::string> chat_template;
  boost::json::array documents;      ///< chat: for templates that read them
  output_constraints constraints;    ///< chat: what the output must look like
  std::vector<text_prompt> prompts;  ///< text: at least one
  bool echo_prompt = false;          ///< text: the answer begins with the prompt
  bool tells_prompt = false;         ///< text: the answer has the prompt in a place of its own
  bool token_ids = false;            ///< text: the answer has the ids of the output's tokens

  std::optional<std::uint32_t> max_tokens;           ///< at most; nothing: what fits
  std::string_view max_tokens_field = "max_tokens";  ///< the name that the request uses, for messages
  engine::sampling_params sampling;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> stop;
  std::optional<std::string> prediction;  ///< what the output is expected to repeat; changes nothing of it
  std::uint32_t choices = 1;              ///< of each prompt
  bool stream = false;
  bool include_usage = false;    ///< a last chunk with the usage; streams only
  bool usage_in_chunks = false;  ///< and in each chunk the usage of its choice so far
  bool logprobs = false;
  std::uint32_t top_logprobs = 0;
  /// The answer tells the values of the prompt's tokens, and those of so many likely ones beside each.
  std::optional<std::uint32_t> prompt_logprobs{};
  bool ignore_eos = false;
  std::uint32_t min_tokens = 0;
  std::vector<engine::token_id> stop_tokens;     ///< ascending
  std::vector<engine::token_id> allowed_tokens;  ///< empty = all
  std::vector<engine::token_id> banned_tokens;
  std::optional<std::uint32_t> reasoning_tokens_max;       ///< chat; nothing: as many as the model wants
  std::vector<text_bias> text_biases;                      ///< of all tokens that a text has
  std::vector<std::string> bad_words;                      ///< never written
  std::vector<std::vector<engine::token_id>> banned_rows;  ///< tokens that never come in a row
  std::optional<std::vector<std::string>> dry_breakers{};  ///< nothing: the worker's
  prompt_shape shape;
  answer_shape shows;
  engine::cache_request cache;  ///< cache_prompt, cache_salt, imc_id
  std::vector<engine::job_adapter> adapters{};
  std::string model{};  ///< of the answer: an adapter's name; empty: the model's own
  std::optional<std::chrono::milliseconds> timeout;
  /// JSON that the answer repeats of the request, as the API's own parser has written it.
  std::string echo;
  bool omit_reasoning = false;  ///< the answer does not tell it
  bool count_only = false;      ///< only the prompt is asked for; it may be longer than the context
  left_names left_out;          ///< what the answer's header names
  std::shared_ptr<const request_notes> notes;  ///< what else the API's answer has to know of the request
  /// The request goes on from more than completion_limits::recalled_bytes_max: nothing else was read.
  bool unread = false;
};

/// What a request may ask for, beyond request_limits.
struct completion_limits {
  const request_limits& lengths;
  const engine::worker_identity& served;  ///< see model_names.hpp
  shared_adapters adapters{};             ///< null: there are none
  std::uint32_t vocab = 0;                ///< token ids are below
  bool request_template = false;          ///< a request may bring its own template
  bool strict_fields = false;             ///< refuse what would be taken and left
  bool parse_special_in_chat = false;     ///< special tokens are recognised in the text of messages
  double temperature_max = 2.0;           ///< of an API
  std::uint32_t system_tokens_min = 1;    ///< shorter system prompts are not kept
  engine::infill_tokens infill{};         ///< of the model's vocabulary
  std::optional<response_shelf> shelf{};  ///< where responses are kept; unset: nowhere
  /// Variables of the chat template that hold where a request sets them not; null: none.
  const boost::json::object* template_defaults = nullptr;
  /// Of reasoning, where a chat does not say it; nothing: no limit.
  std::optional<std::uint32_t> reasoning_tokens_max{};
  const engine::media_input* media = nullptr;  ///< null: none are taken
  /// The text of earlier responses that may be read here.
  std::size_t recalled_bytes_max = std::numeric_limits<std::size_t>::max();
};

/// Whether making tokens of its breakers takes some milliseconds.
[[nodiscard]] bool has_own_breakers(const completion_request& asked);
/// Makes tokens of `text_biases`, `bad_words` and `dry_breakers`. Error: invalid_request where they are too
/// many.
[[nodiscard]] engine::result<void> resolve_texts(completion_request& asked,
                                                 const engine::tokenizer& vocabulary);

/// Errors: invalid_request with the field as param, not_found for another model's name. A field that is null
/// counts as absent.
[[nodiscard]] engine::result<completion_request> parse_completion(std::string_view body, completion_kind kind,
                                                                  const completion_limits& limits);

/// The request, of which only the prompt's tokens are counted.
[[nodiscard]] inline engine::result<completion_request> counted(engine::result<completion_request> asked) {
  if (asked) asked->count_only = true;
  return asked;
}

}  // namespace orcd::net
