// The command line of worker-orcd-holder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "app/holder/device_list.hpp"
#include "app/holder/engine_arguments.hpp"
#include "app/options/options.hpp"
#include "net/failover/held_socket.hpp"

namespace orcd::app {

struct holder_options {
  enum class task { hold, print, check_startup, check_ready };
  task what = task::hold;
  std::string text;  ///< of `print`

  std::string dir;
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;
  std::uint32_t journal_mib = 256;
  std::uint32_t hang_timeout_sec = 10;  ///< 0: no engine is ended for hanging
  std::string group;                    ///< name or number; empty: processes of this user alone
  std::vector<held_device> devices;     ///< whose weights it keeps; empty: those that are found
  std::uint32_t engines = 0;            ///< to run; 0: others start them
  std::vector<std::string> engine_options;
  log_format format = log_format::json;
  engine::severity log_level = engine::severity::info;

  [[nodiscard]] shared_arguments of_engines() const { return {dir, host, port, engine_options}; }
  /// Where engines connect.
  [[nodiscard]] std::string socket_path() const { return net::holder_socket_path(dir); }
};

/// Errors (invalid_request) are one sentence for a person, naming the option, what it must be and its value.
[[nodiscard]] engine::result<holder_options> parse_holder_options(const std::vector<std::string>& args);

}  // namespace orcd::app
