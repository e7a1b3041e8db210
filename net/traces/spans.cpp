#include "net/traces/spans.hpp"

#include <algorithm>
#include <utility>

#include "net/http/respond.hpp"
#include "net/json/request_fields.hpp"

namespace orcd::net {
namespace {

using engine::steady_time;

constexpr std::size_t span_digits = 16;

/// Makes the spans of one request: their ids, and their times as times of day.
class span_maker {
 public:
  explicit span_maker(const request_trace& request) : request_(request), ids_(request.nonce + "-spans") {}

  [[nodiscard]] trace_span make(std::string name, steady_time begin, steady_time end) {
    trace_span out;
    out.trace_id = request_.trace_id;
    out.span_id = ids_.next().substr(0, span_digits);
    out.tracestate = request_.tracestate;
    out.name = std::move(name);
    out.start_ns = wall_ns(begin);
    out.end_ns = std::max(out.start_ns, wall_ns(end));
    return out;
  }

 private:
  /// All times of a request have the distance that the steady clock says, whatever the clock of the day does
  /// meanwhile.
  [[nodiscard]] std::uint64_t wall_ns(steady_time at) const {
    const auto since = std::max(at - request_.received_at, steady_time::duration::zero());
    const auto wall = request_.received_wall.time_since_epoch();
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(wall) +
                    std::chrono::duration_cast<std::chrono::nanoseconds>(since);
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, ns.count()));
  }

  const request_trace& request_;
  id_series ids_;
};

std::int64_t number(std::uint64_t value) {
  return static_cast<std::int64_t>(value);
}

/// Whether the server is at fault, by the status that its answer has or, where a stream had begun, would have
/// had. A client's wrong input, or that it went away, is no failure of this span (HTTP conventions).
bool is_fault(const request_trace& request) {
  return request.status >= 500 || (request.error && http_status(*request.error) >= 500);
}

std::string code_text(engine::errc code) {
  return std::string(engine::code_name(code));
}

/// As push_back() would; g++ 12 takes the value's other kinds for uninitialized where that is inlined.
void add_number(std::vector<span_attribute>& to, std::string_view key, std::uint64_t value) {
  to.emplace_back().key = key;
  to.back().value = number(value);
}

void add_http(const request_trace& request, std::vector<span_attribute>& to) {
  to.push_back({"http.request.method", std::string(request.method.empty() ? "_OTHER" : request.method)});
  to.push_back({"url.scheme", std::string("http")});
  if (!request.route.empty()) to.push_back({"http.route", std::string(request.route)});
  to.push_back({"network.protocol.version", std::string(request.http_1_0 ? "1.0" : "1.1")});
  if (request.status != 0) add_number(to, "http.response.status_code", request.status);
  if (request.error) to.push_back({"error.type", code_text(*request.error)});
  to.push_back({"orcd.request.id", request.request_id});
}

void add_usage(const request_trace& request, std::vector<span_attribute>& to) {
  std::uint64_t in = 0;
  std::uint64_t out = 0;
  std::uint64_t cached = 0;
  std::vector<std::string> finished;
  for (const job_trace& job : request.jobs) {
    in += job.tokens_in;
    out += job.tokens_out;
    cached += job.tokens_cached;
    if (!job.finish.empty()) finished.emplace_back(job.finish);
  }
  to.push_back({"gen_ai.usage.input_tokens", number(in)});
  to.push_back({"gen_ai.usage.cache_read.input_tokens", number(cached)});
  if (!request.generates) return;
  to.push_back({"gen_ai.usage.output_tokens", number(out)});
  if (!finished.empty()) to.push_back({"gen_ai.response.finish_reasons", std::move(finished)});
}

void add_model(const request_trace& request, std::string_view model, std::vector<span_attribute>& to) {
  if (request.operation.empty()) return;
  to.push_back({"gen_ai.operation.name", std::string(request.operation)});
  to.push_back({"gen_ai.provider.name", std::string("worker-orcd")});
  to.push_back({"gen_ai.request.model", std::string(model)});
  to.push_back({"gen_ai.response.model", std::string(model)});
  if (request.jobs.empty()) return;
  if (request.jobs.size() > 1) add_number(to, "gen_ai.request.choice.count", request.jobs.size());
  to.push_back({"orcd.job.id", request.jobs.front().job_id});
  add_usage(request, to);
}

/// A job's spans, one behind the other. The last of them is the one that it failed in.
void add_job(const job_trace& job, const std::string& parent, span_maker& make, std::vector<trace_span>& to) {
  const std::size_t before = to.size();
  const auto slot = job.slot_at.value_or(job.ended_at);
  const auto first = job.first_token_at.value_or(job.ended_at);
  to.push_back(make.make("queue", std::min(job.queued_at, slot), slot));
  if (job.slot_at) {
    trace_span& prefill = to.emplace_back(make.make("prefill", slot, first));
    prefill.attributes.push_back({"gen_ai.usage.input_tokens", number(job.tokens_in)});
    prefill.attributes.push_back({"gen_ai.usage.cache_read.input_tokens", number(job.tokens_cached)});
  }
  if (job.slot_at && job.first_token_at) {
    trace_span& decode = to.emplace_back(make.make("decode", first, job.ended_at));
    decode.attributes.push_back({"gen_ai.usage.output_tokens", number(job.tokens_out)});
    if (job.resumed > 0) decode.attributes.push_back({"orcd.resumed", number(job.resumed)});
    if (!job.finish.empty()) {
      decode.attributes.push_back(
          {"gen_ai.response.finish_reasons", std::vector<std::string>{std::string(job.finish)}});
    }
  }
  for (std::size_t i = before; i < to.size(); ++i) {
    to[i].parent_id = parent;
    to[i].attributes.push_back({"orcd.job.id", job.job_id});
  }
  if (job.error) to.back().attributes.push_back({"error.type", code_text(*job.error)});
}

}  // namespace

std::vector<trace_span> spans_of(const request_trace& request, std::string_view model) {
  span_maker make(request);
  std::string name(request.method.empty() ? "HTTP" : request.method);
  if (!request.route.empty()) name += " " + std::string(request.route);
  std::vector<trace_span> out;
  out.reserve(request.spans());
  trace_span server = make.make(std::move(name), request.received_at, request.ended_at);
  server.is_server = true;
  server.parent_id = request.parent_id;
  server.failed = is_fault(request);
  add_http(request, server.attributes);
  add_model(request, model, server.attributes);
  const std::string parent = server.span_id;
  out.push_back(std::move(server));
  for (const job_trace& job : request.jobs) add_job(job, parent, make, out);
  return out;
}

}  // namespace orcd::net
