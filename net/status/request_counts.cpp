#include "net/status/request_counts.hpp"

#include <algorithm>

namespace orcd::net {

using engine::errc;

failure_cause cause_of(errc code) noexcept {
  switch (code) {
    case errc::invalid_request:
    case errc::unauthorized:
    case errc::forbidden:
    case errc::context_length_exceeded:
    case errc::payload_too_large:
    case errc::duplicate_job:
    case errc::conflict:
    case errc::not_found:
    case errc::method_not_allowed:
    case errc::cancelled: return failure_cause::client;
    case errc::inference_timeout: return failure_cause::deadline;
    case errc::queue_full: return failure_cause::overload;
    case errc::draining:
    case errc::not_ready: return failure_cause::unavailable;
    case errc::model_load_failed:
    case errc::insufficient_vram:
    case errc::vram_oom:
    case errc::cuda_error:
    case errc::worker_start_failed:
    case errc::engine_lost:
    case errc::engine_changed:
    case errc::stale_weights:
    case errc::weights_lost:
    case errc::internal: break;
  }
  return failure_cause::fault;
}

std::string_view to_string(failure_cause cause) noexcept {
  constexpr std::array<std::string_view, static_cast<std::size_t>(failure_cause::count)> names{
      "client", "deadline", "overload", "unavailable", "fault"};
  return names[static_cast<std::size_t>(cause)];
}

void request_counts::count(std::string_view route, unsigned status) {
  const std::size_t which = std::clamp<std::size_t>(status / 100, 1, classes) - 1;
  ++routes_[route.empty() ? std::string_view("(none)") : route][which];
}

void request_counts::add(const std::string& key_name, const usage& used) {
  const bool fits = keys_.size() < keys_max || keys_.contains(key_name);
  usage& to = keys_[fits ? key_name : "(others)"];
  to.requests += used.requests;
  to.tokens_in += used.tokens_in;
  to.tokens_out += used.tokens_out;
}

void request_counts::render(metrics_text& out) const {
  constexpr std::array<std::string_view, classes> names{"1xx", "2xx", "3xx", "4xx", "5xx"};
  out.family("worker_http_requests_total", "counter",
             "Requests by the path they asked for and their answer.");
  for (const auto& [route, counts] : routes_) {
    for (std::size_t i = 0; i < classes; ++i) {
      if (counts[i] > 0) out.sample(static_cast<double>(counts[i]), {{"route", route}, {"status", names[i]}});
    }
  }
  out.family("worker_request_failures_total", "counter", "Requests that failed, by whose fault it was.");
  for (std::size_t i = 0; i < failures_.size(); ++i) {
    out.sample(static_cast<double>(failures_[i]), {{"cause", to_string(static_cast<failure_cause>(i))}});
  }
  if (keys_.empty()) return;
  const auto family = [&](std::string_view name, std::string_view help, std::uint64_t usage::*what) {
    out.family(name, "counter", help);
    for (const auto& [key, used] : keys_) out.sample(static_cast<double>(used.*what), {{"key_name", key}});
  };
  family("worker_key_requests_total", "Requests by the name of their API key.", &usage::requests);
  family("worker_key_tokens_in_total", "Prompt tokens by the name of the API key.", &usage::tokens_in);
  family("worker_key_tokens_generated_total", "Output tokens by the name of the API key.",
         &usage::tokens_out);
}

}  // namespace orcd::net
