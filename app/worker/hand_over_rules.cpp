#include "app/worker/hand_over_rules.hpp"

#include "app/identity/answer_parts.hpp"

namespace orcd::app {

std::optional<std::string> hand_over_problem(const leaving_facts& facts) {
  if (facts.state != net::failover_state::active) {
    return "the engine is " + std::string(to_string(facts.state));
  }
  if (!facts.takes_requests) return "the engine does not take requests";
  if (!facts.holder_has_sockets) return "there is no holder that has the connections";
  if (facts.unkept > 0) {
    return std::to_string(facts.unkept) + " connections would be lost: the journal had no room for them";
  }
  return std::nullopt;
}

std::optional<std::string> hand_over_problem(const std::optional<net::report_frame>& report) {
  if (!report) return "the holder does not answer";
  const std::string differs =
      report->others > 0 ? ": one differs in " + name_of_part(report->differs) : std::string();
  if (report->standbys == 0) {
    return "no engine stands by that would answer as this one does" + differs;
  }
  // Whichever asks first gets the lock.
  if (report->others > 0) {
    return "an engine stands by that would answer otherwise, and could be the next" + differs;
  }
  return std::nullopt;
}

bool is_another(std::uint32_t active, std::uint32_t self) noexcept {
  return active != net::no_engine && active != self;
}

bool was_followed(const std::optional<net::report_frame>& report, std::uint32_t self) noexcept {
  return report && is_another(report->active, self) && report->settled;
}

rest_turn decide(const rest_facts& facts) noexcept {
  const auto& report = facts.report;
  // The one that stood by has ended, or is about to.
  const bool alone = report && !is_another(report->active, facts.self) && report->standbys == 0;
  const bool followed = was_followed(report, facts.self);
  if (facts.rests && followed) return rest_turn::followed;
  if (facts.rests && (alone || facts.waited > follow_limit)) return rest_turn::alone;
  return facts.waited > rest_limit ? rest_turn::stuck : rest_turn::look_again;
}

}  // namespace orcd::app
