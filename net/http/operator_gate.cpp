#include "net/http/operator_gate.hpp"

#include <utility>

namespace orcd::net {

using engine::errc;
using engine::error;
using engine::result;

operator_order order_of(endpoint target, std::string_view method) noexcept {
  switch (target) {
    case endpoint::shutdown: return {"stop the worker"};
    case endpoint::lora_adapters:
      if (method == "POST") return {"set the scales of all requests"};
      break;
    case endpoint::load_adapter: return {"load adapters for all clients", false};
    case endpoint::unload_adapter: return {"unload adapters of all clients", false};
    default: break;
  }
  return {};
}

error no_key() {
  return {errc::unauthorized, "this worker needs an API key: Authorization: Bearer KEY or X-Api-Key: KEY"};
}

result<void> check_operator(const request_sender& sender, const order_giver& giver,
                            const operator_order& order) {
  if (order.what.empty()) return {};
  const std::string what(order.what);
  // A page that somebody else made could ask in the name of whoever looks at it.
  const bool is_page = !sender.origin.empty();
  if (!giver.has_keys) {
    if (!order.local_at_least || (sender.on_loopback && !is_page)) return {};
    return error(errc::forbidden,
                 "without API keys only a program on this machine may " + what + ", and no page");
  }
  if (giver.owner != nullptr && giver.owner->role == key_role::operations) return {};
  if (giver.runs_the_worker && !is_page) return {};
  if (giver.owner == nullptr) return no_key();
  return error(errc::forbidden, "to " + what +
                                    " takes a key with the role operator (role=operator in the key "
                                    "file); the one that was shown has the role inference");
}

void narrate_order(engine::narrator& narrator, const order_note& note) {
  const auto severity = note.taken ? engine::severity::info : engine::severity::warning;
  narrator.narrate(severity, "operator_order",
                   note.taken ? "An operator's order was taken." : "An operator's order was refused.",
                   {{"route", note.route},
                    {"key_name", note.key_name},
                    {"address", std::string_view(note.address)},
                    {"taken", note.taken}});
}

}  // namespace orcd::net
