#include "gpu/gpu_thread.hpp"

#include <pthread.h>
#include <sys/prctl.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <future>
#include <thread>
#include <utility>

namespace orcd::gpu {

namespace asio = boost::asio;
using engine::cancel_reason;

namespace {

std::int64_t now_ns() noexcept {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

// Makes /health truthful before a job or the owner is told.
engine::scheduler_config with_health(engine::scheduler_config config, engine::worker_state& state) {
  config.on_degraded = [&state, next = std::move(config.on_degraded)](const engine::error& why) {
    state.health = engine::health_status::degraded;
    if (next) next(why);
  };
  config.on_lost = [&state, next = std::move(config.on_lost)](const engine::error& why) {
    state.health = engine::health_status::unhealthy;
    state.set(engine::lifecycle::failed);
    if (next) next(why);
  };
  return config;
}

}  // namespace

struct gpu_thread::impl {
  impl(engine::accelerator& device, engine::scheduler_config config, engine::worker_state& s)
      : state(s),
        loop(device, with_use(with_health(std::move(config), s))),
        work(io.get_executor()),
        thread([this] { run(); }) {}

  engine::scheduler_config with_use(engine::scheduler_config config) {
    config.on_released = [this, next = std::move(config.on_released)] {
      publish_use();
      if (next) next();
    };
    return config;
  }

  void run() {
    pthread_setname_np(pthread_self(), "gpu");
    // Naps while a step runs are tens of microseconds; the default slack would make each 50 longer.
    prctl(PR_SET_TIMERSLACK, 1'000UL);
    io.run();
  }

  // At most one step handler is queued at any time; it posts itself again while there is work.
  void ensure_stepping() {
    if (stepping || stopped) return;
    stepping = true;
    asio::post(io, [this] { step(); });
  }

  void step() {
    stepping = false;
    if (stopping) return;
    state.last_step_ns = now_ns();
    state.step_active = true;
    const bool more = loop.run_step();
    state.step_active = false;
    state.last_step_ns = now_ns();
    state.steps = loop.steps();
    publish_use();
    if (more) ensure_stepping();
  }

  void publish_use() {
    state.running = loop.running();
    state.kv_positions = loop.kv_positions();
    const engine::kv_cache_counts counts = loop.cache_counts();
    state.cache.queries = counts.queries;
    state.cache.hits = counts.hits;
    state.cache.query_tokens = counts.query_tokens;
    state.cache.hit_tokens = counts.hit_tokens;
    state.cache.evictions = counts.evictions;
    state.cache.pages_cached = counts.pages_cached;
    state.cache.pages_used = counts.pages - counts.pages_free - counts.pages_cached;
    state.cache.sessions = counts.sessions;
  }

  void accept(engine::job_request request, std::shared_ptr<engine::event_sink> sink) {
    const std::string id = request.job_id;
    loop.submit(std::move(request), std::move(sink));
    if (stopped) {
      loop.cancel(id, cancel_reason::shutdown);
    } else if (!loop.idle()) {
      ensure_stepping();
    }
  }

  void cancel(const std::string& id, cancel_reason reason) {
    loop.cancel(id, reason);
    publish_use();
  }

  void end_all() {
    stopped = true;
    loop.cancel_all(cancel_reason::shutdown);
    publish_use();
  }

  engine::worker_state& state;
  engine::scheduler loop;
  bool stepping = false;  // GPU thread only
  bool stopped = false;   // GPU thread only: end_all has run
  std::atomic<bool> stopping{false};
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work;
  std::thread thread;  // last, so that everything it uses exists
};

gpu_thread::gpu_thread(engine::accelerator& device, engine::scheduler_config config,
                       engine::worker_state& state)
    : impl_(std::make_unique<impl>(device, std::move(config), state)) {}

gpu_thread::~gpu_thread() {
  stop();
  impl_->work.reset();
  impl_->thread.join();
}

void gpu_thread::submit(engine::job_request request, std::shared_ptr<engine::event_sink> sink) {
  asio::post(impl_->io, [self = impl_.get(), request = std::move(request), sink = std::move(sink)]() mutable {
    self->accept(std::move(request), std::move(sink));
  });
}

// Posted before the interrupt, so that a step that stops early finds the cancel next in the queue.
void gpu_thread::cancel(const std::string& job_id, cancel_reason reason) {
  asio::post(impl_->io, [self = impl_.get(), job_id, reason] { self->cancel(job_id, reason); });
  impl_->loop.interrupt_if_alone(job_id);
}

void gpu_thread::post(std::function<void()> task) {
  asio::post(impl_->io, std::move(task));
}

void gpu_thread::stop() noexcept {
  impl_->stopping = true;
  impl_->loop.interrupt();
  std::promise<void> ended;
  if (std::this_thread::get_id() == impl_->thread.get_id()) {
    asio::post(impl_->io, [self = impl_.get()] { self->end_all(); });
    return;
  }
  asio::post(impl_->io, [self = impl_.get(), &ended] {
    self->end_all();
    ended.set_value();
  });
  ended.get_future().wait();
}

}  // namespace orcd::gpu
