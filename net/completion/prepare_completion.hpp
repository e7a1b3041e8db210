// From a request for completions to jobs that may be submitted: everything that can be refused before the
// answer starts. No socket. Private to net/.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/chat/reasoning/reasoning_budget.hpp"
#include "engine/schedule/job.hpp"
#include "net/completion/completion_api.hpp"
#include "net/completion/completion_context.hpp"
#include "net/completion/completion_request.hpp"
#include "net/completion/grammar_source.hpp"
#include "net/completion/message_output.hpp"
#include "net/completion/message_reader.hpp"
#include "net/http/http_request.hpp"
#include "net/jobs/request_facts.hpp"

namespace orcd::net {

struct prepared_completion {
  completion_request asked;               ///< its messages, prompt and tools are freed
  std::string id;                         ///< the form's prefix and 32 characters
  std::vector<engine::job_request> jobs;  ///< one for each choice, by prompt; without constraint
  /// Of each prompt; null where the answer does not tell it.
  std::vector<std::shared_ptr<const prompt_echo>> echoes;
  reader_options reader;  ///< how the output is separated
  /// What the jobs' grammar is to be compiled from, if the request asks for one.
  std::optional<grammar_source> grammar;
  std::string grammar_key;  ///< key_of(*grammar)
  std::optional<engine::reasoning_budget> budget{};
  std::string fingerprint;  ///< http_request::fingerprint
  request_facts facts;
};

/// The forms of /v1/chat/completions and /v1/completions.
[[nodiscard]] request_form form_of(completion_kind kind);

/// Prepares a request. The first choice draws with the request's seed, each other one with a seed made from
/// it, so that a choice does not depend on how many others there are. Errors: as the form's parse(), the
/// template's own, context_length_exceeded, inference_timeout for a deadline that has passed.
[[nodiscard]] engine::result<prepared_completion> prepare_completion(
    const http_request& request, const request_form& form, const completion_context& context,
    std::chrono::system_clock::time_point wall);

/// The same for the io thread: nullopt where the template would take longer than about a millisecond. Then
/// prepare_completion() is to be called on a background thread.
[[nodiscard]] engine::result<std::optional<prepared_completion>> prepare_quickly(
    const http_request& request, const request_form& form, const completion_context& context,
    std::chrono::system_clock::time_point wall);

/// The prompt that the template makes of a chat, with the beginning of the answer or without it. It may take
/// long. Errors: the template's own, or what is not in it.
[[nodiscard]] engine::result<engine::rendered_prompt> render_chat(const completion_request& asked,
                                                                  const completion_context& context,
                                                                  bool generation_prompt);

/// The seed of one choice.
[[nodiscard]] std::uint64_t choice_seed(std::uint64_t seed, std::uint32_t choice) noexcept;

}  // namespace orcd::net
