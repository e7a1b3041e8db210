// Any bytes as the body of /execute, /cancel, /shutdown and the completions and as a request head and header
// fields: no crash, and whatever is accepted keeps the documented limits.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/ensure.hpp"
#include "net/completion/completion_request.hpp"
#include "net/execute/parse_cancel.hpp"
#include "net/execute/parse_execute.hpp"
#include "net/http/http_url.hpp"
#include "net/http/request_head.hpp"
#include "net/http/routes.hpp"
#include "net/json/request_fields.hpp"
#include "net/llama/llama_request.hpp"
#include "net/ollama/ollama_request.hpp"
#include "net/traces/otlp.hpp"
#include "net/traces/trace_context.hpp"

namespace {

using namespace orcd;

void check_execute(std::string_view body) {
  net::request_limits limits;
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

void check_prompts(const net::completion_request& request) {
  ORCD_ENSURE(request.prompts.size() * request.choices <= net::choices_max);
  for (const auto& prompt : request.prompts) {
    ORCD_ENSURE(!prompt.empty());
    for (const auto& part : prompt) {
      const auto* const ids = std::get_if<std::vector<engine::token_id>>(&part);
      if (ids == nullptr) continue;
      for (const auto id : *ids) ORCD_ENSURE(id >= 0 && id < 1'000);
    }
  }
}

template <class Parse>
void check_completion(net::completion_kind kind, const Parse& parse) {
  net::request_limits lengths;
  lengths.context_tokens = 4'096;
  lengths.prompt_chars_max = 100;
  engine::worker_identity served;
  served.model_name = "m";
  net::completion_limits limits{lengths, served};
  limits.vocab = 1'000;
  limits.infill = {990, 991, 992, 993, 994};
  const auto request = parse(limits);
  if (!request) {
    ORCD_ENSURE(!request.error().message.empty());
    return;
  }
  ORCD_ENSURE(request->choices >= 1);
  check_prompts(*request);
  // Any number is an upper bound, of what the context has room for.
  ORCD_ENSURE(request->max_tokens.value_or(1) <= std::numeric_limits<std::int32_t>::max());
  ORCD_ENSURE(request->top_logprobs <= engine::top_logprobs_max && !request->chat_template);
  ORCD_ENSURE(request->stop.size() <= net::stop_strings_max);
  ORCD_ENSURE(request->sampling.biases.size() <= engine::logit_biases_max);
  for (const auto& bias : request->sampling.biases) ORCD_ENSURE(bias.token >= 0 && bias.token < 1'000);
  ORCD_ENSURE(kind == net::completion_kind::text ? !request->prompts.empty() : !request->messages.empty());
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

/// What is taken from a caller's trace goes to a collector as it is.
void check_trace(std::string_view bytes) {
  const auto parent = net::parse_traceparent(bytes);
  if (parent) {
    constexpr std::string_view hex = "0123456789abcdef";
    ORCD_ENSURE(parent->trace_id.size() == 32 && parent->span_id.size() == 16);
    for (const auto& id : {parent->trace_id, parent->span_id}) {
      ORCD_ENSURE(id.find_first_not_of(hex) == std::string::npos);
      ORCD_ENSURE(id.find_first_not_of('0') != std::string::npos);
    }
    ORCD_ENSURE(
        bytes.starts_with(std::string(bytes.substr(0, 3)) + parent->trace_id + "-" + parent->span_id + "-"));
  }
  if (net::is_tracestate(bytes)) ORCD_ENSURE(bytes.size() <= net::tracestate_bytes_max);
  const auto resource = net::parse_resource_attributes(bytes);
  if (!resource) return;
  for (const auto& [key, value] : *resource) {
    ORCD_ENSURE(!key.empty() && net::is_trace_text(key) && net::is_trace_text(value));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check_execute(bytes);
  for (const auto kind : {net::completion_kind::chat, net::completion_kind::text}) {
    check_completion(kind, [&](const auto& limits) { return net::parse_completion(bytes, kind, limits); });
  }
  check_completion(net::completion_kind::text,
                   [&](const auto& limits) { return net::parse_llama_completion(bytes, limits); });
  check_completion(net::completion_kind::text,
                   [&](const auto& limits) { return net::parse_infill(bytes, limits); });
  check_completion(net::completion_kind::chat,
                   [&](const auto& limits) { return net::parse_ollama_chat(bytes, limits); });
  check_head(bytes.substr(0, 20'000));
  static_cast<void>(net::parse_cancel(bytes));
  static_cast<void>(net::parse_shutdown(bytes));
  static_cast<void>(net::parse_deadline(bytes));
  static_cast<void>(net::parse_http_url(bytes));
  check_trace(bytes);
  static_cast<void>(net::find_route("GET", bytes));
  return 0;
}
