// Which job has which slot. Private to engine/schedule; the scheduler's thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/schedule/sequence.hpp"

namespace orcd::engine {

class slot_table {
 public:
  explicit slot_table(std::uint32_t slots) : jobs_(slots) {}

  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(jobs_.size()); }
  [[nodiscard]] std::uint32_t running() const noexcept { return running_; }  ///< slots in use
  /// Jobs that got a slot so far, each as often as it did.
  [[nodiscard]] std::uint64_t admissions() const noexcept { return admissions_; }
  /// By slot id; null where the slot is free.
  [[nodiscard]] const std::vector<std::unique_ptr<sequence>>& jobs() const noexcept { return jobs_; }
  [[nodiscard]] const std::unique_ptr<sequence>& operator[](std::uint32_t slot) const noexcept {
    return jobs_[slot];
  }
  /// The job that got the slot with this admission; null when it has it no more.
  [[nodiscard]] sequence* find(std::uint32_t slot, std::uint64_t admission) const noexcept;
  [[nodiscard]] bool has_suspect() const noexcept;
  [[nodiscard]] bool has_adapters() const noexcept;
  /// Positions that the accelerator holds, or will after the steps in progress, for all jobs.
  [[nodiscard]] std::uint64_t positions() const noexcept;

  /// The job starts in a slot that is free.
  sequence& put(std::uint32_t slot, std::unique_ptr<sequence> job, steady_time now);
  /// Frees a slot that is in use. The job is told nothing.
  [[nodiscard]] std::unique_ptr<sequence> take(std::uint32_t slot);

 private:
  std::vector<std::unique_ptr<sequence>> jobs_;
  std::uint32_t running_ = 0;
  std::uint64_t admissions_ = 0;
};

}  // namespace orcd::engine
