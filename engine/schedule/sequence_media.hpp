// A job's media as its steps meet them: which comes next, whether its rows are there, and where a chunk of
// the prompt may end. Private to engine/schedule.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/schedule/job.hpp"
#include "engine/schedule/media_store.hpp"

namespace orcd::engine {

class sequence_media {
 public:
  /// The prompt's media, in order.
  void set(std::vector<job_medium> media) noexcept { media_ = std::move(media); }
  [[nodiscard]] bool empty() const noexcept { return media_.empty(); }

  /// The first medium that reaches beyond `computed` positions; null: there is none.
  [[nodiscard]] const job_medium* next(std::uint32_t computed) const noexcept;
  /// Gives back what is held of another medium than `wanted`.
  void keep(const job_medium* wanted) noexcept;
  /// Holds a medium's rows, ready or not.
  void hold(const job_medium& medium, std::shared_ptr<stored_medium> rows) noexcept;
  [[nodiscard]] const std::shared_ptr<stored_medium>& held() const noexcept { return rows_; }
  [[nodiscard]] const job_medium* held_medium() const noexcept { return medium_; }

  /// Of `tokens` positions from `position` on, so many as a step can have: none of a medium whose rows are
  /// not there, and all or none of rows that see each other, for which there may be up to `most`.
  [[nodiscard]] std::uint32_t fit(std::uint32_t position, std::uint32_t tokens,
                                  std::uint32_t most) const noexcept;
  /// What stands at positions that fit() has allowed; valid until the next call.
  [[nodiscard]] std::span<const media_rows> rows(std::uint32_t position, std::uint32_t tokens);
  /// sequence_step::rotary_shift of a step that begins at `position`.
  [[nodiscard]] std::uint32_t rotary_shift(std::uint32_t position) const noexcept;

 private:
  std::vector<job_medium> media_;
  const job_medium* medium_ = nullptr;  ///< of media_, that rows_ is of
  std::shared_ptr<stored_medium> rows_;
  std::vector<media_rows> parts_;
};

}  // namespace orcd::engine
