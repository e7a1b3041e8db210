// Notes in the journal when a request's jobs run, so that only those count as the reason of an engine's end
// that did. One that was preempted still counts: steps of it may be on the device when it leaves
// its slot. Private to net/.
#pragma once

#include <cstdint>

#include "engine/schedule/job.hpp"
#include "net/journal/journal_record.hpp"

namespace orcd::net {

/// The journal must outlive the job.
class job_turn final : public engine::slot_watch {
 public:
  job_turn(const journal_record& of, bool alone) : journal_(of.owner()), slot_(of.slot()), alone_(alone) {}

  void begins() noexcept override {
    if (journal_.is_left()) return;
    if (alone_) journal_.set_alone(slot_, true);
    journal_.set_waits(slot_, false);
  }
  void ends() noexcept override {
    if (alone_ && !journal_.is_left()) journal_.set_alone(slot_, false);
  }

 private:
  journal& journal_;
  const std::uint32_t slot_;
  const bool alone_;
};

}  // namespace orcd::net
