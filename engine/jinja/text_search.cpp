#include "engine/jinja/text_search.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace orcd::engine::jinja {
namespace {

constexpr std::size_t nowhere = std::string_view::npos;

// The charges for a candidate, and for a byte of the needle or of the text in the two-way search.
constexpr std::uint64_t candidate_units = 12;
constexpr std::uint64_t needle_units = 8;
constexpr std::uint64_t compare_units = 2;

/// A text read from its beginning or from its end.
template <bool Backwards>
class sequence {
 public:
  explicit sequence(std::string_view text) noexcept
      : first_(Backwards ? text.data() + text.size() - 1 : text.data()) {}
  [[nodiscard]] unsigned char operator[](std::size_t i) const noexcept {
    return static_cast<unsigned char>(Backwards ? *(first_ - i) : first_[i]);
  }

 private:
  const char* first_;
};

struct suffix {
  std::size_t begin;
  std::size_t period;
};

/// The largest suffix, in the order of bytes or its inverse, and its period.
template <bool Inverse, class Sequence>
suffix largest_suffix(const Sequence& x, std::size_t size) noexcept {
  std::size_t best = nowhere;  // before its first byte: -1, so that best + 1 is where it begins
  std::size_t at = 0;
  std::size_t offset = 1;
  std::size_t period = 1;
  while (at + offset < size) {
    const unsigned char a = x[at + offset];
    const unsigned char b = x[best + offset];
    if (a == b) {
      at += offset == period ? offset : 0;
      offset = offset == period ? 1 : offset + 1;
    } else if (Inverse ? a > b : a < b) {
      at += offset;
      offset = 1;
      period = at - best;
    } else {
      best = at++;
      offset = 1;
      period = 1;
    }
  }
  return {best + 1, period};
}

/// The first occurrence of `what` in `text`, in the direction of the two sequences, or nowhere.
template <class Sequence>
std::size_t two_way(work_meter& meter, const Sequence& text, std::size_t text_size, const Sequence& what,
                    std::size_t size) {
  meter.charge(needle_units * size);
  const suffix one = largest_suffix<false>(what, size);
  const suffix other = largest_suffix<true>(what, size);
  const suffix cut = one.begin > other.begin ? one : other;  // a critical factorization is here
  std::size_t i = 0;
  while (i < cut.begin && what[i] == what[i + cut.period]) ++i;
  const bool periodic = i == cut.begin;
  const std::size_t shift =
      periodic ? cut.period : std::max(cut.begin, size - cut.begin) + 1;  // when the right part matches
  std::size_t known = 0;  // bytes at the beginning that are known to match after the last shift
  std::size_t at = 0;
  while (at + size <= text_size) {
    const std::size_t from = std::max(cut.begin, known);
    std::size_t right = from;
    while (right < size && what[right] == text[at + right]) ++right;
    meter.charge(compare_units * (right - from + 2));
    if (right < size) {
      at += right - cut.begin + 1;
      known = 0;
      continue;
    }
    std::size_t left = cut.begin;
    while (left > known && what[left - 1] == text[at + left - 1]) --left;
    meter.charge(compare_units * (cut.begin - left));
    if (left <= known) return at;
    at += shift;
    known = periodic ? size - shift : 0;
  }
  return nowhere;
}

template <bool Backwards>
const char* find_byte(std::string_view text, char byte) noexcept {
  return static_cast<const char*>(Backwards ? ::memrchr(text.data(), byte, text.size())
                                            : std::memchr(text.data(), byte, text.size()));
}

/// `text` and `what` are not empty.
template <bool Backwards>
std::size_t search(work_meter& meter, std::string_view text, std::string_view what) {
  if (what.size() > text.size()) return nowhere;
  // The positions at which `what` may begin.
  std::string_view places = text.substr(0, text.size() - what.size() + 1);
  const std::uint64_t one_try = candidate_units + cost::moved(what.size() - 1);
  std::uint64_t wasted = 0;
  std::uint64_t passed = 0;
  for (;;) {
    const char* found = find_byte<Backwards>(places, what.front());
    const auto at = static_cast<std::size_t>(found == nullptr ? 0 : found - places.data());
    const std::size_t step = found == nullptr ? places.size() : Backwards ? places.size() - at : at + 1;
    passed += step;
    meter.charge(cost::moved(step));
    if (found == nullptr) return nowhere;
    meter.charge(one_try);
    if (std::memcmp(found, what.data(), what.size()) == 0)
      return static_cast<std::size_t>(found - text.data());
    places = Backwards ? places.substr(0, at) : places.substr(at + 1);
    if (places.empty()) return nowhere;
    wasted += one_try;
    if (wasted > 256 + 2 * passed) break;
  }
  const auto begin = static_cast<std::size_t>(places.data() - text.data());
  const std::string_view left = text.substr(begin, places.size() + what.size() - 1);
  const std::size_t at =
      two_way(meter, sequence<Backwards>(left), left.size(), sequence<Backwards>(what), what.size());
  if (at == nowhere) return nowhere;
  return begin + (Backwards ? left.size() - at - what.size() : at);
}

}  // namespace

std::size_t find_text(work_meter& meter, std::string_view text, std::string_view what, std::size_t from) {
  if (from > text.size()) return nowhere;
  if (what.empty()) return from;
  if (from == text.size()) return nowhere;
  const std::size_t at = search<false>(meter, text.substr(from), what);
  return at == nowhere ? nowhere : from + at;
}

std::size_t rfind_text(work_meter& meter, std::string_view text, std::string_view what) {
  if (what.empty()) return text.size();
  return text.empty() ? nowhere : search<true>(meter, text, what);
}

}  // namespace orcd::engine::jinja
