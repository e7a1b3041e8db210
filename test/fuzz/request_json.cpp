// Any bytes as the body of /execute, /cancel, /shutdown and the completions and as a request head and header
// fields: no crash, and whatever is accepted keeps the documented limits.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/base/ensure.hpp"
#include "net/callback_url.hpp"
#include "net/completion_request.hpp"
#include "net/parse_cancel.hpp"
#include "net/parse_execute.hpp"
#include "net/request_fields.hpp"
#include "net/request_head.hpp"
#include "net/routes.hpp"

namespace {

using namespace orcd;

void check_execute(std::string_view body) {
  net::execute_limits limits;
  limits.context_tokens = 4'096;
  limits.prompt_chars_max = 100;
  const auto request = net::parse_execute(body, limits);
  if (!request) {
    ORCD_ENSURE(!request.error().message.empty());
    return;
  }
  const auto& sampling = request->sampling;
  ORCD_ENSURE(!request->job_id.empty() && request->job_id.size() <= net::job_id_bytes_max);
  ORCD_ENSURE(!request->prompt.empty() && request->prompt.size() <= 400);
  ORCD_ENSURE(request->max_tokens.value_or(1) >= 1 &&
              request->max_tokens.value_or(1) <= limits.tokens_out_max);
  ORCD_ENSURE(sampling.temperature >= 0.0F && sampling.temperature <= 2.0F);
  ORCD_ENSURE(sampling.top_p > 0.0F && sampling.top_p <= 1.0F);
  ORCD_ENSURE(sampling.min_p >= 0.0F && sampling.min_p <= 1.0F);
  ORCD_ENSURE(sampling.repetition_penalty > 0.0F && sampling.repetition_penalty <= 2.0F);
  ORCD_ENSURE(sampling.repeat_last_n <= net::repeat_last_n_max);
  ORCD_ENSURE(request->stop.size() <= net::stop_strings_max);
  for (const auto& stop : request->stop) ORCD_ENSURE(!stop.empty() && stop.size() <= net::stop_bytes_max);
}

void check_completion(std::string_view body, net::completion_kind kind) {
  net::execute_limits lengths;
  lengths.context_tokens = 4'096;
  lengths.prompt_chars_max = 100;
  net::completion_limits limits{lengths, "m"};
  limits.vocab = 1'000;
  limits.choices_max = 4;
  const auto request = net::parse_completion(body, kind, limits);
  if (!request) {
    ORCD_ENSURE(!request.error().message.empty());
    return;
  }
  ORCD_ENSURE(request->choices >= 1 && request->choices <= limits.choices_max);
  ORCD_ENSURE(request->max_tokens.value_or(1) >= 1 &&
              request->max_tokens.value_or(1) <= lengths.tokens_out_max);
  ORCD_ENSURE(request->top_logprobs <= engine::top_logprobs_max && !request->chat_template);
  ORCD_ENSURE(request->stop.size() <= net::completion_stops_max);
  ORCD_ENSURE(request->sampling.biases.size() <= engine::logit_biases_max);
  for (const auto& bias : request->sampling.biases) ORCD_ENSURE(bias.token >= 0 && bias.token < 1'000);
  for (const auto id : request->prompt_tokens) ORCD_ENSURE(id >= 0 && id < 1'000);
  ORCD_ENSURE(kind == net::completion_kind::text || !request->messages.empty());
}

/// The scan of a head must not depend on how the bytes arrive.
void check_head(std::string_view bytes) {
  net::head_scanner whole({});
  net::head_scanner split({});
  const auto all = whole.scan(bytes);
  auto state = net::head_scanner::state::incomplete;
  for (std::size_t n = 0; n <= bytes.size() && state == net::head_scanner::state::incomplete; ++n) {
    state = split.scan(bytes.substr(0, n));
  }
  ORCD_ENSURE(all == state);
  ORCD_ENSURE(whole.problem().status == split.problem().status);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check_execute(bytes);
  check_completion(bytes, net::completion_kind::chat);
  check_completion(bytes, net::completion_kind::text);
  check_head(bytes.substr(0, 20'000));
  static_cast<void>(net::parse_cancel(bytes));
  static_cast<void>(net::parse_shutdown(bytes));
  static_cast<void>(net::parse_deadline(bytes));
  static_cast<void>(net::parse_callback_url(bytes));
  static_cast<void>(net::find_route("GET", bytes));
  return 0;
}
