// Numbers of JSON as digits, and between bounds. A text between two bounds leaves the digits of each at some
// place, and is free from there on.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "engine/grammar/json_rules.hpp"

namespace orcd::engine::grammar {

namespace {

expr digit() {
  return byte_range('0', '9');
}

expr minus() {
  return literal("-");
}

constexpr std::int64_t integer_most = 999'999'999'999'999'999;

// Numbers of one length: `low` and `high` have the same number of digits.
expr digits_between(const std::string& low, const std::string& high, std::size_t from = 0) {
  if (from == low.size()) return literal("");
  const auto rest = static_cast<std::uint32_t>(low.size() - from - 1);
  const auto at = [from](const std::string& text) { return static_cast<unsigned char>(text[from]); };
  const auto filled = [&](const std::string& text, char fill) {
    return text.substr(0, from + 1) + std::string(rest, fill);
  };
  if (at(low) == at(high))
    return sequence({byte_range(at(low), at(low)), digits_between(low, high, from + 1)});
  std::vector<expr> out;
  unsigned first = at(low);
  unsigned last = at(high);
  if (low != filled(low, '0')) {
    out.push_back(sequence({byte_range(at(low), at(low)), digits_between(low, filled(low, '9'), from + 1)}));
    ++first;
  }
  if (high != filled(high, '9')) {
    out.push_back(
        sequence({byte_range(at(high), at(high)), digits_between(filled(high, '0'), high, from + 1)}));
    --last;
  }
  if (first <= last) {
    out.push_back(sequence({byte_range(static_cast<unsigned char>(first), static_cast<unsigned char>(last)),
                            repeat(digit(), rest, rest)}));
  }
  return choice(std::move(out));
}

// Numbers that are not negative.
expr magnitude_between(std::uint64_t low, std::uint64_t high) {
  std::vector<expr> out;
  const std::string last = std::to_string(high);
  for (std::string first = std::to_string(low); first.size() <= last.size();) {
    const std::string most = first.size() == last.size() ? last : std::string(first.size(), '9');
    out.push_back(digits_between(first, most));
    first = "1" + std::string(first.size(), '0');
  }
  return choice(std::move(out));
}

std::uint64_t magnitude(std::int64_t value) noexcept {
  return value < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
}

expr fraction() {
  return sequence({literal("."), repeat(digit(), 1, number_digits_max)});
}

/// What may follow the point, given the digits of bounds that the number has equalled so far.
class fraction_digits {
 public:
  explicit fraction_digits(std::uint32_t most) : most_(most) {}

  /// A point and digits, or nothing; null where neither is within the bounds.
  [[nodiscard]] expr part(const number_bound* low, const number_bound* high) const {
    std::vector<expr> out;
    if (may_end(0, low, high)) out.push_back(literal(""));
    if (const expr digits = further(0, low, high)) out.push_back(sequence({literal("."), digits}));
    return out.empty() ? nullptr : choice(std::move(out));
  }

 private:
  static unsigned at(const number_bound& bound, std::uint32_t i) {
    return i < bound.fraction.size() ? static_cast<unsigned>(bound.fraction[i] - '0') : 0;
  }

  static bool may_end(std::uint32_t i, const number_bound* low, const number_bound* high) {
    const bool above = low == nullptr || (i >= low->fraction.size() && !low->exclusive);
    const bool below = high == nullptr || i < high->fraction.size() || !high->exclusive;
    return above && below;
  }

  /// The digits from place i on, perhaps none.
  [[nodiscard]] expr rest(std::uint32_t i, const number_bound* low, const number_bound* high) const {
    if (low != nullptr && i >= low->fraction.size() && !low->exclusive) low = nullptr;
    if (low == nullptr && high == nullptr) return repeat(digit(), 0, most_ - i);
    std::vector<expr> out;
    if (may_end(i, low, high)) out.push_back(literal(""));
    if (expr digits = further(i, low, high)) out.push_back(std::move(digits));
    return out.empty() ? nullptr : choice(std::move(out));
  }

  /// At least one digit at place i.
  [[nodiscard]] expr further(std::uint32_t i, const number_bound* low, const number_bound* high) const {
    if (i >= most_) return nullptr;
    unsigned first = low == nullptr ? 0 : at(*low, i);
    unsigned last = high == nullptr ? 9 : at(*high, i);
    std::vector<expr> out;
    const auto add = [&](unsigned from, unsigned to, const number_bound* above, const number_bound* below) {
      expr after = rest(i + 1, above, below);
      if (after == nullptr) return;
      const expr here =
          byte_range(static_cast<unsigned char>('0' + from), static_cast<unsigned char>('0' + to));
      out.push_back(sequence({here, std::move(after)}));
    };
    if (first == last && low != nullptr && high != nullptr) {
      add(first, last, low, high);
    } else {
      if (low != nullptr && first <= last) {
        add(first, first, low, nullptr);
        ++first;
      }
      if (high != nullptr && first <= last) {
        add(last, last, nullptr, high);
        if (last == 0) return out.empty() ? nullptr : choice(std::move(out));
        --last;
      }
      if (first <= last) add(first, last, nullptr, nullptr);
    }
    return out.empty() ? nullptr : choice(std::move(out));
  }

