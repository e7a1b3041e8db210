// What is known of a request besides its jobs: for the log, the metrics and the error of a time limit. Made
// where the request is prepared and passed on whole. Private to net/.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

namespace orcd::net {

struct request_facts {
  std::size_t prompt_chars = 0;  ///< code points
  std::string prompt_digest;     ///< engine::prompt_digest(): the log gets this instead of the prompt
  /// Time left to X-Deadline when the request was prepared; unset without the header.
  std::optional<std::chrono::milliseconds> deadline_left;
  /// X-Deadline is what limits the jobs' time: a retry would be too late as well, so it is not retriable.
  bool deadline_is_final = false;
};

}  // namespace orcd::net
