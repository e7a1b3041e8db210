// Counts the work of one compilation or rendering. Work is counted instead of time, so that a busy machine
// changes no result.
//
// A unit is about a nanosecond of one core. Each operation is charged for its slowest case, before it is done
// or, where only doing it shows how much it is, every few thousand bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace orcd::engine::jinja {

class work_meter {
 public:
  explicit work_meter(std::uint64_t most) noexcept : most_(most) {}

  /// Throws template_failure, with out_of_work set, instead of going over the limit.
  void charge(std::uint64_t units) {
    if (units > most_ - spent_) exhausted();
    spent_ += units;
  }
  [[nodiscard]] std::uint64_t spent() const noexcept { return spent_; }

 private:
  [[noreturn]] void exhausted();

  std::uint64_t most_;
  std::uint64_t spent_ = 0;
};

/// Units of work, as measured: test/unit/jinja/work_test.cpp prints what each kind takes.
namespace cost {
inline constexpr std::uint64_t node = 30;         ///< an expression, a statement or a token
inline constexpr std::uint64_t value = 8;         ///< a value or an entry visited, compared or copied
inline constexpr std::uint64_t call = 80;         ///< of a filter, test, method or function
inline constexpr std::uint64_t allocation = 40;   ///< of a list or a dict
inline constexpr std::uint64_t integer = 30;      ///< written
inline constexpr std::uint64_t short_real = 150;  ///< a real number written with its shortest digits
inline constexpr std::uint64_t printed_real =
    6'000;                                       ///< a real number with all of its digits before the point
inline constexpr std::uint64_t digit = 8;        ///< one of its digits after the point
inline constexpr std::uint64_t built = 100;      ///< a node of a compiled template
inline constexpr std::uint64_t looked_up = 200;  ///< a name of a compiled template

/// Bytes moved or compared in blocks.
constexpr std::uint64_t moved(std::uint64_t bytes) {
  return bytes / 4;
}
/// Bytes added to a text that grows, possibly into memory that was never touched.
constexpr std::uint64_t grown(std::uint64_t bytes) {
  return bytes / 2;
}
/// Bytes visited one by one.
constexpr std::uint64_t scanned(std::uint64_t bytes) {
  return bytes;
}
/// Bytes decoded to code points.
constexpr std::uint64_t decoded(std::uint64_t bytes) {
  return bytes * 4;
}
/// Bytes decoded to code points that are looked up in Unicode's tables and written again.
constexpr std::uint64_t mapped(std::uint64_t bytes) {
  return bytes * 8;
}
/// Bytes written again word by word.
constexpr std::uint64_t titled(std::uint64_t bytes) {
  return bytes * 12;
}
/// Bytes of a text whose code points are sorted.
constexpr std::uint64_t sorted(std::uint64_t bytes) {
  return bytes * 40;
}
/// Bytes of a template's source, which are checked, copied, split into tokens, hashed, and searched for the
/// marks of its output format.
constexpr std::uint64_t source(std::uint64_t bytes) {
  return bytes * 12;
}
/// A search for a name among `count` others, which may all differ from it in the last byte only.
constexpr std::uint64_t keys(std::uint64_t count, std::uint64_t bytes) {
  return value + count * (value + moved(bytes));
}
}  // namespace cost

}  // namespace orcd::engine::jinja
