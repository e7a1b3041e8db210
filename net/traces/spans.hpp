// The spans of a request: one for all of it, and below it one for each job's wait, its prompt and its output.
// Pure. Source: OpenTelemetry's semantic conventions for HTTP and generative AI.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "net/traces/request_trace.hpp"

namespace orcd::net {

struct span_attribute {
  std::string_view key;
  std::variant<std::string, std::int64_t, std::vector<std::string>> value;
};

struct trace_span {
  std::string trace_id;    ///< 32 hexadecimal digits
  std::string span_id;     ///< 16 of these
  std::string parent_id;   ///< 16 of these; empty: the first of the trace
  std::string tracestate;  ///< empty: none
  std::string name;
  bool is_server = false;      ///< else internal
  std::uint64_t start_ns = 0;  ///< since 1970
  std::uint64_t end_ns = 0;    ///< not before the start
  std::vector<span_attribute> attributes;
  bool failed = false;  ///< its status is an error
};

/// `model` is what clients call the model. The ids follow from the request's nonce, so that an engine that
/// goes on with another's request gives its spans the ids that the other would have given.
[[nodiscard]] std::vector<trace_span> spans_of(const request_trace& request, std::string_view model);

}  // namespace orcd::net
