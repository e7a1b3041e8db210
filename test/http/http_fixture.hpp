// The real server, admission and GPU thread over a fake accelerator, on a free port of the loopback.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/narration.hpp"
#include "engine/schedule/admission.hpp"
#include "engine/worker_state.hpp"
#include "gpu/gpu_thread.hpp"
#include "net/jobs/background_threads.hpp"
#include "net/server/server.hpp"
#include "test/http/http_client.hpp"
#include "test/support/fake_accelerator.hpp"
#include "test/unit/net/completion/letter_tokenizer.hpp"

namespace orcd::test {

class silent_narrator final : public engine::narrator {
 public:
  void narrate(engine::severity, std::string_view, std::string_view,
               std::initializer_list<engine::narration_field>) noexcept override {}
};

struct http_options {
  std::uint32_t slots = 2;
  std::uint32_t max_queue = 8;
  std::uint32_t context_tokens = 4'096;
  std::chrono::microseconds step_delay{100};
  bool listens = true;        ///< false: it gets its connections by server().adopt()
  bool cheap_tokens = false;  ///< the next token depends on the length alone: for very long outputs
  std::vector<fake_fault> faults{};
  std::uint32_t submit_without_memory = 0;  ///< the n-th job finds no memory to be handed over; 1-based
  net::connection_limits connections;
  net::request_limits execute;
  std::string keys{};  ///< a key file's text; empty: none are asked for
};

/// Hands on what it is told, but throws bad_alloc in place of the n-th submit.
class failing_jobs final : public engine::job_service {
 public:
  failing_jobs(engine::job_service& jobs, std::uint32_t fails_at) : jobs_(jobs), fails_at_(fails_at) {}
  void submit(engine::job_request request, std::shared_ptr<engine::event_sink> sink) override {
    if (++submitted_ == fails_at_) throw std::bad_alloc();
    jobs_.submit(std::move(request), std::move(sink));
  }
  void cancel(const std::string& job_id, engine::cancel_reason reason) override {
    jobs_.cancel(job_id, reason);
  }

 private:
  engine::job_service& jobs_;
  std::uint32_t fails_at_;
  std::uint32_t submitted_ = 0;
};

class http_fixture {
 public:
  explicit http_fixture(http_options options = {});
  /// Stops the server and checks that nothing is left: no session, no job, no slot.
  ~http_fixture();
  http_fixture(const http_fixture&) = delete;
  http_fixture& operator=(const http_fixture&) = delete;

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  /// The answer to one request on a connection of its own.
  [[nodiscard]] std::string ask(const std::string& request, int ms = patience_ms) const;
  /// The value of one sample of /metrics, by its name and labels as they are written; -1 when absent.
  [[nodiscard]] double metric(const std::string& sample) const;
  /// Waits until no job is accepted and no slot is held.
  void wait_idle() const;
  /// What a second server on the same port is told.
  [[nodiscard]] engine::result<std::uint16_t> bind_again();
  /// Runs a task on the io thread and waits for it.
  void on_io(const std::function<void()>& task);
  [[nodiscard]] net::server& server() noexcept { return server_; }
  [[nodiscard]] boost::asio::io_context& io() noexcept { return io_; }
  [[nodiscard]] fake_accelerator& device() noexcept { return device_; }
  [[nodiscard]] engine::worker_state& state() noexcept { return state_; }
  /// Stops with this grace and waits; the destructor does nothing more then.
  bool stop(std::chrono::milliseconds grace);

 private:
  net::test::letter_tokenizer tokenizer_;
  silent_narrator narrator_;
  engine::worker_identity identity_;
  engine::worker_state state_;
  engine::admission admission_;
  fake_accelerator device_;
  boost::asio::io_context io_{1};
  net::background_threads background_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  gpu::gpu_thread gpu_;
  failing_jobs jobs_;
  net::server_context context_;
  net::server server_;
  std::uint16_t port_ = 0;
  std::thread thread_;
  bool stopped_ = false;
};

}  // namespace orcd::test
