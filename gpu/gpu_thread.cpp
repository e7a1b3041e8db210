#include "gpu/gpu_thread.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>

namespace orcd::gpu {

namespace asio = boost::asio;
using engine::cancel_reason;

namespace {

std::int64_t now_ns() noexcept {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

/// The message is short enough to need no allocation.
engine::error out_of_memory() {
  return {engine::errc::internal, "out of memory"};
}

// /health is updated before a job or the owner is told.
engine::scheduler_config with_health(engine::scheduler_config config, engine::worker_state& state) {
  config.on_degraded = [&state, next = std::move(config.on_degraded)](const engine::error& why) {
    state.degrade();
    if (next) next(why);
  };
  config.on_recovered = [&state, next = std::move(config.on_recovered)] {
    state.recover();
    if (next) next();
  };
  config.on_lost = [&state, next = std::move(config.on_lost)](const engine::error& why) {
    state.fail(engine::health_cause::lost);
    state.set(engine::lifecycle::failed);
    if (next) next(why);
  };
  return config;
}

}  // namespace

struct gpu_thread::impl {
  struct adapter_put {
    std::uint32_t index = 0;
    std::shared_ptr<const engine::lora_adapter> adapter;
    std::function<void(engine::result<void>)> done;
  };

  impl(engine::accelerator& accelerator, engine::scheduler_config config, engine::worker_state& s)
      : state(s),
        loop(accelerator, with_use(with_health(std::move(config), s))),
        work(io.get_executor()),
        thread([this] { run(); }) {}

  engine::scheduler_config with_use(engine::scheduler_config config) {
    config.on_released = [this, next = std::move(config.on_released)] {
      publish_use();
      if (next) next();
    };
    config.on_failure = [this, next = std::move(config.on_failure)](const engine::error& why) {
      failed = true;
      if (next) next(why);
    };
    return config;
  }

  void run() {
    pthread_setname_np(pthread_self(), "gpu");
    // Naps while a step runs are tens of microseconds; the default timer slack would add up to 50 to each.
    prctl(PR_SET_TIMERSLACK, 1'000UL);
    while (run_until_stopped()) {
    }
  }

  // If a handler runs out of memory, the scheduler may be in no state to go on: all jobs get an error, and so
  // does the owner, which ends the process. Any other exception is a programming error.
  bool run_until_stopped() {
    bool goes_on = true;
    or_lose([&] {
      io.run();
      io.restart();
      goes_on = answer_stop() || !finishing || io.poll() > 0;
    });
    return goes_on;
  }

  template <class Part>
  void or_lose(Part&& part) {
    try {
      part();
    } catch (const std::bad_alloc&) {
      loop.lose(out_of_memory());
    }
  }

  /// Answers calls of stop(); false if there was none since the last time.
  bool answer_stop() {
    std::unique_lock lock(stop_mutex);
    if (stops_asked == stops_answered) return false;
    while (stops_asked != stops_answered) {
      const auto asked = stops_asked;
      lock.unlock();
      end_everything();
      lock.lock();
      // Another one may have kept the queue from being emptied.
      if (asked == stops_asked) stops_answered = asked;
    }
    stop_answered.notify_all();
    return true;
  }

  /// Allocates nothing, since a shortage may be the reason why the process ends. Returns the number of the
  /// request.
  std::uint64_t ask_to_stop() noexcept {
    stopping = true;
    loop.interrupt();
    const std::lock_guard lock(stop_mutex);
    io.stop();
    return ++stops_asked;
  }

  /// `wait`: for the answer, with the lock held; returns whether it came.
  template <class Wait>
  bool stop(const Wait& wait) noexcept {
    const auto number = ask_to_stop();
    if (std::this_thread::get_id() == thread.get_id()) return true;
    std::unique_lock lock(stop_mutex);
    return wait(lock, [&] { return stops_answered >= number; });
  }

  // At most one step handler is queued at a time; it posts itself again while there is work.
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
    if (!more) return;
    ensure_stepping();
    // If both threads share a processor, the io thread can deliver the token before the next step is
    // computed.
    ::sched_yield();
  }

