// Which pages of a sequence layers with a sliding window need. A window of W positions: a token at position p
// reads what is cached of [p - W + 1, p]. Pages have `size` positions each, and are named by their index in
// the sequence: page i has positions [i * size, (i + 1) * size). Numbers alone.
#pragma once

#include <algorithm>
#include <cstdint>

namespace orcd::engine {

/// Pages [first, end).
struct page_span {
  std::uint32_t first = 0;
  std::uint32_t end = 0;
  [[nodiscard]] constexpr std::uint32_t count() const noexcept { return end - first; }
  friend constexpr bool operator==(const page_span&, const page_span&) = default;
};

/// Pages that have something of the first so many positions.
[[nodiscard]] constexpr std::uint32_t pages_over(std::uint32_t positions, std::uint32_t size) noexcept {
  return positions / size + (positions % size == 0 ? 0 : 1);
}

/// Pages that a sequence needs to go on at `position`: those of [position - W + 1, position). `window`: 2 at
/// least, as below.
[[nodiscard]] constexpr page_span pages_before(std::uint32_t position, std::uint32_t window,
                                               std::uint32_t size) noexcept {
  return {(position - std::min(position, window - 1)) / size, pages_over(position, size)};
}

/// The most of them, wherever the position is.
[[nodiscard]] constexpr std::uint32_t pages_before_max(std::uint32_t window, std::uint32_t size) noexcept {
  return pages_over(window - 1, size) + 1;
}

/// The first page that a running sequence keeps once the first `computed` positions are known to be computed:
/// it can go on from there, and from the beginning of that position's page, where boundaries may still be
/// made and which costs no page more.
[[nodiscard]] constexpr std::uint32_t first_page_kept(std::uint32_t computed, std::uint32_t window,
                                                      std::uint32_t size) noexcept {
  return pages_before(computed / size * size, window, size).first;
}

/// What steps may do that are launched and not collected.
struct steps_ahead {
  std::uint32_t depth = 1;         ///< of them
  std::uint32_t chunk_tokens = 1;  ///< prompt tokens of one, of all sequences together
  std::uint32_t drafts = 0;        ///< that one sequence may bring to a step; nothing is launched behind them
};

/// Pages that `slots` sequences hold at most of a window, all together: each from first_page_kept() to the
/// last position that is launched. A sequence that is a positions ahead holds pages_before_max() and
/// ceil((a - 1) / size) at most, which is less than 1 + (a - 2) / size; of all a together, prompts have
/// depth * chunk_tokens, and each sequence beside that what it decodes.
[[nodiscard]] constexpr std::uint64_t windowed_pages_max(std::uint32_t slots, std::uint32_t window,
                                                         std::uint32_t size,
                                                         const steps_ahead& ahead) noexcept {
  const std::uint64_t decoded = std::max(ahead.depth, ahead.drafts + 1);
  const std::uint64_t prompts = std::uint64_t{ahead.depth} * ahead.chunk_tokens;
  const std::uint64_t beyond = (prompts + slots * (decoded - std::min<std::uint64_t>(decoded, 2))) / size;
  return std::uint64_t{slots} * (pages_before_max(window, size) + 1) + beyond;
}

/// Positions between two boundaries that are made for no other reason: whole pages, so many that the windowed
/// pages of one (`boundary_bytes`) take a quarter of the bytes that the layers without a window have between
/// them (`page_bytes` a page). 0: those have none.
[[nodiscard]] constexpr std::uint32_t boundary_spacing(std::uint64_t boundary_bytes, std::uint64_t page_bytes,
                                                       std::uint32_t size) noexcept {
  if (page_bytes == 0) return 0;
  const std::uint64_t pages = std::max<std::uint64_t>(1, (4 * boundary_bytes + page_bytes - 1) / page_bytes);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(pages, 0x7FFF'FFFF / size)) * size;
}

}  // namespace orcd::engine
