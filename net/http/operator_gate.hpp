// Who may do what concerns all clients: stop the worker, change the adapters of everybody, have another
// engine serve. With API keys it takes one with the operator's role; the system port also takes programs of
// root and of the worker's own user. Pure. Private to net/.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "engine/base/narration.hpp"
#include "net/http/api_keys.hpp"
#include "net/http/request_gate.hpp"
#include "net/http/routes.hpp"

namespace orcd::net {

/// What a request does to all clients.
struct operator_order {
  std::string_view what;       ///< for messages: "stop the worker"; empty: it does nothing to others
  bool local_at_least = true;  ///< without API keys only programs of this machine may; else everybody may
};
[[nodiscard]] operator_order order_of(endpoint target, std::string_view method) noexcept;

/// What is known of who asks, besides what the request's head says.
struct order_giver {
  bool has_keys = false;             ///< the worker has API keys
  const key_owner* owner = nullptr;  ///< of the key that was shown; null: it is none of the worker's
  /// It is a program of root or of the worker's own user on this machine. False where nobody has looked.
  bool runs_the_worker = false;
};

/// The 401 of a request that shows none of the keys.
[[nodiscard]] engine::error no_key();

/// Whether the sender may do what the order says. Errors: unauthorized, forbidden, which name the role.
[[nodiscard]] engine::result<void> check_operator(const request_sender& sender, const order_giver& giver,
                                                  const operator_order& order);

/// For the log: an order that was given, and whether it was taken.
struct order_note {
  std::string_view route;     ///< method and path as the table of routes has it
  std::string_view key_name;  ///< empty: no key, or none of the worker's
  std::string address;        ///< of the sender
  bool taken = false;
};
void narrate_order(engine::narrator& narrator, const order_note& note);

}  // namespace orcd::net
