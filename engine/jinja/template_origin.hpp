// Whose text is whose. What the caller's variables bring into a prompt is text, whatever it looks like; only
// what the template writes may be a special token. A byte's origin is found by its address: the template's
// own texts lie in the program's arena, those that are computed in the rendering's, where the parts that came
// from the caller are kept here; any other text is the caller's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <string_view>

#include "engine/jinja/template_arena.hpp"
#include "engine/text/text_range.hpp"

namespace orcd::engine::jinja {

/// Memory of an arena for a standard container; nothing is given back before the arena ends.
class arena_resource final : public std::pmr::memory_resource {
 public:
  explicit arena_resource(arena& memory) : memory_(memory) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t) override { return memory_.allocate(bytes); }
  void do_deallocate(void*, std::size_t, std::size_t) override {}
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }

  arena& memory_;
};

class text_origins {
 public:
  text_origins(arena& computed, const arena* own) : computed_(computed), own_(own), resource_(computed) {}

  /// Notes that this part of a computed text came from the caller.
  void add(std::string_view part) {
    // Addresses of an arena's block ascend: mostly the new one is the last.
    if (!part.empty()) parts_.emplace_hint(parts_.end(), address(part.data()), part.size());
  }

  /// Calls visit(text_range) for each part of the text that came from the caller, in order.
  template <class Visit>
  void visit(std::string_view text, Visit visit) const {
    if (text.empty() || (own_ != nullptr && own_->owns(text.data()))) return;
    if (!computed_.owns(text.data())) return visit(text_range{0, text.size()});
    const std::uintptr_t begin = address(text.data());
    const std::uintptr_t end = begin + text.size();
    auto at = parts_.upper_bound(begin);
    if (at != parts_.begin()) --at;
    for (; at != parts_.end() && at->first < end; ++at) {
      const std::uintptr_t from = std::max(at->first, begin);
      const std::uintptr_t to = std::min(at->first + at->second, end);
      if (from < to) visit(text_range{from - begin, to - from});
    }
  }

  [[nodiscard]] bool has_callers(std::string_view text) const {
    bool found = false;
    visit(text, [&](text_range) { found = true; });
    return found;
  }

 private:
  static std::uintptr_t address(const char* at) noexcept { return reinterpret_cast<std::uintptr_t>(at); }

  const arena& computed_;
  const arena* own_;
  arena_resource resource_;
  std::pmr::map<std::uintptr_t, std::size_t> parts_{&resource_};
};

}  // namespace orcd::engine::jinja
