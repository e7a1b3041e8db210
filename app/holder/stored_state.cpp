#include "app/holder/stored_state.hpp"

#include "app/holder/shared_files.hpp"
#include "app/holder/stored_number.hpp"
#include "app/service/passed_listener.hpp"
#include "net/journal/head.hpp"

namespace orcd::app {
namespace {

constexpr std::string_view connection_prefix = "connection-";

bool is_of(int listener, const std::string& host, std::uint16_t port) {
  const auto named = name_of(listener);
  return is_listening(listener) && named && !disagreement(*named, host, port);
}

/// A damaged one, too: an engine that lives goes on with it, and else the first that is to serve finds out.
bool is_of_this_build(int journal) {
  const auto head = net::look_at_head(journal);
  return head && *head != net::head_state::other_format;
}

/// Puts it where it belongs; false where that is nowhere.
bool take(stored_state& out, stored_descriptor& one, const std::string& host, std::uint16_t port) {
  if (one.name == stored_listener) {
    if (out.listener || !is_of(one.descriptor.get(), host, port)) return false;
    out.listener = std::move(one.descriptor);
    return true;
  }
  if (one.name == stored_journal) {
    const int journal = one.descriptor.get();
    if (out.journal || !is_journal(journal) || !is_of_this_build(journal)) return false;
    out.journal = std::move(one.descriptor);
    return true;
  }
  const auto place = stored_place(one.name);
  if (!place || !is_connection(one.descriptor.get())) return false;
  out.connections.emplace_back(*place, std::move(one.descriptor));
  return true;
}

}  // namespace

std::string stored_name(net::held_place place) {
  return std::string(connection_prefix) + std::to_string(place.slot) + "-" + std::to_string(place.serial);
}

std::optional<net::held_place> stored_place(std::string_view name) {
  if (!name.starts_with(connection_prefix)) return std::nullopt;
  name.remove_prefix(connection_prefix.size());
  net::held_place out;
  if (!take_number(name, out.slot) || !name.starts_with('-')) return std::nullopt;
  name.remove_prefix(1);
  if (!take_number(name, out.serial) || !name.empty()) return std::nullopt;
  if (out.slot >= net::held_sockets_max || out.serial == 0) return std::nullopt;
  return out;
}

stored_state sort_stored(std::vector<stored_descriptor> passed, const std::string& host, std::uint16_t port) {
  stored_state out;
  for (stored_descriptor& one : passed) {
    if (!take(out, one, host, port)) out.refused.push_back(one.name);
  }
  if (out.journal) return out;
  for (const auto& [place, socket] : out.connections) out.refused.push_back(stored_name(place));
  out.connections.clear();
  return out;
}

}  // namespace orcd::app
