#include "net/status/ready_callback.hpp"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <utility>

#include "net/http/asio.hpp"
#include "net/http/http_post.hpp"
#include "net/json/json_text.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;
using engine::result;
using namespace asio::experimental::awaitable_operators;

/// One call from first attempt to `done`.
struct ready_call {
  http_url url;
  callback_config config;
  std::string request;
};

std::string target_of(const http_url& url) {
  return url.path + "/v2/internal/workers/ready";
}

std::string make_request(const http_url& url, const ready_message& message) {
  std::string body;
  json_object json(body);
  json.text("worker_id", message.worker_id)
      .text("model_ref", message.model_ref)
      .integer("vram_bytes", message.vram_bytes)
      .text("uri", message.uri);
  json.close();
  return make_post(url, target_of(url), body);
}

asio::awaitable<void> call_once(const ready_call& call, http_answer& outcome) {
  outcome = {};
  outcome.failure = "no answer within " + std::to_string(call.config.attempt_timeout.count()) + " ms";
  const auto end = std::chrono::steady_clock::now() + call.config.attempt_timeout;
  co_await (post_once(call.url, call.request, 0, outcome) || wait_until(end));
}

asio::awaitable<result<void>> call_until_accepted(ready_call call) {
  const unsigned attempts = std::max(call.config.attempts, 1U);
  unsigned made = 0;
  http_answer outcome;
  for (;;) {
    co_await call_once(call, outcome);
    if (outcome.status / 100 == 2) co_return result<void>();
    if (++made >= attempts || !may_succeed_later(outcome)) break;
    const auto pause = callback_pause(call.config.delays, made, outcome);
    if (call.config.on_wait) call.config.on_wait(outcome.shown(), pause);
    co_await wait_until(std::chrono::steady_clock::now() + pause);
  }
  error failure(errc::worker_start_failed, "the ready callback to " + call.url.shown() + " failed after " +
                                               std::to_string(made) + " of " + std::to_string(attempts) +
                                               " attempts: " + outcome.shown());
  co_return result<void>(std::move(failure));
}

}  // namespace

result<void> validate_callback_url(const std::string& url) {
  const auto parsed = parse_http_url(url);
  if (!parsed) return parsed.error();
  return {};
}

void post_ready(asio::io_context& io, callback_config config, ready_message message,
                std::function<void(result<void>)> done) {
  const auto url = parse_http_url(config.url);
  if (!url) {
    asio::post(io, [done = std::move(done), failure = error(errc::worker_start_failed, url.error().message)] {
      done(failure);
    });
    return;
  }
  ready_call call;
  call.url = *url;
  call.request = make_request(*url, message);
  call.config = std::move(config);
  auto calls = call_until_accepted(std::move(call));
  asio::co_spawn(
      io, std::move(calls), [done = std::move(done)](const std::exception_ptr& thrown, result<void> r) {
        if (!thrown) return done(std::move(r));
        try {
          std::rethrow_exception(thrown);
        } catch (const std::exception& e) {
          done(error(errc::worker_start_failed, std::string("the ready callback failed: ") + e.what()));
        }
      });
}

}  // namespace orcd::net
