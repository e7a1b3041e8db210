// Where a text stands in a program: all positions that its bytes may have led to, each a state and the stack
// of calls it is in. Configurations are numbered and their transitions kept, so that a walk over a vocabulary
// costs one look-up for each byte. Stacks share their tails and are numbered too. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/grammar/program.hpp"

namespace orcd::engine::grammar {

using stack_id = std::uint32_t;
using config_id = std::uint32_t;

/// The caller's end: nothing is below.
inline constexpr stack_id bottom = 0;
/// The text has left the grammar.
inline constexpr config_id dead = 0;

struct thread {
  state_id state = 0;
  stack_id stack = bottom;
  auto operator<=>(const thread&) const = default;
};

/// One pending call. The counts are those of the string it is in, if it called one.
struct stack_frame {
  state_id to = 0;
  std::uint32_t least = 0;
  std::uint32_t most = unbounded;
  stack_id below = bottom;
  bool operator==(const stack_frame&) const = default;
};

class configurations {
 public:
  /// A walk over a vocabulary is done with what there is; then the numbers are given back.
  static constexpr std::size_t configs_max = 2'048;
  static constexpr std::size_t frames_max = 32'768;
  /// What may be followed in parallel. Beyond it the last ones are dropped; each that is left can end.
  static constexpr std::size_t threads_max = 256;

  explicit configurations(const program& grammar);

  [[nodiscard]] config_id start();
  [[nodiscard]] config_id step(config_id from, unsigned char byte) {
    const std::uint32_t known = next_[from][byte];
    return known != unknown ? known : find_step(from, byte);
  }
  [[nodiscard]] config_id run(config_id from, std::string_view bytes);
  /// After the rule that runs on top of `stack` has ended.
  [[nodiscard]] config_id ended(stack_id stack);
  /// Exactly these, sorted, without following calls.
  [[nodiscard]] config_id of(std::vector<thread> threads, bool accepting);

  [[nodiscard]] const std::vector<thread>& threads(config_id config) const noexcept {
    return configs_[config].threads;
  }
  [[nodiscard]] bool accepting(config_id config) const noexcept { return configs_[config].accepting; }
  [[nodiscard]] const stack_frame& frame(stack_id stack) const noexcept { return frames_[stack].frame; }

  /// Positions followed so far, a measure of time.
  [[nodiscard]] std::uint64_t work() const noexcept { return work_; }
  [[nodiscard]] std::size_t size() const noexcept { return configs_.size(); }
  [[nodiscard]] bool is_full() const noexcept {
    return configs_.size() > configs_max || frames_.size() > frames_max;
  }
  /// Forgets all but one configuration and gives its new number.
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
  struct frame_hash {
    std::size_t operator()(const stack_frame& f) const noexcept;
  };

  void clear();
  [[nodiscard]] stack_id push(const stack_frame& frame);
  [[nodiscard]] config_id find_step(config_id from, unsigned char byte);
  void follow(thread from);
  [[nodiscard]] config_id followed();

  const program& program_;
  std::vector<held_frame> frames_;
  std::unordered_map<stack_frame, stack_id, frame_hash> frame_ids_;
  std::vector<config> configs_;
  std::vector<std::array<std::uint32_t, 256>> next_;
  std::unordered_multimap<std::size_t, config_id> config_ids_;
  // Of the configuration being made.
  std::vector<thread> open_, seen_, found_;
  bool found_end_ = false;
  std::uint64_t work_ = 0;
};

}  // namespace orcd::engine::grammar
