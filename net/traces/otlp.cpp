#include "net/traces/otlp.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <charconv>

#include "engine/text/utf8.hpp"
#include "net/http/routes.hpp"
#include "net/json/json_text.hpp"
#include "net/json/text.hpp"

namespace orcd::net {
namespace {

// Of trace.proto.
constexpr int kind_internal = 1;
constexpr int kind_server = 2;
constexpr int status_error = 2;

/// Elements with commas between, each written by `write`.
template <class Range, class Write>
void append_list(std::string& out, const Range& range, const Write& write) {
  out += '[';
  bool first = true;
  for (const auto& element : range) {
    if (!first) out += ',';
    first = false;
    write(element);
  }
  out += ']';
}

/// An object with one member whose value is another text.
std::string wrapped(std::string_view key, const std::string& json) {
  std::string out;
  json_object object(out);
  object.raw(key, json);
  object.close();
  return out;
}

std::string text_value(std::string_view text) {
  std::string out;
  json_object object(out);
  object.text("stringValue", text);
  object.close();
  return out;
}

/// An AnyValue; 64-bit integers are texts in the JSON of protobuf.
struct value_writer {
  std::string operator()(const std::string& text) const { return text_value(text); }
  std::string operator()(std::int64_t value) const {
    return wrapped("intValue", "\"" + std::to_string(value) + "\"");
  }
  std::string operator()(const std::vector<std::string>& texts) const {
    std::string list;
    append_list(list, texts, [&list](const std::string& text) { list += text_value(text); });
    return wrapped("arrayValue", wrapped("values", list));
  }
};

void append_attribute(std::string& out, std::string_view key, const std::string& value) {
  json_object object(out);
  object.text("key", key).raw("value", value);
  object.close();
}

std::string attributes_of(const trace_span& span) {
  std::string out;
  append_list(out, span.attributes, [&out](const span_attribute& attribute) {
    append_attribute(out, attribute.key, std::visit(value_writer(), attribute.value));
  });
  return out;
}

void append_span(std::string& out, const trace_span& span) {
  json_object object(out);
  object.text("traceId", span.trace_id).text("spanId", span.span_id);
  if (!span.tracestate.empty()) object.text("traceState", span.tracestate);
  if (!span.parent_id.empty()) object.text("parentSpanId", span.parent_id);
  object.text("name", span.name)
      .integer("kind", span.is_server ? kind_server : kind_internal)
      .text("startTimeUnixNano", std::to_string(span.start_ns))
      .text("endTimeUnixNano", std::to_string(span.end_ns))
      .raw("attributes", attributes_of(span));
  json_object status = object.object("status");
  if (span.failed) status.integer("code", status_error);
  status.close();
  object.close();
}

std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t value = 0;
  const auto* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
  return value;
}

/// partialSuccess.rejectedSpans of an answer, as a number or a text; 0 where it says none.
std::uint64_t rejected_in(const std::string& body) {
  boost::json::parse_options options;
  options.max_depth = 8;
  boost::system::error_code failed;
  const auto answer = boost::json::parse(body, failed, {}, options);
  if (failed) return 0;
  boost::system::error_code absent;
  const auto* const rejected = answer.find_pointer("/partialSuccess/rejectedSpans", absent);
  if (rejected == nullptr) return 0;
  if (const auto* const text = rejected->if_string()) return number_of(*text).value_or(0);
  const auto* const number = rejected->if_int64();
  return number != nullptr && *number > 0 ? static_cast<std::uint64_t>(*number) : 0;
}

}  // namespace

bool is_trace_text(std::string_view text) {
  return engine::utf8::valid_bytes(text) == text.size();
}

std::optional<std::vector<std::pair<std::string, std::string>>> parse_resource_attributes(
    std::string_view text) {
  constexpr std::size_t bytes_max = 4'096;
  constexpr std::size_t attributes_max = 64;
  if (text.size() > bytes_max) return std::nullopt;
  std::vector<std::pair<std::string, std::string>> out;
  while (!text.empty()) {
    const auto end = std::min(text.find(','), text.size());
    const auto pair = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto mark = pair.find('=');
    if (mark == std::string_view::npos || out.size() == attributes_max) return std::nullopt;
    std::string key = percent_decoded(trimmed(pair.substr(0, mark)));
    std::string value = percent_decoded(trimmed(pair.substr(mark + 1)));
    const bool valid = is_trace_text(key) && is_trace_text(value);
    const bool known = std::any_of(out.begin(), out.end(), [&](const auto& one) { return one.first == key; });
    if (key.empty() || !valid || known) return std::nullopt;
    out.emplace_back(std::move(key), std::move(value));
  }
  return out;
}

std::string otlp_target(const http_url& url, bool whole) {
  return whole ? url.own_path : url.path + "/v1/traces";
}

std::string encode_spans(std::span<const trace_span> spans, const trace_resource& resource) {
  std::string out;
  json_object request(out);
  request.raw("resourceSpans", "[");
  json_object one(out);
  json_object about = one.object("resource");
  std::string attributes;
  append_list(attributes, resource.attributes, [&attributes](const auto& attribute) {
    append_attribute(attributes, attribute.first, text_value(attribute.second));
  });
  about.raw("attributes", attributes);
  about.close();
  one.raw("scopeSpans", "[");
  json_object scoped(out);
  json_object scope = scoped.object("scope");
  scope.text("name", "worker-orcd").text("version", resource.version);
  scope.close();
  scoped.raw("spans", "");
  append_list(out, spans, [&out](const trace_span& span) { append_span(out, span); });
  scoped.close();
  out += ']';
  one.close();
  out += ']';
  request.close();
  return out;
}

export_outcome judge_export(const http_answer& answer) {
  export_outcome out;
  out.wait = answer.asked_wait();
  if (answer.status / 100 == 2) {
    out.verdict = export_verdict::accepted;
    out.rejected = rejected_in(answer.body);
    return out;
  }
  switch (answer.status) {
    case 0:
    case 429:
    case 502:
    case 503:
    case 504: return out;
    default: out.verdict = export_verdict::refused; return out;
  }
}

}  // namespace orcd::net
