// OTLP over HTTP: the body of an export in JSON, and what an answer to it means. Pure. Source: OTLP 1.5,
// the JSON encoding of protobuf with the ids in hexadecimal digits.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/http/http_post.hpp"
#include "net/traces/spans.hpp"

namespace orcd::net {

/// What is told of this process with all spans; the keys are distinct, the values UTF-8.
struct trace_resource {
  std::vector<std::pair<std::string, std::string>> attributes;
  std::string version;  ///< of the worker
};

/// "key=value,key=value" with percent escapes, as OTEL_RESOURCE_ATTRIBUTES has it. Nullopt: not that, or more
/// than 64 attributes or 4096 bytes; such a text says nothing (OpenTelemetry).
[[nodiscard]] std::optional<std::vector<std::pair<std::string, std::string>>> parse_resource_attributes(
    std::string_view text);

/// Whether a text may stand in an export: valid UTF-8.
[[nodiscard]] bool is_trace_text(std::string_view text);

/// Where spans are posted. `whole`: the URL is that of the traces alone, to its last slash, else /v1/traces
/// stands below it.
[[nodiscard]] std::string otlp_target(const http_url& url, bool whole);

/// An ExportTraceServiceRequest.
[[nodiscard]] std::string encode_spans(std::span<const trace_span> spans, const trace_resource& resource);

enum class export_verdict {
  accepted,
  refused,  ///< the same spans would be refused again
  later,    ///< to be sent again
};

struct export_outcome {
  export_verdict verdict = export_verdict::later;
  std::uint64_t rejected = 0;                ///< spans that the collector left out of those that it accepted
  std::optional<std::chrono::seconds> wait;  ///< Retry-After, if it is a number
};

[[nodiscard]] export_outcome judge_export(const http_answer& answer);

}  // namespace orcd::net