  void publish_use() {
    const engine::scheduler_counts now = loop.counts();
    state.running = now.running;
    state.short_of_pages = now.short_of_pages;
    state.kv_positions = now.kv_positions;
    state.cache.queries = now.cache.queries;
    state.cache.hits = now.cache.hits;
    state.cache.query_tokens = now.cache.query_tokens;
    state.cache.hit_tokens = now.cache.hit_tokens;
    state.cache.evictions = now.cache.evictions;
    state.cache.preemptions = now.preemptions;
    state.cache.pages_cached = now.cache.pages_cached;
    state.cache.pages_used = now.cache.pages - now.cache.pages_free - now.cache.pages_cached;
    state.cache.sessions = now.cache.sessions;
    state.cache.window_pages = now.cache.windows.pages;
    state.cache.window_pages_used = now.cache.windows.pages_used;
    state.cache.boundaries = now.cache.windows.boundaries;
    state.cache.boundaries_given_up = now.cache.windows.boundaries_given_up;
    state.media.encoded = now.media.encoded;
    state.media.hits = now.media.hits;
    state.media.stored = now.media.stored;
    state.media.encode_seconds = now.media.encode_seconds;
    state.drafts.steps = now.drafts.steps;
    state.drafts.tokens = now.drafts.tokens;
    state.drafts.accepted = now.drafts.right;
    for (std::size_t i = 0; i < state.drafts.accepted_at.size(); ++i)
      state.drafts.accepted_at[i] = now.drafts.right_at.at(i);
  }

  void accept(engine::job_request request, const std::shared_ptr<engine::event_sink>& sink) {
    try {
      loop.submit(std::move(request), sink);
    } catch (const std::bad_alloc&) {
      return sink->offer(engine::error_event{out_of_memory(), {}});
    }
    if (stopped) {
      loop.cancel_all(cancel_reason::shutdown);
    } else if (!loop.idle()) {
      ensure_stepping();
    }
  }

  void cancel(const std::string& id, cancel_reason reason) {
    loop.cancel(id, reason);
    publish_use();
    if (!loop.idle()) ensure_stepping();  // one that waited for pages may have kept others waiting
  }

  /// One after the other, in the order in which they were asked for.
  void put_adapter(adapter_put put) {
    if (puts.size() >= engine::adapters_max) {
      return put.done(engine::error(engine::errc::not_ready, "too many LoRA adapters are on their way"));
    }
    puts.push_back(std::move(put));
    if (puts.size() == 1) begin_puts();
  }

  void begin_puts() {
    while (!puts.empty()) {
      const auto begun = guarded([&]() -> engine::result<void> {
        if (stopped) return engine::error(engine::errc::cancelled, "the worker ends");
        return loop.begin_adapter(puts.front().index, *puts.front().adapter);
      });
      if (begun) return asio::post(io, [this] { continue_put(); });
      end_put(begun);
    }
  }

  /// A part between two steps; without steps, some microseconds between two parts.
  void continue_put() {
    if (stopped) return begin_puts();  // which ends them all
    std::optional<engine::result<void>> done;
    const auto went = guarded([&] {
      done = loop.continue_adapter();
      return engine::result<void>();
    });
    if (went && !done) {
      if (!stepping) std::this_thread::sleep_for(std::chrono::microseconds(20));
      return asio::post(io, [this] { continue_put(); });
    }
    end_put(went ? *done : went);
    begin_puts();
  }

  void end_put(const engine::result<void>& how) {
    const adapter_put put = std::move(puts.front());
    puts.pop_front();
    put.done(how);
  }

  template <class Work>
  static engine::result<void> guarded(Work&& work) {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      return out_of_memory();
    }
  }

  void come_to_rest() {
    loop.cancel_all(cancel_reason::shutdown);
    while (!loop.idle()) loop.run_step();
    loop.leave_pages();
    publish_use();
  }

  void fail(const engine::error& why) {
    if (stopped || failed) return;
    loop.lose(why);
    publish_use();
  }

