#include "net/server/logged_request.hpp"

#include <chrono>
#include <utility>
#include <variant>

#include "engine/base/narration.hpp"
#include "net/http/forwarded.hpp"
#include "net/http/routes.hpp"

namespace orcd::net {
namespace {

/// What a client that went away is said to have got, as nginx says it.
constexpr unsigned client_closed = 499;

bool is_quiet(const std::variant<endpoint, reply>& route, unsigned status) {
  const auto* const target = std::get_if<endpoint>(&route);
  return target != nullptr && is_probe(*target) && status < 400;
}

}  // namespace

logged_request::logged_request(service& s, connection& c, const http_request& request,
                               std::string_view forwarded)
    : service_(s),
      connection_(c),
      request_(request),
      address_(client_address(c.peer, forwarded, s.config.trusted_proxies).to_string()) {
  c.note = request_note();
}

logged_request::~logged_request() {
  // Of a request that another engine goes on with, that one tells.
  if (connection_.record && connection_.record->is_left()) return;
  auto& note = connection_.note;
  if (note.status == 0) note.status = client_closed;
  const auto route =
      find_route(request_.method, request_.target, {service_.config.page, service_.config.ollama});
  const auto* const target = std::get_if<endpoint>(&route);
  const std::string_view path = target == nullptr ? std::string_view() : pattern_of(*target);
  service_.metrics.counts.count(path, note.status);
  if (note.failed) service_.metrics.counts.count(cause_of(*note.failed));
  if (!request_.owner.label.empty()) {
    service_.metrics.counts.add(request_.owner.label, {1, note.tokens_in, note.tokens_out});
  }
  if (is_quiet(route, note.status)) return;
  // Whoever asks for nothing but refusals does not fill the log.
  const bool refused = note.status >= 400 && note.jobs == 0;
  if (refused && !service_.refusals_told.may(std::chrono::steady_clock::now())) return;
  tell(path);
}

void logged_request::tell(std::string_view route) const {
  const auto& note = connection_.note;
  const std::string_view model = note.model.empty() ? std::string_view(service_.context.identity.model_name)
                                                    : std::string_view(note.model);
  const std::string_view code = note.failed ? engine::code_name(*note.failed) : std::string_view();
  const auto took = std::chrono::steady_clock::now() - request_.received_at;
  service_.context.narrator.narrate(engine::severity::info, "request", "A request was answered.",
                                    {{"request_id", request_.request_id},
                                     {"key_name", request_.owner.label},
                                     {"address", std::string_view(address_)},
                                     {"method", request_.method},
                                     {"route", route},
                                     {"status", std::uint64_t{note.status}},
                                     {"code", code},
                                     {"field", std::string_view(note.field)},
                                     {"model", note.jobs > 0 ? model : std::string_view()},
                                     {"tokens_in", note.tokens_in},
                                     {"tokens_cached", note.tokens_cached},
                                     {"tokens_out", note.tokens_out},
                                     {"finish_reason", note.finish},
                                     {"duration_ms", std::chrono::duration<double, std::milli>(took).count()},
                                     {"refusals_untold", service_.refusals_told.untold()}});
}

}  // namespace orcd::net
