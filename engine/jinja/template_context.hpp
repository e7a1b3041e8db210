// The budget and memory of one rendering, which every operation of a template charges. One thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/jinja/template_arena.hpp"
#include "engine/jinja/template_limits.hpp"
#include "engine/jinja/template_origin.hpp"
#include "engine/jinja/template_value.hpp"
#include "engine/jinja/template_work.hpp"

namespace orcd::engine::jinja {

class context {
 public:
  /// `own` has the template's texts; they outlive the rendering.
  context(const template_limits& l, std::chrono::system_clock::time_point when, std::uint64_t most_work,
          const arena* own = nullptr)
      : limits(l), now(when), memory(l.memory_bytes), origins(memory, own), meter(most_work) {}
  context(const context&) = delete;
  context& operator=(const context&) = delete;

  /// Counts work, in units of template_work.hpp, before it is done; throws when the limit is exceeded.
  void charge(std::uint64_t units) { meter.charge(units); }
  /// Charges for visiting `count` values.
  void charge_values(std::size_t count) { charge(cost::value * count); }
  /// To be called before `bytes` are added to a text that is being built.
  template <class Text>
  void charge_growth(const Text& text, std::size_t bytes) {
    if (bytes > limits.memory_bytes || text.size() > limits.memory_bytes - bytes) {
      arena::fail("memory", limits.memory_bytes);
    }
    charge(cost::value + cost::grown(bytes));
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

  /// A computed text that is the template's own.
  [[nodiscard]] value own_text(std::string_view bytes) {
    charge(cost::value + cost::moved(bytes.size()));
    return make_string(memory.text(bytes));
  }
  /// A text computed from others: the caller's as soon as one of them has a byte of the caller's.
  [[nodiscard]] value text(std::string_view bytes, std::initializer_list<std::string_view> made_of) {
    const value made = own_text(bytes);
    const bool callers = std::any_of(made_of.begin(), made_of.end(),
                                     [&](std::string_view from) { return origins.has_callers(from); });
    if (callers) mark(made.view());
    return made;
  }
  /// Notes that a part of a computed text came from the caller.
  void mark(std::string_view part) {
    charge(cost::value);
    origins.add(part);
  }
  [[nodiscard]] value list(std::span<const value> items, list_form form = list_form::list) {
    charge(cost::allocation + cost::value * items.size());
    return make_value(memory.make<list_data>(memory.copy(items), form));
  }
  /// Memory for `count` values, which the caller must set.
  [[nodiscard]] std::span<value> values(std::size_t count) {
    if (count > limits.memory_bytes / sizeof(value)) arena::fail("memory", limits.memory_bytes);
    charge(cost::allocation + cost::value * count);
    auto* to = static_cast<value*>(memory.allocate(count * sizeof(value)));
    std::uninitialized_fill_n(to, count, value{});
    return {to, count};
  }
  [[nodiscard]] value dict(std::span<const dict_entry> entries) {
    charge(cost::allocation + 2 * cost::value * entries.size());
    return make_value(memory.make<dict_data>(memory.copy(entries)));
  }

  const template_limits limits;
  const std::chrono::system_clock::time_point now;
  arena memory;
  text_origins origins;
  work_meter meter;

 private:
  [[noreturn]] void fail_depth() const;

  std::uint32_t depth_ = 0;
};

}  // namespace orcd::engine::jinja
