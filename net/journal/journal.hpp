// The journal of client connections: what a successor needs to go on with them where a dead engine stopped.
// It lies in shared memory that outlives the engine; it never touches a disk.
//
// Three rules make it exact. Bytes and facts come first, one store that makes them hold second, the socket
// third. Bytes from the client are received straight into it, so that what has left the kernel is here, even
// if its number is not. And nothing says "written": the kernel's own counters of the socket do
// (socket_counters.hpp).
//
// One engine writes at a time, on its io thread. Every length and index that is read from it is checked,
// because an engine that died by a fault of its own may have left anything: a spoilt record ends its
// connection.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/base/error.hpp"
#include "net/journal/answer_identity.hpp"
#include "net/journal/layout.hpp"

namespace orcd::net {

/// Places for connections; the holder's table has as many.
inline constexpr std::uint32_t journal_records = journal_layout::places;

/// An engine, as far as the next one has to know who began with a request.
struct journal_engine {
  std::uint64_t parts = 0;  ///< number_of() the parts of its answer_identity
  weights_identity weights{};
  std::uint64_t fingerprint = 0;  ///< the digits of its system_fingerprint, which its answers have
};

class journal {
 public:
  /// Bytes of a journal of this many MiB, header and records included.
  [[nodiscard]] static std::size_t bytes_of(std::uint32_t mebibytes) noexcept;
  /// Makes a new journal in memory that is all zero. The holder does, once.
  static void format(std::span<std::byte> memory);

  /// Maps the journal behind a descriptor, which stays the caller's, and writes a spoilt copy of its head
  /// again. Errors: worker_start_failed, where it is no journal or one of another layout; look_at_head()
  /// tells which.
  [[nodiscard]] static engine::result<journal> map(int descriptor);
  /// Uses memory that outlives it, as tests do. Errors: as map().
  [[nodiscard]] static engine::result<journal> over(std::span<std::byte> memory);
  ~journal();
  journal(journal&& other) noexcept;
  journal& operator=(journal&&) = delete;
  journal(const journal&) = delete;
  journal& operator=(const journal&) = delete;

  /// Whether this engine has a record of that place, whose connection has not ended yet.
  [[nodiscard]] bool is_in_use(std::uint32_t slot) const { return in_use_[slot]; }
  /// Frees the record of a connection that is gone, whatever is in it.
  void forget(std::uint32_t slot);
  /// Frees all records but those of these places.
  void keep_only(const std::vector<bool>& slots);

  [[nodiscard]] std::uint32_t blocks() const noexcept { return blocks_; }
  /// From now on another engine may have it: records write and free nothing any more. `in_order`: this
  /// engine is well and ends nothing, so that it does not count as one that died.
  void leave(bool in_order) noexcept;
  /// Any thread.
  [[nodiscard]] bool is_left() const noexcept { return *left_; }
  /// Whether the engine before left in order; asked once, before anything else may go wrong.
  [[nodiscard]] bool take_in_order() noexcept { return marks().in_order.exchange(0) == 1; }
  /// Notes this engine, before it begins with requests. The number that they have as their `maker`: the same
  /// for engines of which all but the digest is the same.
  std::uint64_t enter(const journal_engine& engine);
  /// The digest of its weights is known.
  void know_digest(std::uint64_t maker, std::uint64_t digest) noexcept;
  /// Nullopt for one that was not noted, or so long ago that its entry is another's.
  [[nodiscard]] std::optional<journal_engine> engine_of(std::uint64_t maker) const noexcept;
  /// Whether the request of that place only waits for its turn: if the engine dies, it had no part in it. Any
  /// thread.
  void set_waits(std::uint32_t slot, bool waits) noexcept;
  [[nodiscard]] bool waits(std::uint32_t slot) const noexcept;
  /// The request of that place runs by itself, so that whatever happens is by it; or no longer does. Any
  /// thread.
  void set_alone(std::uint32_t slot, bool alone) noexcept;
  /// Which request ran so when the engine before died.
  [[nodiscard]] std::optional<std::uint32_t> take_alone() noexcept;
  /// Connections that were given up because it was full, since it was opened.
  [[nodiscard]] std::uint64_t given_up() const noexcept { return given_up_; }
  [[nodiscard]] std::uint32_t blocks_free() const noexcept {
    return static_cast<std::uint32_t>(free_.size());
  }

 private:
  friend class journal_record;
  friend class chain_reader;
  using record = journal_layout::record;

  journal(std::span<std::byte> memory, bool mapped);
  /// Finds the blocks that no record uses. A block that two chains share, a chain that is broken or a sum
  /// that is wrong spoils the records: their connections end.
  void find_free_blocks();
  /// Entries of engines that are not what their key says are nobody's.
  void free_spoilt_engines();
  /// Counts the owners of each block, up to two; false where a chain is broken or too short.
  bool count_blocks(const record& r, std::vector<std::uint8_t>& owners) const;
  bool count_chain(std::uint32_t first, std::uint64_t bytes, std::vector<std::uint8_t>& owners) const;
  [[nodiscard]] bool shares_blocks(const record& r, const std::vector<std::uint8_t>& owners) const;

  [[nodiscard]] journal_layout::marks& marks() const noexcept;
  [[nodiscard]] journal_layout::engines& engines() const noexcept;
  [[nodiscard]] journal_layout::engine_entry* find_engine(std::uint64_t maker) const noexcept;
  [[nodiscard]] record& at(std::uint32_t slot) const noexcept;
  /// What holds of a record that is kept; null where it is spoilt.
  [[nodiscard]] static const journal_layout::state* holding(const record& r) noexcept {
    return journal_layout::holding(r, r.serial.load(std::memory_order_acquire));
  }
  [[nodiscard]] std::uint32_t& next_of(std::uint32_t block) const noexcept;
  [[nodiscard]] std::span<std::byte> block(std::uint32_t index) const noexcept;
  /// A free block that ends a chain, or no_block.
  [[nodiscard]] std::uint32_t take_block();
  /// Gives back a whole chain of the writer's own.
  void free_chain(std::uint32_t head) noexcept;

  std::span<std::byte> memory_;
  bool mapped_;
  std::uint32_t blocks_ = 0;
  std::vector<std::uint32_t> free_;
  std::uint64_t given_up_ = 0;
  std::unique_ptr<std::atomic<bool>> left_ = std::make_unique<std::atomic<bool>>(false);
  std::vector<bool> in_use_ = std::vector<bool>(journal_records, false);  ///< by a record of this engine
};

}  // namespace orcd::net
