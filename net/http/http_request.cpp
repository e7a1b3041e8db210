#include "net/http/http_request.hpp"

#include <array>
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/write.hpp>
#include <charconv>
#include <chrono>
#include <ctime>
#include <sstream>

namespace orcd::net {
namespace {

namespace http = boost::beast::http;

/// "Sun, 06 Nov 1994 08:49:37 GMT", whatever the locale.
std::string http_date() {
  constexpr std::array<const char*, 7> days = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> months = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), "%s, %02d %s %04d %02d:%02d:%02d GMT",
                days[static_cast<std::size_t>(utc.tm_wday)], utc.tm_mday,
                months[static_cast<std::size_t>(utc.tm_mon)], utc.tm_year + 1900, utc.tm_hour, utc.tm_min,
                utc.tm_sec);
  return text.data();
}

/// The fields every response has.
http::response_header<> common_head(unsigned status, const http_request& request, bool keep_alive) {
  http::response_header<> head;
  head.version(11);
  head.result(status);
  if (status == 499) head.reason("Client Closed Request");
  head.set(http::field::server, "worker-orcd");
  head.set(http::field::date, http_date());
  head.set("X-Request-Id", request.request_id);
  if (request.words == api_words::anthropic) head.set("Request-Id", request.request_id);
  if (!request.allowed_origin.empty()) {
    head.set(http::field::access_control_allow_origin, request.allowed_origin);
    head.set(http::field::access_control_expose_headers,
             "X-Request-Id, Retry-After, X-Schema-Ignored, X-Tool-Format");
    head.set(http::field::vary, "Origin");
  }
  if (!request.schema_ignored.empty()) head.set("X-Schema-Ignored", request.schema_ignored);
  if (request.generic_tools) head.set("X-Tool-Format", "generic");
  if (!keep_alive) {
    head.set(http::field::connection, "close");
  } else if (request.http_1_0) {
    head.set(http::field::connection, "keep-alive");
  }
  return head;
}

std::string to_text(const http::response_header<>& head) {
  std::ostringstream out;
  out << head;
  return std::move(out).str();
}

/// What a refusal tells, in the words of the request's API.
std::string refusal_body(const reply& refusal, const http_request& request) {
  switch (request.words) {
    case api_words::anthropic:
      return anthropic_error_body(*refusal.failure, refusal.status, request.request_id);
    case api_words::ollama: return ollama_error_body(*refusal.failure);
    case api_words::worker:
    case api_words::openai: break;
  }
  return error_body(*refusal.failure, refusal.status, request.words);
}

}  // namespace

std::string render_reply(const reply& response, const http_request& request, bool keep_alive) {
  const std::string told = response.failure ? refusal_body(response, request) : std::string();
  const std::string_view body = response.failure ? told : response.body;
  auto head = common_head(response.status, request, keep_alive);
  if (response.status != 204 && response.status != 304) {
    head.set(http::field::content_type, response.content_type);
    head.set(http::field::content_length, std::to_string(body.size()));
  }
  if (response.status != 204) head.set(http::field::cache_control, response.cache_control);
  for (const auto& [name, value] : response.headers) head.set(name, value);
  if (!response.allow.empty()) head.set(http::field::allow, response.allow);
  if (response.status == 401) head.set(http::field::www_authenticate, "Bearer");
  if (request.method == "OPTIONS" && !request.allowed_origin.empty()) {
    head.set(http::field::access_control_allow_methods, response.allow);
    // The wildcard does not cover Authorization (Fetch standard).
    head.set(http::field::access_control_allow_headers, "Authorization, *");
    head.set(http::field::access_control_max_age, "600");
  }
  if (response.retry_after_s > 0) head.set(http::field::retry_after, std::to_string(response.retry_after_s));
  std::string text = to_text(head);
  if (request.method != "HEAD") text += body;
  return text;
}

std::string render_stream_head(const http_request& request, bool keep_alive) {
  auto head = common_head(200, request, keep_alive);
  const bool lines = request.words == api_words::ollama;
  head.set(http::field::content_type, lines ? "application/x-ndjson" : "text/event-stream");
  head.set(http::field::cache_control, "no-cache");
  head.set("X-Accel-Buffering", "no");
  if (!request.http_1_0) head.set(http::field::transfer_encoding, "chunked");
  return to_text(head);
}

std::string chunk_of(std::string_view frames, bool last) {
  std::string out;
  out.reserve(frames.size() + 32);
  if (!frames.empty()) {
    std::array<char, 20> size;
    const auto done = std::to_chars(size.data(), size.data() + size.size(), frames.size(), 16);
    out.append(size.data(), done.ptr).append("\r\n").append(frames).append("\r\n");
  }
  if (last) out += "0\r\n\r\n";
  return out;
}

}  // namespace orcd::net
