#include "net/traces/trace_exporter.hpp"

#include <atomic>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <deque>
#include <mutex>
#include <random>
#include <utility>

#include "net/http/asio.hpp"
#include "net/http/reporter.hpp"
#include "net/json/request_fields.hpp"
#include "net/status/metrics_text.hpp"

namespace orcd::net {
namespace {

using namespace asio::experimental::awaitable_operators;
using clock = std::chrono::steady_clock;

/// Longest answer that is read.
constexpr std::size_t answer_bytes_max = 64U * 1024U;

/// Requests whose spans have not been sent, up to a number of spans. Any thread.
class trace_queue {
 public:
  explicit trace_queue(std::size_t spans_max) : spans_max_(spans_max) {}

  /// How many spans there are with these; nullopt: there is no room for them.
  std::optional<std::size_t> push(request_trace&& request) {
    const std::size_t more = request.spans();
    const std::lock_guard lock(mutex_);
    if (spans_ + more > spans_max_) return std::nullopt;
    requests_.push_back(std::move(request));
    return spans_ += more;
  }
  /// The oldest requests, with so many spans at most, or one request.
  std::vector<request_trace> take(std::size_t spans) {
    const std::lock_guard lock(mutex_);
    std::vector<request_trace> out;
    std::size_t taken = 0;
    while (!requests_.empty()) {
      const std::size_t more = requests_.front().spans();
      if (taken > 0 && taken + more > spans) break;
      out.push_back(std::move(requests_.front()));
      requests_.pop_front();
      taken += more;
    }
    spans_ -= taken;
    return out;
  }
  [[nodiscard]] std::size_t spans() const {
    const std::lock_guard lock(mutex_);
    return spans_;
  }

 private:
  const std::size_t spans_max_;
  mutable std::mutex mutex_;
  std::deque<request_trace> requests_;
  std::size_t spans_ = 0;
};

}  // namespace

struct trace_exporter::impl {
  impl(exporter_config with, listener told)
      : config(std::move(with)),
        tell(std::move(told)),
        queue(config.queue_spans_max),
        backoff(config.backoff),
        random(random_bits()) {}

  ~impl() { thread.end(); }
  impl(const impl&) = delete;
  impl& operator=(const impl&) = delete;

  void start();
  asio::awaitable<void> work();
  asio::awaitable<void> collect();
  asio::awaitable<void> send();
  asio::awaitable<void> until_queued(std::size_t spans);
  asio::awaitable<void> until_farewell();
  void take_batch();
  void take(const http_answer& answer);
  void drop_batch();
  [[nodiscard]] bool is_over() const;

  const exporter_config config;
  const listener tell;
  trace_queue queue;
  std::atomic<std::uint64_t> exported{0};
  std::atomic<std::uint64_t> dropped{0};
  std::atomic<std::uint64_t> failures{0};

