// Fields of a frame's body, one after the other, in the machine's own byte order. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

namespace orcd::net {

/// What is wrong with a body, naming the limit and the value; nothing where it is right.
using frame_problem = std::optional<std::string>;

class frame_writer {
 public:
  template <class T>
  void put(T value) {
    static_assert(std::is_unsigned_v<T>);
    put_bytes(&value, sizeof value);
  }
  void put_bytes(const void* from, std::size_t bytes) { out.append(static_cast<const char*>(from), bytes); }
  /// Its length first.
  void put_text(const std::string& text) {
    put(static_cast<std::uint32_t>(text.size()));
    out += text;
  }
  std::string out;
};

/// Reads fields; what is not there is 0 and remembered.
class frame_reader {
 public:
  explicit frame_reader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <class T>
  T take() {
    static_assert(std::is_unsigned_v<T>);
    T value = 0;
    take_bytes(&value, sizeof value);
    return value;
  }
  void take_bytes(void* to, std::size_t bytes) {
    if (left_.size() < bytes) {
      short_ = true;
      left_ = {};
      return;
    }
    if (bytes > 0) std::memcpy(to, left_.data(), bytes);
    left_ = left_.subspan(bytes);
  }
  /// A word that is a flag.
  frame_problem take_flag(bool& flag) {
    const auto word = take<std::uint32_t>();
    if (word > 1) return "a flag is " + std::to_string(word) + ", not 0 or 1";
    flag = word == 1;
    return std::nullopt;
  }
  /// A text behind its length. `what` names it.
  frame_problem take_text(std::string& to, std::size_t bytes_max, const char* what) {
    const auto bytes = take<std::uint32_t>();
    if (bytes > bytes_max) {
      return std::string(what) + " of " + std::to_string(bytes) + " bytes, the limit is " +
             std::to_string(bytes_max);
    }
    to.resize(bytes);
    take_bytes(to.data(), bytes);
    return std::nullopt;
  }

  /// Whether exactly everything was read.
  [[nodiscard]] bool is_done() const noexcept { return !short_ && left_.empty(); }
  [[nodiscard]] bool is_short() const noexcept { return short_; }

 private:
  std::span<const std::byte> left_;
  bool short_ = false;
};

}  // namespace orcd::net
