// Reads the API keys and the log level again while the worker serves. On a background thread, because files
// may be slow; what is read is applied on the io thread, the latest one last. io thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "app/options/options.hpp"
#include "engine/base/narration.hpp"
#include "net/http/current_keys.hpp"
#include "net/jobs/background_queue.hpp"

namespace orcd::app {

/// The keys of the file at `path`. Errors: worker_start_failed, naming the file and the line, never a key.
[[nodiscard]] engine::result<net::api_keys> read_keys(const std::string& path);

/// Who has an engine read keys and log level again.
enum class reload_cause {
  signal,    ///< SIGHUP to this process; the other engines are told
  holder,    ///< the same to the holder or another engine
  takeover,  ///< it is about to serve, and nobody could tell what it has missed
};

class reloads {
 public:
  struct hooks {
    std::function<engine::result<options>()> read_again;  ///< all options; any thread
    std::function<engine::result<void>(net::queued_task)> in_background;
    std::function<void(engine::severity)> set_least;  ///< of the log
  };

  /// `key_file`: the one named at the start; empty: no keys are needed. That, and every other option, is
  /// decided at the start only. `keys` get what is read.
  reloads(boost::asio::io_context& io, std::string key_file, net::current_keys keys,
          engine::narrator& narrator, hooks asked);

  void begin(reload_cause cause);
  /// Files are being read.
  [[nodiscard]] bool pending() const noexcept { return ended_ < begun_; }
  /// Calls `next` when no file is being read, or when that takes too long.
  void when_done(std::function<void()> next);

 private:
  /// What a reload changes.
  struct reloaded {
    engine::severity log_level = engine::severity::info;
    std::optional<net::api_keys> keys;  ///< nullopt: there is no key file
  };
  [[nodiscard]] engine::result<reloaded> read_anew() const;
  void apply(engine::result<reloaded> what, reload_cause cause);
  void end(std::uint64_t number);

  boost::asio::io_context& io_;
  const std::string key_file_;
  net::current_keys keys_;
  engine::narrator& narrator_;
  const hooks asked_;
  boost::asio::steady_timer limit_;  ///< of what waits
  std::function<void()> waits_;
  std::uint64_t begun_ = 0;
  std::uint64_t ended_ = 0;
  std::uint64_t applied_ = 0;  ///< the latest; an earlier one that ends later changes nothing
};

}  // namespace orcd::app
