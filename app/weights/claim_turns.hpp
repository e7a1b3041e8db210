// How an engine comes to its weights at the holder's socket, as decisions of facts. Pure; weights_share asks
// for the facts and does what is decided.
#pragma once

#include <algorithm>
#include <chrono>

namespace orcd::app {

/// How long an engine that could load the weights waits for one that lives to offer what it has mapped. Each
/// looks for the next holder every 100 ms.
inline constexpr std::chrono::milliseconds offer_limit{5'000};

struct claim_facts {
  bool may_write = false;    ///< engine 0
  bool others_live = false;  ///< another engine has the failover lock
  bool there = false;        ///< the holder has weights, or somebody writes them
  std::chrono::milliseconds waited{0};
};
enum class claim_turn {
  read,           ///< asks to read, and waits
  write_or_read,  ///< asks to write if nobody has
  look_again,     ///< a little later
};
/// Of a holder that has just been started nothing can be had yet, although an engine that lives may have the
/// weights: loading them would make a second copy, which may not fit.
[[nodiscard]] constexpr claim_turn decide(const claim_facts& facts) noexcept {
  if (!facts.may_write) return claim_turn::read;
  const bool may_come = facts.others_live && !facts.there && facts.waited < offer_limit;
  return may_come ? claim_turn::look_again : claim_turn::write_or_read;
}

/// The holder has weights that are not this engine's.
struct stale_facts {
  bool may_write = false;      ///< engine 0
  bool must_share = false;     ///< --share-weights require
  unsigned other_readers = 0;  ///< engines that use what is there
};
enum class stale_turn {
  refuse,    ///< the engine ends: another one is to write
  replace,   ///< asks to write, and waits until nobody reads
  load_own,  ///< has a copy of its own until nobody reads what is there, and passes that on then
};
[[nodiscard]] constexpr stale_turn decide(const stale_facts& facts) noexcept {
  if (!facts.may_write) return stale_turn::refuse;
  return facts.other_readers > 0 && !facts.must_share ? stale_turn::load_own : stale_turn::replace;
}

/// The pause before the weights are offered again. A holder that is there and has not taken them is not asked
/// as often as one is looked for; `before` is the pause before.
[[nodiscard]] constexpr std::chrono::milliseconds next_offer(bool was_there,
                                                             std::chrono::milliseconds before) noexcept {
  constexpr std::chrono::milliseconds shortest{100};
  constexpr std::chrono::milliseconds longest{10'000};
  return was_there ? std::clamp(before * 2, shortest, longest) : shortest;
}

}  // namespace orcd::app
