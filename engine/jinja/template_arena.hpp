// Memory for a compiled template and for the values of one rendering: allocated in blocks, counted against a
// limit, freed all at once. Objects in it must not need a destructor. One thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/jinja/template_failure.hpp"

namespace orcd::engine::jinja {

class arena {
 public:
  explicit arena(std::size_t most_bytes) : most_(most_bytes) {}

  [[nodiscard]] void* allocate(std::size_t bytes) {
    constexpr std::size_t alignment = alignof(std::max_align_t);
    if (bytes > most_ - used_) fail("memory", most_);
    bytes = (bytes + alignment - 1) / alignment * alignment;
    if (bytes > left_) grow(bytes);
    used_ = bytes > most_ - used_ ? most_ : used_ + bytes;
    left_ -= bytes;
    return std::exchange(at_, at_ + bytes);
  }

  template <class T, class... Arguments>
  [[nodiscard]] T* make(Arguments&&... arguments) {
    static_assert(std::is_trivially_destructible_v<T>);
    return new (allocate(sizeof(T))) T{std::forward<Arguments>(arguments)...};
  }

  template <class T>
  [[nodiscard]] std::span<T> copy(std::span<const T> items) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (items.empty()) return {};
    auto* to = static_cast<T*>(allocate(items.size_bytes()));
    std::memcpy(static_cast<void*>(to), items.data(), items.size_bytes());
    return {to, items.size()};
  }
  template <class T>
  [[nodiscard]] std::span<T> copy(const std::vector<T>& items) {
    return copy(std::span<const T>(items));
  }
  [[nodiscard]] std::string_view text(std::string_view bytes) {
    const auto kept = copy(std::span<const char>(bytes.data(), bytes.size()));
    return {kept.data(), kept.size()};
  }

  /// Whether the bytes at this address are the arena's.
  [[nodiscard]] bool owns(const char* at) const noexcept {
    const auto* byte = reinterpret_cast<const std::byte*>(at);
    const std::less<> before;
    return std::any_of(blocks_.rbegin(), blocks_.rend(), [&](const block_memory& b) {
      return !before(byte, b.bytes.get()) && before(byte, b.bytes.get() + b.size);
    });
  }

  [[noreturn]] static void fail(const char* what, std::size_t most) {
    throw template_failure("the chat template needs more " + std::string(what) + " than the limit of " +
                           std::to_string(most) + " bytes");
  }

 private:
  void grow(std::size_t bytes) {
    constexpr std::size_t smallest = 32U << 10U;
    constexpr std::size_t largest = 1U << 20U;
    next_ = next_ == 0 ? smallest : next_ < largest ? next_ * 2 : largest;
    const std::size_t size = bytes > next_ ? bytes : next_;
    blocks_.push_back({std::make_unique_for_overwrite<std::byte[]>(size), size});
    at_ = blocks_.back().bytes.get();
    left_ = size;
  }

  struct block_memory {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size;
  };

  std::vector<block_memory> blocks_;
  std::byte* at_ = nullptr;
  std::size_t left_ = 0;
  std::size_t next_ = 0;
  std::size_t used_ = 0;
  std::size_t most_;
};

}  // namespace orcd::engine::jinja
