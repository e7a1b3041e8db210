// What all sessions of one server share. io thread only. Private to net/.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "engine/schedule/admission.hpp"
#include "engine/schedule/job.hpp"
#include "engine/worker_state.hpp"
#include "net/http/connection.hpp"
#include "net/http/round_limiter.hpp"
#include "net/jobs/grammar_cache.hpp"
#include "net/jobs/server_config.hpp"
#include "net/models/adapter_registry.hpp"
#include "net/status/health.hpp"
#include "net/status/log_limiter.hpp"
#include "net/status/metrics.hpp"
#include "net/store/response_store.hpp"

namespace orcd::net {

/// A request whose jobs run, for those who may end them: /cancel and the end of the server.
class open_stream {
 public:
  /// Ends the jobs for this reason at once, without waiting for a write in progress.
  virtual void cancel(engine::cancel_reason reason) = 0;

 protected:
  ~open_stream() = default;
};

class service {
 public:
  service(server_config c, server_context ctx);

  server_config config;
  server_context context;
  server_metrics metrics;
  log_limiter refusals_told{20};  ///< a second
  connection_set connections{config.connections};
  /// Parts of bodies that are read in one round of the io thread: this many take a millisecond at most.
  std::shared_ptr<round_limiter> body_limiter = std::make_shared<round_limiter>(8);
  grammar_cache grammars;
  std::shared_ptr<response_store> responses;     ///< null: none are kept
  std::function<std::string()> more_families{};  ///< of /metrics, where connections come from a holder
  std::function<bool()> keeps_ends{};            ///< see held_config
  bool stopping = false;                         ///< the server is being stopped: no keep-alive, no new jobs

  /// Open streams by job id, so that a cancel or the end of the server reaches them.
  std::unordered_map<std::string, open_stream*> streams;
  /// When the number of jobs last rose from 0: before that, an old step time means idle, not stalled.
  engine::steady_time busy_since{};

  [[nodiscard]] bool draining() const noexcept;
  [[nodiscard]] health_facts facts() const;
  /// Null: there are none.
  [[nodiscard]] shared_adapters adapters() const;
  [[nodiscard]] metrics_snapshot snapshot() const;
  /// The server's own families of /metrics, with durations in milliseconds as well where these are asked for.
  [[nodiscard]] std::string scrape(bool milliseconds) const;
  /// When the server was created, in seconds since 1970.
  [[nodiscard]] std::int64_t created() const noexcept { return created_; }
  void count_response(unsigned status) { ++metrics.responses[status]; }
  /// Asks one job, or all of them, to end. Unknown ids are ignored.
  void cancel(const std::string& job_id, engine::cancel_reason reason);
  void cancel_all(engine::cancel_reason reason);

 private:
  const engine::steady_time created_at_;
  const std::int64_t created_;
};

}  // namespace orcd::net
