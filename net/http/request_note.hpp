// What is noted of the request that a connection serves, for its line in the log and its place in the
// metrics. Plain values; io thread only. Private to net/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"

namespace orcd::net {

struct request_note {
  unsigned status = 0;                 ///< of the answer; 0: none was given
  std::optional<engine::errc> failed;  ///< what the answer, or the first job that failed, says
  std::string field;                   ///< of the request, that was refused; empty: none in particular
  std::string model;                   ///< what answered, or an adapter's name; empty: the model's first name
  std::string_view finish;             ///< of the first job: "stop", "length"; empty: it did not finish
  std::uint32_t jobs = 0;
  std::uint64_t tokens_in = 0;
  std::uint64_t tokens_cached = 0;
  std::uint64_t tokens_out = 0;
};

}  // namespace orcd::net
