// A whole request, independent of the library that parsed it, and the head of a response as bytes. Private to
// net/.
#pragma once

#include <chrono>
#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/schedule/job.hpp"
#include "net/http/api_keys.hpp"
#include "net/http/respond.hpp"

namespace orcd::net {

/// The bytes of a body. Copies share them, so that copying a request for another thread does not copy its
/// body. Any thread.
class request_body {
 public:
  request_body() = default;
  template <std::convertible_to<std::string> Text>
  request_body(Text&& text) : bytes_(std::make_shared<const std::string>(std::forward<Text>(text))) {}

  [[nodiscard]] std::size_t size() const noexcept { return bytes_ == nullptr ? 0 : bytes_->size(); }
  operator std::string_view() const noexcept {
    return bytes_ == nullptr ? std::string_view() : std::string_view(*bytes_);
  }

 private:
  std::shared_ptr<const std::string> bytes_;
};

struct http_request {
  std::string method;
  std::string target;
  request_body body;
  std::string request_id;                    ///< the client's, when usable, or ours
  std::optional<std::string> deadline;       ///< X-Deadline as received
  std::optional<std::string> imc_id;         ///< KRONK_IMC_ID as received
  std::optional<std::string> last_event_id;  ///< Last-Event-ID as received
  /// 32 random digits, from which the ids of the answer follow, and a seed that the request does not name.
  std::string nonce;
  key_owner owner;             ///< whose API key was shown
  std::string if_none_match;   ///< as received
  std::string allowed_origin;  ///< Access-Control-Allow-Origin of the answer; empty: none
  std::string schema_ignored;  ///< X-Schema-Ignored of the answer; empty: none
  bool generic_tools = false;  ///< the answer is in the generic form of tool calls: X-Tool-Format says so
  /// The system_fingerprint that the answer has, where another engine began with it; empty: this worker's.
  std::string fingerprint;
  api_words words = api_words::worker;  ///< in which a refusal is told
  bool http_1_0 = false;
  bool keep_alive = true;
  engine::steady_time
      received_at{};  ///< when its head was whole; the same for an engine that goes on with it
  std::chrono::system_clock::time_point received_wall{};
};

/// The head and body of a response; HEAD gets the head alone.
[[nodiscard]] std::string render_reply(const reply& response, const http_request& request, bool keep_alive);
/// The head of an event stream, or of ollama's lines of JSON; its body is chunked except in HTTP/1.0.
[[nodiscard]] std::string render_stream_head(const http_request& request, bool keep_alive);
/// `frames` as one chunk, and the end of the body when `last`.
[[nodiscard]] std::string chunk_of(std::string_view frames, bool last);

}  // namespace orcd::net
