// Which requests are let in, judged by their heads alone, before the bodies are read: pages of other origins
// cannot act, and names that are not the worker's cannot reach one without API keys (DNS rebinding). Pure.
// Source: Fetch standard (Origin), Fetch Metadata (Sec-Fetch-Site), RFC 9110 7.2 (Host), RFC 6761 6.3
// (localhost). Private to net/.
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
  /// Any address is accepted: a page can be rebound to another address, but its name cannot become one.
  bool any_address = false;
  std::vector<std::string> names;  ///< besides localhost, *.localhost and loopback addresses; no ports
  std::string public_origin;       ///< scheme://host[:port] under which others reach the worker; or empty
};

/// What a worker says of itself, from which host_rules are made.
struct host_facts {
  std::string address;               ///< that it is bound to
  std::string machine;               ///< the machine's name
  std::string public_uri;            ///< or empty
  std::vector<std::string> allowed;  ///< by the operator
  bool has_keys = false;             ///< whoever rebinds a name has none of them
};

/// Own names are the machine's, that of `public_uri` and `allowed`. Restricted on a loopback address, without
/// keys, and wherever `allowed` is not empty.
[[nodiscard]] host_rules make_host_rules(const host_facts& facts);

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

}  // namespace orcd::net
