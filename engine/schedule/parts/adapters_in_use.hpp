// The LoRA adapters of jobs: which the accelerator has, which is on its way there, and which jobs hold them.
// Private to engine/schedule; the scheduler's thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/accelerator.hpp"
#include "engine/schedule/adapter_table.hpp"

namespace orcd::engine {

class adapters_in_use {
 public:
  explicit adapters_in_use(accelerator& target) : accelerator_(target) {}

  [[nodiscard]] const adapter_table& table() const noexcept { return table_; }
  /// What the job applies, held until it ends; makes that part of its cache's salt. Errors: invalid_request,
  /// of a pooled job; those of adapter_table::take().
  [[nodiscard]] result<adapter_table::hold> take(job_request& request);

  /// Begins to put an adapter where no job uses one, in place of one that is on its way; and does the next
  /// part: null while there is more to do. Errors: as scheduler::begin_adapter() has them. Throws the
  /// accelerator_failure of its calls: then no job gets what is at the index.
  [[nodiscard]] result<void> begin(std::uint32_t index, const lora_adapter& adapter);
  [[nodiscard]] std::optional<result<void>> go_on();
  /// No later job gets the adapter, and one that is on its way will not be there. Returns whether its room is
  /// free.
  bool drop(std::uint32_t index) noexcept;
  /// The accelerator forgets what was dropped and no job uses any more.
  void forget_unused() noexcept;

 private:
  /// An adapter on its way.
  struct put {
    std::uint32_t index = 0;
    std::string digest;
    bool dropped = false;
  };
  void give_up(std::uint32_t index) noexcept;

  accelerator& accelerator_;
  adapter_table table_;
  std::optional<put> put_;
};

}  // namespace orcd::engine
