// From a /v1/chat/completions or /v1/completions request to jobs that may be submitted: everything that can
// be refused before the answer starts. No socket. Private to net/.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/chat_format.hpp"
#include "engine/schedule/job.hpp"
#include "engine/text/tokenizer.hpp"
#include "net/completion_request.hpp"
#include "net/grammar_cache.hpp"
#include "net/http_request.hpp"
#include "net/message_reader.hpp"

namespace orcd::net {

struct completion_context {
  completion_limits limits;
  const engine::tokenizer& tokenizer;
  const engine::chat_format* chat = nullptr;  ///< null: the model has no chat template
  /// Null: nothing can be enforced.
  std::shared_ptr<const engine::grammar::token_table> tokens{};
};

struct prepared_completion {
  completion_request asked;
  std::string id;                         ///< "chatcmpl-..." or "cmpl-..."
  std::vector<engine::job_request> jobs;  ///< one for each choice; without constraint
  message_form form;                      ///< how the output is read
  /// The grammar that the jobs' constraints are to be made from, if the request asks for one.
  std::optional<grammar_order> grammar;
  std::size_t prompt_chars = 0;
  std::string prompt_digest;
  std::optional<std::chrono::milliseconds> deadline_left;  ///< of X-Deadline, when given
  bool deadline_is_final = false;
};

/// The first choice draws with the request's seed, each other one with a seed made from it, so that a choice
/// does not depend on how many others there are. Errors: as parse_completion, the template's own,
/// context_length_exceeded, inference_timeout for a deadline that has passed.
[[nodiscard]] engine::result<prepared_completion> prepare_completion(
    const http_request& request, completion_kind kind, const completion_context& context,
    std::chrono::system_clock::time_point wall);

/// The seed of one choice.
[[nodiscard]] std::uint64_t choice_seed(std::uint64_t seed, std::uint32_t choice) noexcept;

}  // namespace orcd::net
