// The ready callback: tells the pool manager that this worker listens. Source: WORK-3011, WORK-3014.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "engine/base/error.hpp"
#include "net/status/callback_retry.hpp"

namespace boost::asio {
class io_context;
}

namespace orcd::net {

struct ready_message {
  std::string worker_id;
  std::string model_ref;
  std::uint64_t vram_bytes = 0;
  std::string uri;  ///< where the worker can be reached
};

struct callback_config {
  std::string url;  ///< http:// or https://; the path /v2/internal/workers/ready is appended
  unsigned attempts = 5;
  callback_delays delays{};
  std::chrono::milliseconds attempt_timeout{5'000};
  /// Told before each wait for another attempt what the last one failed of.
  std::function<void(const std::string& failure, std::chrono::milliseconds wait)> on_wait{};
};

/// Checks the URL's form; no network.
[[nodiscard]] engine::result<void> validate_callback_url(const std::string& url);

/// Posts the message until one 2xx answer; `done` gets success or worker_start_failed with the URL
/// (never its user info), the attempts and the last failure. Of 4xx answers only 429 is tried again.
void post_ready(boost::asio::io_context& io, callback_config config, ready_message message,
                std::function<void(engine::result<void>)> done);

}  // namespace orcd::net
