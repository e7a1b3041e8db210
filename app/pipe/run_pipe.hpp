// The token pipe as a process: requests from standard input, answers to standard output, one after the other.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "app/options/parse_options.hpp"

namespace orcd::app {

/// How the process is to end: with one line on standard error where `message` is not empty.
struct pipe_end {
  int code = 0;  ///< 0 no more requests, 1 a file or the device, 2 usage or protocol
  std::string message;
};

/// Serves until the client has no more requests. `end` is called with how the process is to end, and must not
/// return: what is loaded is not taken down in order, which would take longer than a client waits.
void run_pipe(std::span<const std::string_view> words, const environment& env,
              void (*end)(const pipe_end& how));

}  // namespace orcd::app
