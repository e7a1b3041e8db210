// What is noted of a request while it is served, for its spans. Written by the io thread, one request's by
// one session; no text of a prompt or an answer.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/schedule/job.hpp"

namespace orcd::net {

/// One job. Times in the steady clock.
struct job_trace {
  std::string job_id;
  engine::steady_time queued_at{};
  std::optional<engine::steady_time> slot_at;         ///< nullopt: it never had one
  std::optional<engine::steady_time> first_token_at;  ///< nullopt: it generated nothing
  engine::steady_time ended_at{};
  std::uint32_t tokens_in = 0;
  std::uint32_t tokens_out = 0;
  std::uint32_t tokens_cached = 0;
  std::uint32_t resumed = 0;  ///< engines that died while they worked at it
  std::string_view finish{};  ///< "stop" or "length"; empty where it failed
  std::optional<engine::errc> error;

  [[nodiscard]] std::size_t spans() const noexcept { return slot_at ? (first_token_at ? 3U : 2U) : 1U; }
};

struct request_trace {
  std::string trace_id;    ///< 32 hexadecimal digits
  std::string parent_id;   ///< 16 of these; empty: the request began the trace
  std::string tracestate;  ///< as received; empty: none, or one that is not passed on
  std::string nonce;       ///< the spans' own ids follow from it
  std::string request_id;
  std::string_view method;       ///< one of the known ones, or empty
  std::string_view route;        ///< the path's pattern, or empty where there is no such path
  std::string_view operation{};  ///< by the GenAI conventions; empty: the request is no use of the model
  bool http_1_0 = false;
  std::chrono::system_clock::time_point received_wall{};
  engine::steady_time received_at{};
  engine::steady_time ended_at{};
  unsigned status = 0;  ///< 0: the client got no answer
  std::optional<engine::errc> error;
  bool generates = false;  ///< its jobs make tokens
  std::vector<job_trace> jobs;

  /// Spans that it gives.
  [[nodiscard]] std::size_t spans() const noexcept {
    std::size_t count = 1;
    for (const job_trace& job : jobs) count += job.spans();
    return count;
  }
};

}  // namespace orcd::net