  reporter thread;
  // That thread's only.
  asio::steady_timer news{thread.io(), clock::time_point::max()};
  export_backoff backoff;
  std::mt19937_64 random;
  std::string batch;  ///< the request that is to be sent; empty: none
  std::size_t batch_spans = 0;
  clock::time_point next_at{};  ///< no request is sent before
  clock::time_point over_at = clock::time_point::max();
  bool failing = false;
  bool gave_up = false;  ///< when leaving: a request has failed
};

void trace_exporter::impl::start() {
  reporter_duties duties;
  duties.work = [this] { return work(); };
  duties.over = [this] { return is_over(); };
  duties.failed = [this] {
    failures.fetch_add(1);
    drop_batch();
    gave_up = gave_up || thread.leaving();
  };
  duties.last = [this] {
    drop_batch();
    dropped.fetch_add(queue.spans());
  };
  duties.pause = config.backoff.first;
  thread.start(std::move(duties));
}

bool trace_exporter::impl::is_over() const {
  if (thread.stopped_short()) return true;
  if (!thread.leaving()) return false;
  return gave_up || clock::now() >= over_at || (batch.empty() && queue.spans() == 0);
}

asio::awaitable<void> trace_exporter::impl::work() {
  while (!is_over()) {
    if (clock::now() < next_at) co_await (wait_until(next_at) || thread.until_left());
    if (batch.empty()) co_await collect();
    if (!batch.empty()) co_await send();
  }
}

/// Waits for spans, then for more of them.
asio::awaitable<void> trace_exporter::impl::collect() {
  co_await (until_queued(1) || thread.until_left());
  const auto end = clock::now() + config.linger;
  co_await (until_queued(config.batch_spans_max) || wait_until(end) || thread.until_left());
  take_batch();
}

asio::awaitable<void> trace_exporter::impl::until_queued(std::size_t spans) {
  while (queue.spans() < spans) {
    const auto [ec] = co_await news.async_wait(as_tuple_token);
    static_cast<void>(ec);
    const auto cancelled = co_await asio::this_coro::cancellation_state;
    if (cancelled.cancelled() != asio::cancellation_type::none) co_return;
  }
}

/// Until the time for the farewell is over.
asio::awaitable<void> trace_exporter::impl::until_farewell() {
  co_await thread.until_left();
  if (!thread.leaving()) co_return;  // cancelled, because the request is over
  if (over_at == clock::time_point::max()) over_at = clock::now() + config.farewell_timeout;
  co_await wait_until(over_at);
}

void trace_exporter::impl::take_batch() {
  std::vector<trace_span> spans;
  for (const request_trace& request : queue.take(config.batch_spans_max)) {
    for (auto& span : spans_of(request, config.model)) spans.push_back(std::move(span));
  }
  if (spans.empty()) return;
  batch_spans = spans.size();
  batch = make_post(config.address, config.target, encode_spans(spans, config.resource));
}

asio::awaitable<void> trace_exporter::impl::send() {
  http_answer answer;
  const auto end = clock::now() + config.request_timeout;
  co_await (post_once(config.address, batch, answer_bytes_max, answer) || wait_until(end) ||
            until_farewell());
  take(answer);
}

void trace_exporter::impl::take(const http_answer& answer) {
  const auto outcome = judge_export(answer);
  if (outcome.verdict == export_verdict::accepted) {
    const auto rejected = std::min<std::uint64_t>(outcome.rejected, batch_spans);
    exported.fetch_add(batch_spans - rejected);
    batch_spans = rejected;
    drop_batch();
    backoff.succeed();
    if (std::exchange(failing, false)) tell(export_event::recovered, {});
    return;
  }
  failures.fetch_add(1);
  if (thread.leaving()) gave_up = true;
  const double part = std::generate_canonical<double, 32>(random);
  const auto step = backoff.fail(outcome.wait, part);
  next_at = clock::now() + step.wait;
  if (step.give_up || outcome.verdict == export_verdict::refused) {
    drop_batch();
    backoff.begin_other_spans();
  }
  if (!std::exchange(failing, true)) tell(export_event::failing, answer.shown());
}

void trace_exporter::impl::drop_batch() {
  dropped.fetch_add(std::exchange(batch_spans, 0));
  batch.clear();
  batch.shrink_to_fit();
}

trace_exporter::trace_exporter(exporter_config config, listener tell)
    : impl_(std::make_unique<impl>(std::move(config), std::move(tell))) {
  impl_->start();
}

trace_exporter::~trace_exporter() {
  leave();
}

const trace_sampler& trace_exporter::sampler() const noexcept {
  return impl_->config.sampler;
}

void trace_exporter::offer(request_trace request) noexcept {
  const std::size_t more = request.spans();
  std::optional<std::size_t> now;
  try {
    now = impl_->queue.push(std::move(request));
  } catch (const std::exception&) {
    // no memory for it
  }
  if (!now) {
    impl_->dropped.fetch_add(more);
    return;
  }
  // The thread waits for the first span, and then for a batch.
  const std::size_t before = *now - more;
  const std::size_t batch = impl_->config.batch_spans_max;
  if (before == 0 || (before < batch && *now >= batch)) static_cast<void>(impl_->thread.wake(impl_->news));
}

void trace_exporter::leave() noexcept {
  impl_->thread.leave();
}

std::string trace_exporter::render_metrics() const {
  metrics_text out;
  out.family("orcd_trace_spans_exported_total", "counter", "Spans that the collector has taken.")
      .sample(static_cast<double>(impl_->exported));
  out.family("orcd_trace_spans_dropped_total", "counter",
             "Spans that were lost: the queue was full, or the collector did not take them.")
      .sample(static_cast<double>(impl_->dropped));
  out.family("orcd_trace_export_failures_total", "counter",
             "Requests to the collector that were not accepted.")
      .sample(static_cast<double>(impl_->failures));
  out.family("orcd_trace_spans_queued", "gauge", "Spans that wait for the next request to the collector.")
      .sample(static_cast<double>(impl_->queue.spans()));
  return std::move(out).take();
}

}  // namespace orcd::net
