#include "app/worker/reloads.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>

#include "app/options/parse_options.hpp"

namespace orcd::app {

namespace asio = boost::asio;
using engine::error;
using engine::result;
using engine::severity;

namespace {

/// For the files of an engine that is about to serve, while its clients wait.
constexpr std::chrono::milliseconds reload_limit{1'000};

std::string_view name_of(reload_cause cause) noexcept {
  switch (cause) {
    case reload_cause::signal: return "SIGHUP";
    case reload_cause::holder: return "SIGHUP to the holder or another engine";
    case reload_cause::takeover: return "takeover";
  }
  return "";
}

error key_file_error(const std::string& path, const error& why) {
  return {engine::errc::worker_start_failed, "API key file '" + path + "': " + why.message, why.param};
}

}  // namespace

result<net::api_keys> read_keys(const std::string& path) {
  const auto text = read_config_file(path);
  if (!text) return key_file_error(path, text.error());
  auto keys = net::api_keys::parse(*text);
  if (!keys) return key_file_error(path, keys.error());
  return keys;
}

reloads::reloads(asio::io_context& io, std::string key_file, net::current_keys keys,
                 engine::narrator& narrator, hooks asked)
    : io_(io),
      key_file_(std::move(key_file)),
      keys_(std::move(keys)),
      narrator_(narrator),
      asked_(std::move(asked)),
      limit_(io) {}

/// If clients have filled the queue of the background threads it reads the files here: the operator, who may
/// be about to change the clients' keys, must not wait for them.
void reloads::begin(reload_cause cause) {
  const auto read = [this, cause, number = ++begun_] {
    try {
      asio::post(io_, [this, cause, number, what = read_anew()]() mutable {
        // There are several threads, and this one's file may have been the slow one.
        if (number > applied_) {
          applied_ = number;
          apply(std::move(what), cause);
        }
        end(number);
      });
    } catch (const std::exception& failure) {
      narrator_.narrate(severity::error, "reload_failed", "Keys and log level stay as they were",
                        {{"cause", name_of(cause)}, {"reason", std::string_view(failure.what())}});
    }
  };
  net::queued_task task;
  task.owner.tenant = ":operator";  // no API key can have this name
  task.until = std::chrono::steady_clock::now() + std::chrono::hours(1);
  task.work = read;
  if (!asked_.in_background(std::move(task))) read();
}

/// Any thread.
result<reloads::reloaded> reloads::read_anew() const {
  const auto opts = asked_.read_again();
  if (!opts) return opts.error();
  reloaded out{opts->log_level, {}};
  if (key_file_.empty()) return out;
  auto keys = read_keys(key_file_);
  if (!keys) return keys.error();
  out.keys = std::move(*keys);
  return out;
}

void reloads::apply(result<reloaded> what, reload_cause cause) {
  if (!what) {
    narrator_.narrate(severity::error, "reload_failed",
                      "Keys and log level stay as they were: " + what.error().message,
                      {{"cause", name_of(cause)}, {"reason", std::string_view(what.error().message)}});
    return;
  }
  const bool keys = what->keys.has_value();
  if (keys) keys_.replace(std::move(*what->keys));
  // Logged under the old or the new level, whichever lets the line through.
  if (what->log_level <= severity::info) asked_.set_least(what->log_level);
  // Each takeover without a holder does it.
  narrator_.narrate(cause == reload_cause::takeover ? severity::debug : severity::info, "reloaded",
                    "The log level and the API keys were read again",
                    {{"log_level", to_string(what->log_level)}, {"keys", keys}, {"cause", name_of(cause)}});
  asked_.set_least(what->log_level);
}

void reloads::end(std::uint64_t number) {
  ended_ = std::max(ended_, number);
  if (pending()) return;
  limit_.cancel();
  if (const auto next = std::exchange(waits_, nullptr)) next();
}

void reloads::when_done(std::function<void()> next) {
  if (!pending()) return next();
  waits_ = std::move(next);
  limit_.expires_after(reload_limit);
  limit_.async_wait([this](const boost::system::error_code& failed) {
    if (failed || !waits_) return;
    narrator_.narrate(severity::error, "reload_failed",
                      "Serves with the keys and the log level that it has: the files cannot be read in time",
                      {{"limit_ms", static_cast<std::int64_t>(reload_limit.count())}});
    end(begun_);
  });
}

}  // namespace orcd::app
