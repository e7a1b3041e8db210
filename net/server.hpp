// The HTTP server: accepts, routes and answers; knows jobs only through engine/ interfaces.
// Everything runs on the thread of the io_context given. Source: M0-W-1300..1350, WORK-3040..3053.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "net/api_keys.hpp"

namespace boost::asio {
class io_context;
}

namespace orcd::engine {
class admission;
class chat_format;
class job_service;
class pair_format;
class narrator;
class tokenizer;
class worker_state;
struct memory_counts;
struct worker_identity;
namespace grammar {
class token_table;
}
}  // namespace orcd::engine

namespace orcd::net {

enum class deadline_mode { enforce, log };

/// Whose names /metrics carries beside our own: none, or those that vLLM's scrapers read (features.md d).
enum class metrics_compat { none, vllm };

/// What a request may ask for; the limits that app/ reads from its options.
struct execute_limits {
  std::uint32_t prompt_chars_max = 32'768;  ///< Unicode code points, M0-W-1300
  std::uint32_t tokens_in_max = 0;          ///< prompt tokens; 0 = the context
  std::uint32_t tokens_out_max = 2'048;
  std::uint32_t context_tokens = 0;  ///< positions per slot
  std::chrono::milliseconds inference_timeout{300'000};
  deadline_mode deadlines = deadline_mode::enforce;
};

/// Bounds on connections and bytes; every wait of a session ends by one of these.
struct connection_limits {
  std::size_t connections_max = 1'024;
  std::size_t header_bytes_max = 16 * 1024;
  std::size_t body_bytes_max = 1024 * 1024;
  std::chrono::seconds header_timeout{10};
  std::chrono::seconds body_timeout{30};
  std::chrono::seconds idle_timeout{75};
  std::chrono::seconds write_timeout{15};
  std::chrono::milliseconds keep_alive_interval{15'000};  ///< SSE comment after this much silence
};

struct server_config {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  ///< 0 = any free port
  execute_limits execute;
  connection_limits connections;
  /// /health and /live say so when a job runs and no step has ended for this long.
  std::chrono::seconds stall_threshold{30};
  metrics_compat compat = metrics_compat::none;
  api_keys keys;                          ///< none: every request is served
  std::vector<std::string> cors_origins;  ///< see cors.hpp; empty: no page of another origin
  bool page = true;                       ///< GET / answers with a page
  bool request_template = false;          ///< a request may bring its own chat template
  std::uint32_t system_tokens_min = 1;    ///< the prefix cache keeps no shorter system prompts
  bool matryoshka = false;                ///< an embedding's first numbers are an embedding too
};

/// What the server serves from; all outlive it.
struct server_context {
  engine::job_service& jobs;
  engine::admission& admission;
  engine::worker_state& state;
  const engine::worker_identity& identity;
  const engine::tokenizer& tokenizer;
  engine::narrator& narrator;
  std::function<void()> request_shutdown;           ///< POST /shutdown
  std::function<engine::memory_counts()> memory{};  ///< unset: all 0. Must not wait.
  const engine::chat_format* chat = nullptr;        ///< null: no chat completions
  /// The vocabulary prepared for constrained outputs; null: response_format and forced calls are refused.
  std::shared_ptr<const engine::grammar::token_table> tokens{};
  /// Runs something that may take a second on another thread; it posts its result to the io thread, so that
  /// thread must end before the io_context does. Unset: it runs where it stands.
  std::function<void(std::function<void()>)> run_aside{};
  const engine::pair_format* pairs = nullptr;  ///< of a model that ranks
};

class server {
 public:
  server(boost::asio::io_context& io, server_config config, server_context context);
  ~server();
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  /// Reserves the address; fails with worker_start_failed naming address, port and reason.
  /// Returns the port. Nothing is accepted before listen().
  [[nodiscard]] engine::result<std::uint16_t> bind();
  [[nodiscard]] engine::result<void> listen();

  /// Refuses new jobs (503 DRAINING); open streams go on. Idle connections are closed.
  void begin_drain();
  /// Ends every stream that is still open with an `error` event and closes all connections;
  /// `done` is called when the last session is gone, at the latest after `grace`.
  void stop(std::chrono::milliseconds grace, std::function<void()> done);

 private:
  struct impl;
  std::shared_ptr<impl> impl_;
};

}  // namespace orcd::net
