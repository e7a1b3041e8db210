// The options of the traces of requests, and the variables by which OpenTelemetry's own programs are told the
// same.
#include <algorithm>
#include <cctype>

#include "app/options/option_table.hpp"
#include "net/http/http_url.hpp"
#include "net/traces/otlp.hpp"

namespace orcd::app {
namespace {

constexpr std::size_t name_bytes_max = 256;

requirement assign_endpoint(std::string_view value, options& out) {
  const auto checked = net::parse_http_url(value);
  if (!checked) return "must be an http:// or https:// URL; " + checked.error().message;
  out.traces.endpoint = value;
  return std::nullopt;
}

requirement assign_ratio(std::string_view value, options& out) {
  const auto ratio = net::parse_ratio(value);
  if (!ratio) return "must be a number, 0 to 1";
  out.traces.ratio = out.traces.sampler.ratio = *ratio;
  return std::nullopt;
}

/// Values by name. An empty variable is as good as none (OpenTelemetry).
class otel_variables {
 public:
  otel_variables(const std::vector<std::pair<std::string, std::string>>& env, options& out)
      : env_(env), out_(out) {}

  [[nodiscard]] std::string_view operator[](std::string_view name) const {
    for (const auto& [variable, value] : env_) {
      if (variable == name) return value;
    }
    return {};
  }
  /// The values are not repeated: some are secrets.
  void warn(std::string_view name, std::string_view why) const {
    out_.warnings.push_back("environment variable " + std::string(name) + " " + std::string(why) +
                            " and is ignored");
  }
  /// True where the variable was the endpoint of the traces.
  [[nodiscard]] bool take_endpoint(std::string_view name) const {
    const auto value = (*this)[name];
    if (value.empty()) return false;
    if (!assign_endpoint(value, out_)) return true;
    warn(name, "is no http:// or https:// URL");
    return false;
  }

 private:
  const std::vector<std::pair<std::string, std::string>>& env_;
  options& out_;
};

/// OpenTelemetry's booleans and enumerations have no case.
bool is_word(std::string_view value, std::string_view word) {
  return std::equal(value.begin(), value.end(), word.begin(), word.end(), [](char one, char lower) {
    return std::tolower(static_cast<unsigned char>(one)) == lower;
  });
}

void take_endpoint(const otel_variables& variables, trace_options& traces) {
  const bool off =
      is_word(variables["OTEL_SDK_DISABLED"], "true") || is_word(variables["OTEL_TRACES_EXPORTER"], "none");
  if (!traces.endpoint.empty() || off) return;
  traces.endpoint_is_whole = variables.take_endpoint("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
  if (!traces.endpoint_is_whole) static_cast<void>(variables.take_endpoint("OTEL_EXPORTER_OTLP_ENDPOINT"));
}

void take_sampler(const otel_variables& variables, trace_options& traces) {
  if (traces.ratio) return;
  const auto sampler =
      net::parse_sampler(variables["OTEL_TRACES_SAMPLER"], variables["OTEL_TRACES_SAMPLER_ARG"]);
  if (!sampler) return variables.warn("OTEL_TRACES_SAMPLER", "names no sampler and ratio of 0 to 1");
  traces.sampler = *sampler;
}

/// Every collector that takes http/protobuf takes http/json at the same address; one that takes gRPC does
/// not, and a protocol that is not there is ignored with a warning (OpenTelemetry).
void check_protocol(const otel_variables& variables) {
  std::string_view name = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL";
  if (variables[name].empty()) name = "OTEL_EXPORTER_OTLP_PROTOCOL";
  const auto protocol = variables[name];
  if (protocol.empty() || is_word(protocol, "http/json") || is_word(protocol, "http/protobuf")) return;
  variables.warn(name, "asks for another protocol than JSON over HTTP, in which spans are sent,");
}

}  // namespace

std::vector<option_row> trace_rows() {
  return {
      {"", "otlp-endpoint", "URL",
       "Collector that is sent the spans of requests, by OTLP over HTTP in JSON at URL/v1/traces (default: "
       "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_EXPORTER_OTLP_ENDPOINT, else none)",
       assign_endpoint},
      {"", "trace-ratio", "R",
       "Part of the requests that are kept, 0 to 1, where traceparent does not decide (default: "
       "OTEL_TRACES_SAMPLER, else 1)",
       assign_ratio},
  };
}

void read_trace_environment(const std::vector<std::pair<std::string, std::string>>& env, options& out) {
  const otel_variables variables(env, out);
  trace_options& traces = out.traces;
  take_endpoint(variables, traces);
  if (traces.endpoint.empty()) return;
  take_sampler(variables, traces);
  traces.service_name = variables["OTEL_SERVICE_NAME"];
  if (traces.service_name.size() > name_bytes_max || !net::is_trace_text(traces.service_name)) {
    variables.warn("OTEL_SERVICE_NAME", "is no name of up to 256 bytes of UTF-8");
    traces.service_name.clear();
  }
  if (auto resource = net::parse_resource_attributes(variables["OTEL_RESOURCE_ATTRIBUTES"])) {
    traces.resource = std::move(*resource);
  } else {
    variables.warn("OTEL_RESOURCE_ATTRIBUTES", "is not key=value,key=value");
  }
  check_protocol(variables);
  for (const char* const name : {"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"}) {
    if (!variables[name].empty()) variables.warn(name, "has headers, which are not sent,");
  }
}

}  // namespace orcd::app
