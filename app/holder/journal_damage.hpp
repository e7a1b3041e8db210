// What a holder does when an engine says that it cannot read the journal. Pure.
#pragma once

#include "net/journal/head.hpp"
#include "net/journal/socket_counters.hpp"

namespace orcd::app {

enum class journal_fate {
  stays,     ///< it may be in use, or can be read
  replaced,  ///< nobody can read it: a new one, without the connections that are in it
};

/// Who says so, and what the holder itself sees.
struct journal_damage {
  bool is_active = false;    ///< the engine has the lock, so that no other one writes to the journal
  bool is_settled = false;   ///< it serves with this journal, whatever its head is like
  bool is_complete = false;  ///< the holder has the journal and the port
  net::head_state head = net::head_state::whole;
};

[[nodiscard]] constexpr journal_fate fate_of_journal(const journal_damage& what) noexcept {
  const bool by_right = what.is_active && !what.is_settled && what.is_complete;
  return by_right && what.head == net::head_state::damaged ? journal_fate::replaced : journal_fate::stays;
}

/// Whether a connection goes on without the journal that it was in: nobody has read from it or written to it.
[[nodiscard]] constexpr bool needs_no_journal(const net::socket_counters& moved) noexcept {
  return moved.received == 0 && moved.sent == 0;
}

}  // namespace orcd::app
