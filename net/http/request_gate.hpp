// Which requests are let in, judged by their heads alone, before the bodies are read: pages of other origins
// cannot act, names that are not the worker's cannot reach one that listens on loopback (DNS rebinding), and
// what concerns all clients needs a key or a client on this machine. Pure. Source: Fetch standard (Origin),
// Fetch Metadata (Sec-Fetch-Site), RFC 9110 7.2 (Host), RFC 6761 6.3 (localhost). Private to net/.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "net/http/respond.hpp"
#include "net/http/routes.hpp"

namespace orcd::net {

/// The names that a Host field may hold.
struct host_rules {
  bool restricted = false;  ///< true: names that are not listed are refused; false: any name is accepted
  std::vector<std::string> names;  ///< besides localhost, *.localhost and loopback addresses; no ports
  std::string public_origin;       ///< scheme://host[:port] under which others reach the worker; or empty
};

/// The rules of a worker bound to `address`: its own names are this machine's, that of `public_uri` and
/// `allowed`. Restricted on a loopback address, and wherever `allowed` is not empty.
[[nodiscard]] host_rules make_host_rules(std::string_view address, std::string_view machine,
                                         std::string_view public_uri,
                                         const std::vector<std::string>& allowed);

/// "a.example,b.example": up to 64 names or addresses without ports. Errors: invalid_request.
[[nodiscard]] engine::result<std::vector<std::string>> parse_host_names(std::string_view list);

/// What a request's head says about its sender. The views point into the request's bytes.
struct request_sender {
  std::string_view method;
  std::string_view target;
  std::string_view host;  ///< empty in HTTP/1.0 without the field
  std::string_view origin;
  std::string_view fetch_site;
  std::string_view content_type;
  std::string_view content_encoding;
  bool has_body = false;
  bool on_loopback = false;  ///< the peer's address is a loopback address
};

/// Whether Host, and the authority of a target in absolute form, are names of the worker. Error: forbidden.
[[nodiscard]] engine::result<void> check_host(const request_sender& sender, const host_rules& rules);

/// Whether a POST comes from a sender that may act: no page at all, the worker's own page, or one of the
/// allowed `origins` (cors.hpp). Error: forbidden.
[[nodiscard]] engine::result<void> check_page(const request_sender& sender, const host_rules& rules,
                                              const std::vector<std::string>& origins);

/// The 415 of a body that is not announced as JSON, a type that a page's form cannot send, or that is
/// compressed.
[[nodiscard]] std::optional<reply> check_body_type(const request_sender& sender);

/// Whether the sender may do what concerns all clients, which `what` says: "stop the worker". Without API
/// keys only programs of this machine may. Error: forbidden.
[[nodiscard]] engine::result<void> check_operator(const request_sender& sender, bool has_keys,
                                                  std::string_view what);

}  // namespace orcd::net
