// When one of several engines lets another one serve, and what follows, as decisions of facts. Pure;
// hand_over_role asks for the facts and does what is decided.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "net/failover/engine_cycle.hpp"
#include "net/failover/holder_frames.hpp"

namespace orcd::app {

/// Of an engine that is asked to hand over.
struct leaving_facts {
  net::failover_state state = net::failover_state::init;
  bool takes_requests = false;  ///< whoever wanted to be told that it serves has been, and it is not ending
  bool holder_has_sockets = false;  ///< so that another engine can go on with all connections
  std::size_t unkept = 0;           ///< connections that the journal had no room for
};
/// Why no other engine can serve instead of this one, as far as this one knows; nullopt: one may.
[[nodiscard]] std::optional<std::string> hand_over_problem(const leaving_facts& facts);

/// The same, by what the holder says of the other engines; nullopt for `report`: it does not answer.
[[nodiscard]] std::optional<std::string> hand_over_problem(const std::optional<net::report_frame>& report);

/// Whether the holder knows another engine than `self` that serves.
[[nodiscard]] bool is_another(std::uint32_t active, std::uint32_t self) noexcept;

/// For another engine to serve, before this one asks for the lock again.
inline constexpr std::chrono::seconds follow_limit{5};
/// For sessions to end, of which some wait for a background thread.
inline constexpr std::chrono::seconds rest_limit{90};

/// Of an engine that has given the lock up. It is not asked for again before another engine has it: this one
/// would be the first to get it.
struct rest_facts {
  std::optional<net::report_frame> report{};  ///< nullopt: the holder does not answer
  std::uint32_t self = 0;
  bool rests = false;  ///< nothing of what it did is left here
  std::chrono::nanoseconds waited{0};
};
enum class rest_turn {
  look_again,  ///< a little later
  followed,    ///< another engine serves
  alone,       ///< none does, and none is to be waited for any longer
  stuck,       ///< what it did does not end
};
[[nodiscard]] rest_turn decide(const rest_facts& facts) noexcept;

/// Of an engine that handed over to end, was not followed, and asks for the lock again: whether another one
/// serves after all, so that this one can just end.
[[nodiscard]] bool was_followed(const std::optional<net::report_frame>& report, std::uint32_t self) noexcept;

}  // namespace orcd::app
