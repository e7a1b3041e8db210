// The positions in a program that a text may have led to: each is a state and the stack of calls that it is
// in, and the set of them is a configuration. Configurations are numbered and their transitions kept, so that
// a walk over a vocabulary costs one look-up for each byte. Stacks share their tails and are numbered too.
// One thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/grammar/program.hpp"

namespace orcd::engine::grammar {

using stack_id = std::uint32_t;
using config_id = std::uint32_t;

/// The empty stack.
inline constexpr stack_id bottom = 0;
inline constexpr stack_id no_stack = ~0U;
/// The text has left the grammar, or there was no memory for its configuration (is_spent).
inline constexpr config_id dead = 0;

struct thread {
  state_id state = 0;
  stack_id stack = bottom;
  auto operator<=>(const thread&) const = default;
};

/// One pending call. The counts are the bounds of the string that is being read, if the caller set any.
struct stack_frame {
  state_id to = 0;
  std::uint32_t least = 0;
  std::uint32_t most = unbounded;
  stack_id below = bottom;
  bool operator==(const stack_frame&) const = default;
};

class configurations {
 public:
  /// Beyond this many configurations the numbers are reused, once a walk over a vocabulary is done.
  static constexpr std::size_t configs_max = 2'048;
  static constexpr std::size_t frames_max = 32'768;
  static constexpr std::size_t kept_bytes_max = 3U << 20U;
  /// Beyond this many bytes nothing new is kept, even during a walk: where it would lead counts as dead.
  static constexpr std::size_t bytes_max = 12U << 20U;
  /// The most positions of one configuration. Beyond it the last ones are dropped; each one that is kept can
  /// reach the end.
  static constexpr std::size_t threads_max = 256;

  explicit configurations(const program& grammar);
  /// Of the same program; numbers mean the same in both. What is known already is shared until either learns
  /// more of it, so that a copy takes a fraction of the time of a step (both must stay on one thread).
  configurations(const configurations& other);
  configurations& operator=(const configurations&) = delete;

  [[nodiscard]] config_id start();
  [[nodiscard]] config_id step(config_id from, unsigned char byte) {
    const std::uint32_t known = (*next_[from])[byte];
    return known != unknown ? known : find_step(from, byte);
  }
  [[nodiscard]] config_id run(config_id from, std::string_view bytes);
  /// The configuration after the rule on top of `stack` has ended.
  [[nodiscard]] config_id ended(stack_id stack);
  /// A configuration of exactly these positions, which are sorted, without following calls.
  [[nodiscard]] config_id of(std::vector<thread> threads, bool accepting);

  [[nodiscard]] const std::vector<thread>& threads(config_id id) const noexcept {
    return configs_[id]->threads;
  }
  [[nodiscard]] bool accepting(config_id id) const noexcept { return configs_[id]->accepting; }
  [[nodiscard]] const stack_frame& frame(stack_id stack) const noexcept { return frames_[stack].frame; }

  /// Positions followed so far: a measure of time.
  [[nodiscard]] std::uint64_t work() const noexcept { return work_; }
  [[nodiscard]] std::size_t size() const noexcept { return configs_.size(); }
  [[nodiscard]] bool is_full() const noexcept {
    return configs_.size() > configs_max || frames_.size() > frames_max || bytes_ > kept_bytes_max;
  }
  /// Whether something was not kept for lack of memory since the last forget_all_but().
  [[nodiscard]] bool is_spent() const noexcept { return spent_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// Forgets all configurations but one and returns its new number.
  [[nodiscard]] config_id forget_all_but(config_id kept);

 private:
  static constexpr std::uint32_t unknown = ~0U;
  struct held_frame {
    stack_frame frame;
    std::uint32_t depth = 0;
  };
  struct config {
    std::vector<thread> threads;
    bool accepting = false;
  };
  using row = std::array<std::uint32_t, 256>;
  /// The positions seen so far of the configuration that is being made.
  class thread_set {
   public:
    /// Adds a position; false when it was in the set already.
    bool insert(const thread& t) noexcept;
    void clear() noexcept;
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

   private:
    static constexpr std::size_t slots = 4'096;
    static_assert(slots >= 4 * (4 * threads_max));
    struct slot {
      thread what;
      std::uint32_t round = 0;
    };
    std::vector<slot> slots_ = std::vector<slot>(slots);
    std::uint32_t round_ = 1;
    std::size_t size_ = 0;
  };
  /// Numbers by hash, with open addressing. One block of memory, so that it is copied at once.
  class number_table {
   public:
    /// The number of this hash for which `is_it` holds; unknown if there is none.
    template <class Is>
    [[nodiscard]] std::uint32_t find(std::size_t hash, const Is& is_it) const;
    /// Of a number that is not in the table.
    void insert(std::size_t hash, std::uint32_t number);
    void clear() noexcept;

   private:
    struct slot {
      std::uint32_t hash = 0;
      std::uint32_t number = unknown;
    };
    void place(const slot& what) noexcept;
    static constexpr std::size_t slots_min = 64;
    std::vector<slot> slots_ = std::vector<slot>(slots_min);
    std::size_t size_ = 0;
  };

  void clear();
  /// Counts `bytes` more; false when they may not be kept.
  [[nodiscard]] bool take(std::size_t bytes) noexcept;
  /// Pushes a frame; no_stack when there is no memory for it.
  [[nodiscard]] stack_id push(const stack_frame& frame);
  [[nodiscard]] config_id find_step(config_id from, unsigned char byte);
  void follow(thread from);
  [[nodiscard]] config_id followed();

  const program& program_;
  std::vector<held_frame> frames_;
  number_table frame_ids_;
  std::vector<std::shared_ptr<const config>> configs_;
  std::vector<std::shared_ptr<row>> next_;  ///< a row that a copy has, too, is not written to
  number_table config_ids_;
  // Scratch for the configuration that is being made.
  std::vector<thread> open_, found_;
  thread_set seen_;
  bool found_end_ = false;
  std::uint64_t work_ = 0;
  std::size_t bytes_ = 0;
  bool spent_ = false;
};

}  // namespace orcd::engine::grammar
