#include "app/worker/hand_over_role.hpp"

#include <utility>

namespace orcd::app {

using boost::system::error_code;
using engine::errc;
using engine::error;
using engine::result;
using engine::severity;
using net::failover_state;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds rest_interval{5};
constexpr milliseconds decision_interval{500};
constexpr milliseconds recovery_interval{20};
constexpr std::chrono::seconds recovery_limit{10};

}  // namespace

hand_over_role::hand_over_role(boost::asio::io_context& io, std::uint32_t self, engine::narrator& narrator,
                               hooks asked)
    : self_(self), narrator_(narrator), asked_(std::move(asked)), timer_(io) {}

std::optional<std::string> hand_over_role::problem() const {
  return hand_over_problem(leaving_facts{asked_.state(), serving_ && !asked_.ending(),
                                         asked_.holder_has_sockets(), asked_.unkept()});
}

bool hand_over_role::is_yielding() const {
  return !asked_.ending() && asked_.state() == failover_state::yielding;
}

void hand_over_role::request(told_function told) {
  if (asks_) return told(error(errc::not_ready, "the engine is about to hand over"));
  if (const auto why = problem()) return refuse(*why, told);
  asks_ = true;
  asked_.ask([this, told = std::move(told)](const std::optional<net::report_frame>& report) {
    if (const auto why = problem()) return refuse(*why, told);
    if (const auto why = hand_over_problem(report)) return refuse(*why, told);
    asks_ = false;
    told_ = told;
    asked_.step(net::cycle_event::hand_over);
  });
}

void hand_over_role::refuse(const std::string& why, const told_function& told) {
  asks_ = false;
  const auto end = std::exchange(stop_, nullptr);
  if (end) {
    narrator_.narrate(severity::info, "stop_drains", "No other engine takes over: " + why);
  } else {
    narrator_.narrate(severity::warning, "hand_over_refused", "The engine goes on: " + why);
  }
  told(error(errc::not_ready, why));
  if (end) end();
}

void hand_over_role::leave() {
  serving_ = false;
  asked_.leave_connections();
  asked_.end_jobs([this] { give_role_up(); });
}

void hand_over_role::give_role_up() {
  if (!is_yielding()) return;
  asked_.give_lock_up();
  left_at_ = clock::now();
  asked_.asleep();
  await_rest();
}

void hand_over_role::await_rest() {
  asked_.ask([this](const std::optional<net::report_frame>& report) {
    if (!is_yielding()) return;
    on_rest(decide(rest_facts{report, self_, asked_.sessions() == 0, clock::now() - left_at_}));
  });
}

void hand_over_role::on_rest(rest_turn turn) {
  switch (turn) {
    case rest_turn::followed: return stand_by_again(true);
    case rest_turn::alone: return stand_by_again(false);
    case rest_turn::stuck: return asked_.fail({errc::internal, "sessions have not ended after a hand-over"});
    case rest_turn::look_again: break;
  }
  timer_.expires_after(rest_interval);
  timer_.async_wait([this](error_code failed) {
    if (!failed) await_rest();
  });
}

void hand_over_role::stand_by_again(bool followed) {
  const auto told = std::exchange(told_, nullptr);
  if (followed && stop_) {
    if (told) told({});
    return end_now();
  }
  asked_.step(net::cycle_event::left);
  if (stop_) stop_when_decided();
  if (!told) return;
  if (followed) return told({});
  told(error(errc::not_ready, "no other engine has come to serve"));
}

void hand_over_role::stop(std::function<void()> carry_out) {
  if (stop_) {
    // It counts when the first one is carried out; meanwhile the guard sees to one who asks again.
    stop_ = [first = std::move(stop_), carry_out = std::move(carry_out)] {
      first();
      carry_out();
    };
    return;
  }
  const bool hands_over = asks_ || asked_.state() == failover_state::yielding;
  if (asked_.ending() || (!hands_over && problem())) return carry_out();
  asked_.allow_stop();
  stop_ = std::move(carry_out);
  if (!hands_over) request([](const result<void>&) {});
}

void hand_over_role::end_now() {
  if (const auto end = std::exchange(stop_, nullptr)) end();
}

/// Nobody has followed this engine, which asks for the lock again. With it, it serves and drains; if another
/// one serves after all, it just ends.
void hand_over_role::stop_when_decided() {
  timer_.expires_after(decision_interval);
  timer_.async_wait([this](error_code failed) {
    if (failed || asked_.state() != failover_state::standby) return;
    asked_.ask([this](const std::optional<net::report_frame>& report) {
      if (asked_.state() != failover_state::standby) return;
      if (!was_followed(report, self_)) return stop_when_decided();
      end_now();
    });
  });
}

void hand_over_role::note_serving() {
  serving_ = true;
  stop_when_recovered();
}

/// It serves again, and what it goes on with counts as running once it is prepared: a drain that began before
/// would find nothing to wait for.
void hand_over_role::stop_when_recovered() {
  if (!stop_) return;
  timer_.expires_after(recovery_interval);
  timer_.async_wait([this](error_code failed) {
    if (failed) return;
    const bool late = asked_.lock_held_for() > recovery_limit;
    if (asked_.recovering() > 0 && !late) return stop_when_recovered();
    end_now();
  });
}

}  // namespace orcd::app
