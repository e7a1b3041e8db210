// One rendering's budget and memory: what every operation of a template takes from. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/chat/template_arena.hpp"
#include "engine/chat/template_limits.hpp"
#include "engine/chat/template_value.hpp"

namespace orcd::engine::jinja {

class context {
 public:
  context(const template_limits& l, std::chrono::system_clock::time_point when)
      : limits(l), now(when), memory(l.memory_bytes), deadline_(clock::now() + l.time) {}

  /// Counts work before it is done; throws when a limit is reached.
  void charge(std::uint64_t steps) {
    steps_ += steps;
    if (steps_ >= next_look_) look();
  }
  void charge_text(std::size_t bytes) { charge(1 + bytes / 64); }
  /// Before `bytes` are added to a text that is being built.
  void charge_growth(const std::string& text, std::size_t bytes) {
    charge_text(bytes);
    if (bytes > limits.memory_bytes || text.size() > limits.memory_bytes - bytes) {
      arena::fail("memory", limits.memory_bytes);
    }
  }

  [[noreturn]] static void fail(std::string text) { throw template_failure(std::move(text)); }

  /// One level of evaluation or of a nested value.
  class deeper {
   public:
    explicit deeper(context& c) : context_(c) {
      if (c.depth_ >= c.limits.depth) c.fail_depth();
      ++c.depth_;
    }
    ~deeper() { --context_.depth_; }
    deeper(const deeper&) = delete;
    deeper& operator=(const deeper&) = delete;

   private:
    context& context_;
  };

  [[nodiscard]] value text(std::string_view bytes) {
    charge_text(bytes.size());
    return make_string(memory.text(bytes));
  }
  [[nodiscard]] value list(std::span<const value> items, list_form form = list_form::list) {
    charge(items.size() / 4);
    return make_value(memory.make<list_data>(memory.copy(items), form));
  }
  [[nodiscard]] value dict(std::span<const dict_entry> entries) {
    charge(entries.size() / 2);
    return make_value(memory.make<dict_data>(memory.copy(entries)));
  }

  const template_limits limits;
  const std::chrono::system_clock::time_point now;
  arena memory;

 private:
  using clock = std::chrono::steady_clock;
  void look();
  [[noreturn]] void fail_depth() const;

  clock::time_point deadline_;
  std::uint64_t steps_ = 0;
  std::uint64_t next_look_ = 0;
  std::uint32_t depth_ = 0;
};

}  // namespace orcd::engine::jinja
