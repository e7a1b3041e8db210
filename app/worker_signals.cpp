// The signals that the guard's thread has taken, handled on the io thread.
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <system_error>

#include "app/worker_parts.hpp"

namespace orcd::app {

namespace asio = boost::asio;
using engine::error;
using engine::result;
using engine::severity;

void worker::listen_to_signals() {
  // A copy, because signals_ closes its descriptor and the guard outlives it.
  const int copy = ::dup(guard_.descriptor());
  if (copy < 0) throw std::system_error(errno, std::generic_category(), "cannot copy a descriptor");
  signals_.assign(copy);
  guard_.allow_drain(std::chrono::seconds(opts_.drain_timeout_sec));
  await_signals();
}

void worker::await_signals() {
  signals_.async_wait(asio::posix::descriptor_base::wait_read,
                      [this](const boost::system::error_code& failed) {
                        if (failed) return;
                        await_signals();
                        auto [interrupts, terminations, hangups, hand_overs] = guard_.take();
                        for (; terminations > 0; --terminations) handle(shutdown_event::sigterm, "SIGTERM");
                        for (; interrupts > 0; --interrupts) handle(shutdown_event::sigint, "SIGINT");
                        if (hangups > 0) reload();
                        if (hand_overs > 0) hand_over([](const result<void>&) {});
                      });
}

/// Reads the files on a background thread, because files may be slow; but if clients have filled the queue it
/// reads them here: the operator, who may be about to change the clients' keys, must not wait for them.
void worker::reload() {
  if (!server_ || fsm_.ending()) return;
  const auto read = [this] {
    try {
      asio::post(io_, [this, what = read_anew()]() mutable { apply(std::move(what)); });
    } catch (const std::exception& failure) {
      narrator_.narrate(severity::error, "reload_failed", "SIGHUP changed nothing",
                        {{"reason", std::string_view(failure.what())}});
    }
  };
  net::queued_task task;
  task.owner.tenant = ":operator";  // no API key can have this name
  task.until = std::chrono::steady_clock::now() + std::chrono::hours(1);
  task.work = read;
  if (!background_.take(std::move(task))) read();
}

/// The key file is the one named at the start; whether keys are needed at all, and every other option, is
/// decided at the start only.
result<reloaded> worker::read_anew() const {
  const auto opts = read_again_();
  if (!opts) return opts.error();
  reloaded out{opts->log_level, {}};
  if (opts_.api_key_file.empty()) return out;
  auto keys = read_keys(opts_.api_key_file);
  if (!keys) return keys.error();
  out.keys = std::move(*keys);
  return out;
}

void worker::apply(result<reloaded> what) {
  if (!what) {
    narrator_.narrate(severity::error, "reload_failed", "SIGHUP changed nothing: " + what.error().message,
                      {{"reason", std::string_view(what.error().message)}});
    return;
  }
  const bool keys = what->keys.has_value();
  if (keys) server_->replace_keys(std::move(*what->keys));
  // Logged under the old or the new level, whichever lets the line through.
  if (what->log_level <= severity::info) narrator_.set_least(what->log_level);
  narrator_.narrate(severity::info, "reloaded", "SIGHUP: the log level and the API keys were read again",
                    {{"log_level", to_string(what->log_level)}, {"keys", keys}});
  narrator_.set_least(what->log_level);
}

}  // namespace orcd::app