  std::uint32_t most_;
};

// The digits after the point that keep numbers beside an exclusive bound apart from it also as doubles, which
// tell apart what has 15 digits in all.
std::uint32_t places_beside(const number_bound& bound) {
  constexpr std::uint32_t exact_digits = 15;
  if (!bound.exclusive) return number_digits_max;
  if (bound.whole == 0) return exact_digits;
  const auto whole = static_cast<std::uint32_t>(std::to_string(bound.whole).size());
  return whole < exact_digits ? exact_digits - whole : 0;
}

// Decimals from low to high, whose signs do not count; null where there is none.
expr decimals_between(const number_bound& low, const number_bound& high) {
  if (low.whole > high.whole) return nullptr;
  const std::uint32_t places = std::min(places_beside(low), places_beside(high));
  const fraction_digits after(places);
  std::vector<expr> out;
  const auto add = [&](std::uint64_t from, std::uint64_t to, const number_bound* above,
                       const number_bound* below) {
    if (expr digits = after.part(above, below))
      out.push_back(sequence({magnitude_between(from, to), std::move(digits)}));
  };
  if (low.whole == high.whole) {
    if (low.fraction <= high.fraction) add(low.whole, low.whole, &low, &high);
  } else {
    add(low.whole, low.whole, &low, nullptr);
    add(high.whole, high.whole, nullptr, &high);
    if (low.whole + 1 < high.whole) add(low.whole + 1, high.whole - 1, nullptr, nullptr);
  }
  return out.empty() ? nullptr : choice(std::move(out));
}

}  // namespace

expr proper_fraction() {
  const expr whole = choice({literal("0"), sequence({byte_range('1', '9'), repeat(digit(), 0, 7)})});
  return sequence({optional(minus()), whole, literal("."), repeat(digit(), 0, 6), byte_range('1', '9')});
}

expr integer() {
  return integer_between(std::nullopt, std::nullopt);
}

expr number() {
  const expr whole =
      choice({literal("0"), sequence({byte_range('1', '9'), repeat(digit(), 0, number_digits_max - 1)})});
  byte_set exponent, sign;
  exponent.set('e').set('E');
  sign.set('+').set('-');
  return sequence({optional(minus()), whole, optional(fraction()),
                   optional(sequence({one_of(exponent), optional(one_of(sign)), repeat(digit(), 1, 2)}))});
}

expr integer_between(std::optional<std::int64_t> low, std::optional<std::int64_t> high) {
  const std::int64_t first = low.value_or(std::min(-integer_most, high.value_or(0)));
  const std::int64_t last = high.value_or(std::max(integer_most, first));
  std::vector<expr> out;
  if (first > last) return choice({});
  if (last >= 0)
    out.push_back(magnitude_between(magnitude(std::max<std::int64_t>(first, 0)), magnitude(last)));
  if (first < 0) {
    const std::uint64_t nearest = last < 0 ? magnitude(last) : 1;
    out.push_back(sequence({minus(), magnitude_between(nearest, magnitude(first))}));
  }
  return choice(std::move(out));
}

std::optional<number_bound> whole_number(std::int64_t value, bool exclusive) {
  if (magnitude(value) > static_cast<std::uint64_t>(integer_most)) return std::nullopt;
  return number_bound{value < 0, magnitude(value), {}, exclusive};
}

std::optional<number_bound> decimal(double value, bool exclusive) {
  number_bound out;
  out.negative = value < 0;
  out.exclusive = exclusive;
  const double size = std::abs(value);
  if (size > static_cast<double>(integer_most)) return std::nullopt;
  if (size == std::floor(size)) {
    out.whole = static_cast<std::uint64_t>(size);
    return out;
  }
  std::array<char, 400> buffer;
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), size, std::chars_format::fixed).ptr;
  const std::string_view text(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  const std::size_t point = text.find('.');
  out.whole = static_cast<std::uint64_t>(size);
  out.fraction = std::string(text.substr(point + 1));
  constexpr std::size_t digits_max = 15;
  if (out.fraction.size() + (out.whole == 0 ? 0 : point) > digits_max) return std::nullopt;
  return out;
}

std::int64_t power_of_ten(std::uint32_t places) noexcept {
  std::int64_t out = 1;
  for (; places > 0; --places) out *= 10;
  return out;
}

std::optional<scaled_number> scaled(const boost::json::value& number) {
  if (number.is_int64()) {
    const std::int64_t value = number.get_int64();
    if (magnitude(value) > static_cast<std::uint64_t>(integer_most)) return std::nullopt;
    return scaled_number{value, 0};
  }
  if (!number.is_double()) return std::nullopt;
  const auto digits = decimal(number.get_double(), false);
  if (!digits) return std::nullopt;
  scaled_number out{static_cast<std::int64_t>(digits->whole),
                    static_cast<std::uint32_t>(digits->fraction.size())};
  for (const char c : digits->fraction) out.units = out.units * 10 + (c - '0');
  if (digits->negative) out.units = -out.units;
  return out;
}

expr number_between(const std::optional<number_bound>& low, const std::optional<number_bound>& high) {
  const number_bound zero, most{false, integer_most, {}, false};
  const number_bound above_zero{false, 0, {}, true};
  std::vector<expr> out;
  if (!high || !high->negative) {
    const bool from_zero = !low || low->negative;
    if (expr made = decimals_between(from_zero ? zero : *low, high.value_or(most)))
      out.push_back(std::move(made));
  }
  if (!low || low->negative) {
    const bool to_zero = !high || !high->negative;
    if (expr made = decimals_between(to_zero ? above_zero : *high, low.value_or(most)))
      out.push_back(sequence({minus(), std::move(made)}));
  }
  return out.empty() ? nullptr : choice(std::move(out));
}

}  // namespace orcd::engine::grammar
