#include "net/http/respond.hpp"

#include <utility>

#include "net/json/json_text.hpp"

namespace orcd::net {
namespace {

using engine::errc;

std::string_view type_of(unsigned status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 429: return "rate_limit_error";
    case 499: return "cancelled_error";
    case 500: return "server_error";
    case 503: return "unavailable_error";
    case 408:
    case 504: return "timeout_error";
    default: return "invalid_request_error";
  }
}

std::string_view anthropic_type_of(unsigned status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 499:
    case 500: return "api_error";
    case 503: return "overloaded_error";
    case 504: return "timeout_error";
    default: return "invalid_request_error";
  }
}

/// A request goes on from a response that is not there: a fault of the request, not of its path.
bool is_lost_response(const engine::error& failure) {
  return failure.code == errc::not_found && failure.param == "previous_response_id";
}

/// Seconds after which the same request may succeed here; 0 = never or unknown.
unsigned retry_after(errc code) {
  switch (code) {
    case errc::queue_full: return 1;
    case errc::draining:
    case errc::not_ready: return 5;
    default: return 0;
  }
}

std::string_view code_in(api_words words, const engine::error& failure) {
  if (words == api_words::openai) {
    if (failure.code == errc::context_length_exceeded) return "context_length_exceeded";
    if (failure.code == errc::not_found && failure.param == "model") return "model_not_found";
    if (is_lost_response(failure)) return "previous_response_not_found";
  }
  return engine::code_name(failure.code);
}

}  // namespace

std::string error_body(const engine::error& failure, unsigned status, api_words words) {
  std::string body;
  json_object outer(body);
  json_object inner = outer.object("error");
  inner.text("code", code_in(words, failure)).text("message", failure.message).text("type", type_of(status));
  if (failure.param.empty()) {
    inner.null("param");
  } else {
    inner.text("param", failure.param);
  }
  inner.boolean("retriable", engine::is_retriable(failure));
  inner.close();
  outer.close();
  return body;
}

std::string anthropic_error_body(const engine::error& failure, unsigned status, std::string_view request_id) {
  std::string body;
  json_object outer(body);
  outer.text("type", "error");
  json_object inner = outer.object("error");
  inner.text("type", anthropic_type_of(status)).text("message", failure.message);
  inner.close();
  if (!request_id.empty()) outer.text("request_id", request_id);
  outer.close();
  return body;
}

std::string ollama_error_body(const engine::error& failure) {
  const bool no_model = failure.code == errc::not_found && failure.param == "model";
  const bool unnamed =
      failure.code == errc::invalid_request && failure.message.find(failure.param) == std::string::npos;
  const std::string about = no_model ? "model not found: " : unnamed ? failure.param + ": " : "";
  std::string body;
  json_object json(body);
  json.text("error", about + failure.message);
  json.close();
  return body;
}

unsigned http_status(errc code) noexcept {
  switch (code) {
    case errc::invalid_request:
    case errc::context_length_exceeded: return 400;
    case errc::unauthorized: return 401;
    case errc::forbidden: return 403;
    case errc::not_found: return 404;
    case errc::method_not_allowed: return 405;
    case errc::duplicate_job:
    case errc::conflict: return 409;
    case errc::payload_too_large: return 413;
    case errc::queue_full: return 429;
    case errc::cancelled: return 499;
    case errc::draining:
    case errc::not_ready:
    case errc::insufficient_vram:
    case errc::worker_start_failed: return 503;
    case errc::inference_timeout: return 504;
    case errc::model_load_failed:
    case errc::vram_oom:
    case errc::cuda_error:
    case errc::engine_lost:
    case errc::engine_changed:
    case errc::stale_weights:
    case errc::weights_lost:
    case errc::internal: return 500;
  }
  return 500;
}

reply make_error_reply(const engine::error& failure) {
  reply r;
  r.status = is_lost_response(failure) ? 400 : http_status(failure.code);
  r.body = error_body(failure, r.status);
  r.retry_after_s = retry_after(failure.code);
  r.close = r.status == 503;
  r.code = engine::code_name(failure.code);
  r.failure = failure;
  return r;
}

reply make_protocol_reply(unsigned status, std::string_view message) {
  const errc code = status == 413 ? errc::payload_too_large : errc::invalid_request;
  reply r;
  r.status = status;
  r.failure = engine::error(code, std::string(message));
  r.body = error_body(*r.failure, status);
  r.close = true;
  r.code = engine::code_name(code);
  return r;
}

reply make_json_reply(unsigned status, std::string body) {
  reply r;
  r.status = status;
  r.body = std::move(body);
  return r;
}

}  // namespace orcd::net
