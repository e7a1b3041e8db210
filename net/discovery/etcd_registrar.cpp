#include "net/discovery/etcd_registrar.hpp"

#include <atomic>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <utility>

#include "net/http/asio.hpp"
#include "net/http/http_post.hpp"
#include "net/http/reporter.hpp"
#include "net/status/metrics_text.hpp"

namespace orcd::net {
namespace {

using namespace asio::experimental::awaitable_operators;
using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// What is wrong with an answer before its body is read, or nothing.
std::string failure_of(const http_answer& answer) {
  return answer.status == 200 && answer.failure.empty() ? std::string() : answer.shown();
}

std::string text_of(const http_url& address, const etcd_request& request) {
  return make_post(address, request.target, request.body);
}

}  // namespace

struct etcd_registrar::impl {
  impl(registrar_config with, listener told)
      : config(std::move(with)), tell(std::move(told)), plan(config.times) {}

  ~impl() { thread.end(); }
  impl(const impl&) = delete;
  impl& operator=(const impl&) = delete;

  void start();
  asio::awaitable<void> stay();
  asio::awaitable<void> ask(registration_step step);
  asio::awaitable<void> say_goodbye();
  [[nodiscard]] etcd_request request_for(registration_step step) const;
  [[nodiscard]] std::string take(registration_step step, const std::string& body, clock::time_point asked);
  void count(const std::string& failure);
  void tell_changes();

  const registrar_config config;
  const listener tell;
  registration plan;
  bool failing = false;
  bool told_registered = false;
  bool told_superseded = false;
  std::atomic<std::int64_t> good_until{0};  ///< of the entry, in the clock's nanoseconds
  std::atomic<std::uint64_t> registrations{0};
  std::atomic<std::uint64_t> failures{0};
  reporter thread;
};

void etcd_registrar::impl::start() {
  reporter_duties duties;
  duties.work = [this] { return stay(); };
  duties.over = [this] { return thread.leaving(); };
  duties.failed = [this] { failures.fetch_add(1); };
  // Where it fails the lease ends by itself.
  duties.last = [this] {
    asio::co_spawn(thread.io(), say_goodbye(), [](const std::exception_ptr&) {});
    thread.io().run_for(config.farewell_timeout);
  };
  duties.pause = config.times.retry_first;
  thread.start(std::move(duties));
}

asio::awaitable<void> etcd_registrar::impl::stay() {
  while (!thread.leaving()) {
    const auto step = plan.next(clock::now());
    if (step == registration_step::wait) {
      co_await (wait_until(plan.due()) || thread.until_left());
    } else {
      co_await (ask(step) || thread.until_left());
    }
  }
}

etcd_request etcd_registrar::impl::request_for(registration_step step) const {
  switch (step) {
    case registration_step::grant:
      return etcd_grant(std::chrono::duration_cast<std::chrono::seconds>(config.times.ttl));
    case registration_step::put:
      return etcd_put(config.key, config.entry, plan.epoch(), plan.lease(), plan.replaces());
    case registration_step::keep: return etcd_keep(plan.lease());
    case registration_step::read:
    case registration_step::wait: break;
  }
  return etcd_read(config.key);
}

/// Takes an answer into the plan; what is wrong with it, or nothing.
std::string etcd_registrar::impl::take(registration_step step, const std::string& body,
                                       clock::time_point asked) {
  switch (step) {
    case registration_step::grant: {
      const auto lease = read_granted(body);
      if (!lease) return lease.error().message;
      plan.on_granted(lease->id, lease->ttl, asked);
      return {};
    }
    case registration_step::put: {
      const auto written = read_written(body);
      if (!written) return written.error().message;
      plan.on_put(*written, asked);
      return {};
    }
    case registration_step::keep: {
      const auto kept = read_kept(body, plan.lease());
      if (!kept) return kept.error().message;
      plan.on_kept(*kept, asked);
      return {};
    }
    case registration_step::read:
    case registration_step::wait: break;
  }
  const auto found = read_found(body, config.key);
  if (!found) return found.error().message;
  plan.on_read(found->entry, found->revision, asked);
  return {};
}

asio::awaitable<void> etcd_registrar::impl::ask(registration_step step) {
  const auto asked = clock::now();
  const std::string text = text_of(config.address, request_for(step));
  http_answer outcome;
  co_await (post_once(config.address, text, etcd_answer_bytes_max, outcome) ||
            wait_until(asked + config.request_timeout));
  if (thread.leaving()) co_return;
  std::string wrong = failure_of(outcome);
  if (wrong.empty()) wrong = take(step, outcome.body, asked);
  if (!wrong.empty()) plan.on_failure(step, clock::now());
  tell_changes();
  if (wrong.empty()) {
    failing = false;
  } else {
    count(wrong);
  }
}

void etcd_registrar::impl::count(const std::string& failure) {
  failures.fetch_add(1);
  if (!std::exchange(failing, true)) tell(registrar_event::failing, failure);
}

void etcd_registrar::impl::tell_changes() {
  const auto now = clock::now();
  const bool registered = plan.registered(now);
  good_until = registered ? plan.lease_end().time_since_epoch().count() : 0;
  const bool superseded = plan.superseded();
  if (registered && !std::exchange(told_registered, registered)) {
    registrations.fetch_add(1);
    tell(registrar_event::registered, std::to_string(plan.epoch()));
  }
  if (superseded && !std::exchange(told_superseded, superseded)) {
    tell(registrar_event::superseded, config.key);
  }
  told_registered = registered;
  told_superseded = superseded;
}

asio::awaitable<void> etcd_registrar::impl::say_goodbye() {
  good_until = 0;
  if (plan.lease() == 0) co_return;
  const std::string text = text_of(config.address, etcd_revoke(plan.lease()));
  http_answer outcome;
  const auto end = clock::now() + config.farewell_timeout;
  co_await (post_once(config.address, text, etcd_answer_bytes_max, outcome) || wait_until(end));
}

etcd_registrar::etcd_registrar(registrar_config config, listener tell)
    : impl_(std::make_unique<impl>(std::move(config), std::move(tell))) {
  impl_->start();
}

etcd_registrar::~etcd_registrar() {
  leave();
}

void etcd_registrar::leave() noexcept {
  impl_->thread.leave();
}

std::string etcd_registrar::render_metrics() const {
  metrics_text out;
  const bool registered = clock::now().time_since_epoch().count() < impl_->good_until;
  out.family("orcd_discovery_registered", "gauge",
             "1 while this worker's entry stands in the discovery store.")
      .sample(registered ? 1 : 0);
  out.family("orcd_discovery_registrations_total", "counter", "Times that the entry came to stand there.")
      .sample(static_cast<double>(impl_->registrations));
  out.family("orcd_discovery_failures_total", "counter", "Requests to the store without a proper answer.")
      .sample(static_cast<double>(impl_->failures));
  return std::move(out).take();
}

}  // namespace orcd::net
