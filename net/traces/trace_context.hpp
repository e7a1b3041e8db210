// The trace that a request belongs to: what the headers traceparent and tracestate say, and whether its spans
// are kept. Pure. Source: W3C Trace Context, OpenTelemetry's samplers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace orcd::net {

/// What a caller says of the span that it made the request in.
struct trace_parent {
  std::string trace_id;  ///< 32 hexadecimal digits, lower case, not all 0
  std::string span_id;   ///< 16 of these
  bool sampled = false;  ///< the caller keeps its own span
};

/// The header traceparent. Nullopt where it is not one, which starts a new trace: no request is refused for
/// it. Of a version after 00 the fields that 00 has are read.
[[nodiscard]] std::optional<trace_parent> parse_traceparent(std::string_view text);

/// Longest tracestate that is passed on.
constexpr std::size_t tracestate_bytes_max = 512;
/// Whether the header tracestate may be passed on, unread: printable ASCII up to that length, with
/// tabs around its members, too.
[[nodiscard]] bool is_tracestate(std::string_view text);

/// Which requests' spans are kept.
struct trace_sampler {
  bool follows_parent = true;  ///< where the caller has decided, so is it
  double ratio = 1.0;          ///< of all others, 0 to 1
};

/// By a name and an argument of OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG; an empty name is the
/// default, parentbased_always_on. Nullopt: no such sampler, or no such ratio.
[[nodiscard]] std::optional<trace_sampler> parse_sampler(std::string_view name, std::string_view argument);
/// A number from 0 to 1.
[[nodiscard]] std::optional<double> parse_ratio(std::string_view text);

/// Every process that asks with the same trace and ratio gets the same answer: the id's last 56 bits are
/// random, and those that are high enough are kept. `trace_id` has 32 hexadecimal digits.
[[nodiscard]] bool is_sampled(const trace_sampler& sampler, std::string_view trace_id,
                              const std::optional<trace_parent>& parent);

}  // namespace orcd::net
