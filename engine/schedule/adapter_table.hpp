// Which LoRA adapters the accelerator has and which jobs use them. A job holds what it uses from its
// submission to its end; an adapter that is dropped meanwhile takes no new jobs, and its room is free when
// the last of them ends. GPU thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/schedule/job.hpp"

namespace orcd::engine {

class adapter_table {
 public:
  struct entry {
    std::string digest;       ///< empty: nothing is there
    std::uint32_t users = 0;  ///< jobs
    bool leaving = false;     ///< dropped while jobs use it
    bool in_device = false;   ///< the accelerator still has it
  };
  /// A job's hold on what it uses; let go by its destruction.
  using hold = std::shared_ptr<const std::vector<active_adapter>>;

  /// By index, up to the highest that was ever put.
  [[nodiscard]] const std::vector<entry>& entries() const noexcept { return *entries_; }

  /// Whether no job uses what is at the index.
  [[nodiscard]] bool is_free(std::uint32_t index) const noexcept {
    return index >= entries_->size() || (*entries_)[index].users == 0;
  }
  /// An error (not_ready) if it is not free.
  [[nodiscard]] result<void> check_free(std::uint32_t index) const;
  /// The accelerator overwrites what is there, which no job uses.
  void forget(std::uint32_t index) noexcept;
  /// The accelerator has it.
  void put(std::uint32_t index, std::string digest);
  /// No new job gets it. Unknown indices are ignored.
  void drop(std::uint32_t index) noexcept;
  /// The next index that was dropped, that no job uses any more, and that was not told before. Never fails.
  [[nodiscard]] std::optional<std::uint32_t> take_unused() noexcept;

  /// What the job applies, in an order that its content alone decides, so that the order in a request and the
  /// places in this process change no bit; null if that is nothing. Errors: not_found, of an adapter that is
  /// not there (any more); invalid_request, of a list that is too long, of one twice, of a strength that is
  /// no number.
  [[nodiscard]] result<hold> take(std::span<const job_adapter> wanted);

 private:
  [[nodiscard]] result<void> check(std::span<const job_adapter> wanted) const;

  // Shared with the holds, which may outlive the table.
  std::shared_ptr<std::vector<entry>> entries_ = std::make_shared<std::vector<entry>>();
};

/// The salt of the cache for jobs with `salt` and these adapters: equal only for equal salts, and equal
/// digests and strengths of those that are applied. At most 65 bytes longer, for any number of adapters.
[[nodiscard]] std::string salt_with_adapters(const std::string& salt, std::span<const job_adapter> adapters);

}  // namespace orcd::engine
