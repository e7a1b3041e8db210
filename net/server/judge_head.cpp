#include "net/server/judge_head.hpp"

#include <string>
#include <utility>

#include "net/http/operator_gate.hpp"
#include "net/http/request_gate.hpp"
#include "net/server/admitted.hpp"

namespace orcd::net {
namespace {

namespace http = beast::http;

request_sender sender_of(const connection& c, const request_parser& parser) {
  const auto& message = parser.get();
  request_sender sender;
  sender.method = message.method_string();
  sender.target = message.target();
  sender.host = message[http::field::host];
  sender.origin = message[http::field::origin];
  sender.fetch_site = message["Sec-Fetch-Site"];
  sender.content_type = message[http::field::content_type];
  sender.content_encoding = message[http::field::content_encoding];
  sender.has_body = !parser.is_done();
  sender.on_loopback = c.peer.is_loopback();
  return sender;
}

/// Whether the sender may do what the request does to all clients, and a note of it in the log. What another
/// engine let in stays in.
engine::result<void> judge_order(service& s, const connection& c, const request_sender& sender,
                                 const key_owner& owner, endpoint target) {
  const auto order = order_of(target, sender.method);
  if (order.what.empty()) return {};
  order_giver giver;
  giver.has_keys = !s.config.keys.get()->empty();
  giver.owner = &owner;
  auto may = check_operator(sender, giver, order);
  if (!may && is_admitted(c)) may = {};
  const std::string route = std::string(sender.method) + " " + std::string(pattern_of(target));
  narrate_order(s.context.narrator, {route, owner.label, c.peer.to_string(), may.has_value()});
  return may;
}

}  // namespace

std::variant<endpoint, reply> judge_head(service& s, connection& c, const request_parser& parser,
                                         http_request& request) {
  const auto refuse = [](const engine::error& why) { return make_error_reply(why); };
  const auto sender = sender_of(c, parser);
  const bool admitted = is_admitted(c);
  const auto host = check_host(sender, s.config.hosts);
  if (!host && !admitted) return refuse(host.error());
  // A request that another engine let in goes on where this one does not serve its API.
  auto route = find_route(request.method, request.target, {s.config.page, s.config.ollama || admitted});
  const auto* target = std::get_if<endpoint>(&route);
  if (target == nullptr) return route;
  const auto page = check_page(sender, s.config.hosts, s.config.cors_origins);
  if (!page && !admitted) return refuse(page.error());
  if (needs_key(*target)) {
    auto owner = owner_of(s, c, parser.get()[http::field::authorization], parser.get()["X-Api-Key"]);
    if (!owner) return refuse(no_key());
    request.owner = std::move(*owner);
  }
  if (const auto may = judge_order(s, c, sender, request.owner, *target); !may) return refuse(may.error());
  if (auto unread = check_body_type(sender)) return std::move(*unread);
  // Last, so that nobody loses a place to a request that is not served.
  if (!is_probe(*target) && !s.connections.promote(c, request.owner.tenant) && !admitted) {
    ++s.metrics.connections_refused;
    reply refusal = make_error_reply(s.connections.refusal_of(c, request.owner.tenant));
    refusal.close = true;
    return refusal;
  }
  return route;
}

}  // namespace orcd::net