  void open_pages() {
    if (stopped) return;  // what the ledger is in may be gone
    loop.open_pages();
    publish_use();
    if (!loop.idle()) ensure_stepping();
  }

  void end_all() {
    stopped = true;
    loop.cancel_all(cancel_reason::shutdown);
    publish_use();
  }

  /// Of the jobs that were submitted before the stop some may still be in the queue; accept() ends them. A
  /// shortage of memory keeps no caller of stop() waiting.
  void end_everything() {
    or_lose([this] { end_all(); });
    std::size_t handled = 1;
    while (handled > 0) {
      io.restart();
      or_lose([&] { handled = io.poll(); });
    }
  }

  engine::worker_state& state;
  engine::scheduler loop;
  bool stepping = false;         // GPU thread only
  bool stopped = false;          // GPU thread only: end_all has run
  bool failed = false;           // GPU thread only: on_failure was called
  std::deque<adapter_put> puts;  // GPU thread only: the first is under way
  std::atomic<bool> stopping{false};
  std::atomic<bool> finishing{false};  // the object is being destroyed
  std::mutex stop_mutex;
  std::condition_variable stop_answered;
  std::uint64_t stops_asked = 0;
  std::uint64_t stops_answered = 0;
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work;
  std::thread thread;  // last, so that everything it uses exists
};

gpu_thread::gpu_thread(engine::accelerator& accelerator, engine::scheduler_config config,
                       engine::worker_state& state)
    : impl_(std::make_unique<impl>(accelerator, std::move(config), state)) {}

gpu_thread::~gpu_thread() {
  stop();
  impl_->finishing = true;
  impl_->work.reset();
  impl_->thread.join();
}

void gpu_thread::submit(engine::job_request request, std::shared_ptr<engine::event_sink> sink) {
  asio::post(impl_->io, [self = impl_.get(), request = std::move(request), sink = std::move(sink)]() mutable {
    self->accept(std::move(request), sink);
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

void gpu_thread::put_adapter(std::uint32_t index, std::shared_ptr<const engine::lora_adapter> adapter,
                             std::function<void(engine::result<void>)> done) {
  impl::adapter_put put{index, std::move(adapter), std::move(done)};
  asio::post(impl_->io,
             [self = impl_.get(), put = std::move(put)]() mutable { self->put_adapter(std::move(put)); });
}

void gpu_thread::drop_adapter(std::uint32_t index, std::function<void(bool)> done) {
  asio::post(impl_->io,
             [self = impl_.get(), index, done = std::move(done)] { done(self->loop.drop_adapter(index)); });
}

void gpu_thread::take_over_pages(engine::page_ledger ledger,
                                 std::function<void(std::uint32_t, std::uint32_t)> done) {
  asio::post(impl_->io, [self = impl_.get(), ledger, done = std::move(done)] {
    if (self->stopped) return;
    self->loop.take_over_pages(ledger);
    const auto counts = self->loop.counts().cache;
    done(counts.adopted, counts.pages_closed);
    self->publish_use();
  });
}

void gpu_thread::open_pages() {
  asio::post(impl_->io, [self = impl_.get()] { self->open_pages(); });
}

void gpu_thread::fail(engine::error why) {
  asio::post(impl_->io, [self = impl_.get(), why = std::move(why)] { self->fail(why); });
}

// As with cancel().
void gpu_thread::end_jobs(std::function<void()> done) {
  asio::post(impl_->io, [self = impl_.get(), done = std::move(done)] {
    self->come_to_rest();
    done();
  });
  impl_->loop.interrupt();
}

bool gpu_thread::stop(std::chrono::milliseconds at_most) noexcept {
  return impl_->stop([&](std::unique_lock<std::mutex>& lock, const auto& answered) {
    return impl_->stop_answered.wait_for(lock, at_most, answered);
  });
}

void gpu_thread::stop() noexcept {
  impl_->stop([&](std::unique_lock<std::mutex>& lock, const auto& answered) {
    impl_->stop_answered.wait(lock, answered);
    return true;
  });
}

}  // namespace orcd::gpu
