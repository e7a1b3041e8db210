// Which blocks of the accelerator's room for media hold which medium. A medium stays after its last job until
// the blocks are needed, least recently used first, so that the tower is spared when it comes again. GPU
// thread only.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace orcd::engine {

/// One medium's rows. Whoever holds it keeps it in its blocks.
struct stored_medium {
  std::string digest;
  std::vector<std::uint32_t> blocks;
  bool ready = false;  ///< its rows are there
};

struct media_counts {
  std::uint64_t hits = 0;     ///< media that were there
  std::uint64_t encoded = 0;  ///< media that went through the tower
  double encode_seconds = 0;  ///< that the tower ran, by the clock
  std::uint32_t stored = 0;   ///< now
};

class media_store {
 public:
  explicit media_store(std::uint32_t blocks);

  /// The medium with this digest, of `rows` rows; one that is new is not ready. Null while others hold too
  /// many blocks.
  [[nodiscard]] std::shared_ptr<stored_medium> take(std::string_view digest, std::uint32_t rows);
  /// Forgets those that are not ready and held by nobody.
  void drop_unfinished() noexcept;
  /// Whether the rows would fit an empty store.
  [[nodiscard]] bool can_hold(std::uint32_t rows) const noexcept;
  void note_encoded() noexcept { ++counts_.encoded; }
  [[nodiscard]] media_counts counts() const noexcept;

 private:
  [[nodiscard]] static std::uint32_t blocks_of(std::uint32_t rows) noexcept;
  bool make_room(std::uint32_t blocks);

  const std::uint32_t size_;
  std::vector<std::uint32_t> free_;
  std::list<std::shared_ptr<stored_medium>> media_;  ///< least recently used first
  media_counts counts_;
};

}  // namespace orcd::engine
