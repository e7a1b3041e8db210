#include "net/server/traced_request.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>
#include <variant>

#include "net/http/routes.hpp"
#include "net/json/request_fields.hpp"
#include "net/traces/trace_exporter.hpp"

namespace orcd::net {
namespace {

namespace http = boost::beast::http;

/// The method, if HTTP has it: a client's own word is no span's name.
std::string_view known_method(std::string_view method) {
  constexpr std::array<std::string_view, 9> known = {"GET",     "POST",  "HEAD", "DELETE", "OPTIONS",
                                                     "CONNECT", "PATCH", "PUT",  "TRACE"};
  const auto* const found = std::find(known.begin(), known.end(), method);
  return found == known.end() ? std::string_view() : *found;
}

/// What the GenAI conventions call the use of the model.
std::string_view operation_of(endpoint target) {
  switch (target) {
    case endpoint::chat_completions:
    case endpoint::responses:
    case endpoint::messages:
    case endpoint::ollama_chat: return "chat";
    case endpoint::execute:
    case endpoint::completions:
    case endpoint::llama_completion:
    case endpoint::infill:
    case endpoint::ollama_generate: return "text_completion";
    case endpoint::embeddings:
    case endpoint::llama_embedding:
    case endpoint::tei_embed:
    case endpoint::pooling:
    case endpoint::ollama_embed:
    case endpoint::ollama_embeddings: return "embeddings";
    case endpoint::score:
    case endpoint::rerank: return "rerank";  // no word of theirs
    default: return {};
  }
}

/// The caller's span; nobody's where there are two headers, which nothing says how to choose between.
std::optional<trace_parent> parent_in(const http::fields& head) {
  const auto [begin, end] = head.equal_range("traceparent");
  if (std::distance(begin, end) != 1) return std::nullopt;
  return parse_traceparent(begin->value());
}

/// The header tracestate, which may come in parts.
std::string state_in(const http::fields& head) {
  std::string out;
  const auto [begin, end] = head.equal_range("tracestate");
  for (auto part = begin; part != end; ++part) {
    if (out.size() > tracestate_bytes_max) return {};
    out += (out.empty() ? "" : ",") + std::string(part->value());
  }
  return is_tracestate(out) ? out : std::string();
}

std::optional<request_trace> begin_trace(const service& s, const http_request& request,
                                         const http::fields& head) {
  if (s.context.traces == nullptr) return std::nullopt;
  const auto route = find_route(request.method, request.target, {s.config.page, s.config.ollama});
  const auto* const target = std::get_if<endpoint>(&route);
  if (target != nullptr && is_probe(*target)) return std::nullopt;
  const auto parent = parent_in(head);
  request_trace out;
  out.trace_id = parent ? parent->trace_id : id_series(request.nonce + "-trace").next();
  if (!is_sampled(s.context.traces->sampler(), out.trace_id, parent)) return std::nullopt;
  if (parent) out.parent_id = parent->span_id;
  if (parent) out.tracestate = state_in(head);
  out.nonce = request.nonce;
  out.request_id = request.request_id;
  out.method = known_method(request.method);
  if (target != nullptr) out.route = pattern_of(*target);
  if (target != nullptr) out.operation = operation_of(*target);
  out.http_1_0 = request.http_1_0;
  out.received_wall = request.received_wall;
  out.received_at = request.received_at;
  return out;
}

}  // namespace

traced_request::traced_request(service& s, connection& c, const http_request& request,
                               const http::fields& head)
    : service_(s), connection_(c), trace_(begin_trace(s, request, head)) {
  if (trace_) connection_.trace = &*trace_;
}

traced_request::~traced_request() {
  connection_.trace = nullptr;
  // Of a request that another engine goes on with, that one tells: the span's id is the same.
  const bool is_left = connection_.record && connection_.record->is_left();
  if (!trace_ || is_left) return;
  trace_->ended_at = std::chrono::steady_clock::now();
  service_.context.traces->offer(std::move(*trace_));
}

}  // namespace orcd::net
