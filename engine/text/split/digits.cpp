// Patterns that isolate numbers.
#include <cstddef>
#include <string_view>

#include "engine/text/split/scan.hpp"

namespace orcd::engine::split {

namespace {

// Isolates each character of the class; with Longest, up to so many together.
template <std::uint16_t Mask, int Longest>
const char* scan_class(const char* p, const char* end, const unicode_table& table, const char*&) {
  const scan s(end, table);
  const character c = s.at(p);
  return c.is(Mask) ? s.run(p, Mask, Longest) : s.run_without(c.next, Mask);
}

template <std::uint16_t Mask>
const char* scan_class_run(const char* p, const char* end, const unicode_table& table, const char*&) {
  const scan s(end, table);
  const character c = s.at(p);
  return c.is(Mask) ? s.run(c.next, Mask) : s.run_without(c.next, Mask);
}

const char* scan_ascii_digits_3(const char* p, const char* end, const unicode_table&, const char*&) {
  const auto triple = [end](const char* q) {
    const auto digit = [](char c) { return c >= '0' && c <= '9'; };
    return end - q >= 3 && digit(q[0]) && digit(q[1]) && digit(q[2]);
  };
  if (triple(p)) return p + 3;
  while (p != end && !triple(p)) ++p;
  return p;
}

// Behind ByteLevel the package's Digits sees the stand-ins of the bytes: B2, B3 and B9 look like
// superscripts, BC, BD and BE like fractions. So it may cut inside a character.
const char* scan_byte_digits(const char* p, const char* end, const unicode_table&, const char*&) {
  constexpr std::string_view numbers = "0123456789\xB2\xB3\xB9\xBC\xBD\xBE";
  const std::string_view rest(p, static_cast<std::size_t>(end - p));
  const bool number = numbers.find(*p) != std::string_view::npos;
  const std::size_t size = number ? rest.find_first_not_of(numbers) : rest.find_first_of(numbers);
  return size == std::string_view::npos ? end : p + size;
}

struct digit_run {
  const char* end;
  std::size_t count;
};

template <std::uint16_t Mask>
digit_run count_digits(const scan& s, const char* p) {
  digit_run run{p, 0};
  run.end = s.run_while(p, [&run](const character& c) {
    if (!c.is(Mask)) return false;
    ++run.count;
    return true;
  });
  return run;
}

// Cuts runs of the class into groups of three counted from the end of the run, all runs or only those that
// end at the end of a word. `note` is the end of a run whose groups are being cut: a run is counted only
// once.
template <std::uint16_t Mask, bool EndsWord>
const char* scan_groups(const char* p, const char* end, const unicode_table& table, const char*& note) {
  const scan s(end, table);
  if (note != nullptr && p < note) return s.run(p, Mask, 3);
  const char* q = p;
  while (q != end) {
    if (!s.at(q).is(Mask)) {
      q = s.run_without(q, Mask);
      continue;
    }
    const digit_run run = count_digits<Mask>(s, q);
    if (EndsWord && s.at(run.end).is(class_word)) {
      q = run.end;
      continue;
    }
    if (q != p) return q;
    note = run.end;
    return s.run(p, Mask, static_cast<int>((run.count + 2) % 3 + 1));
  }
  return end;
}

// Cuts in front of every place in a run of decimal digits behind which groups of three fill the run. `note`
// is the end of a run whose places are being cut.
const char* scan_group_starts(const char* p, const char* end, const unicode_table& table, const char*& note) {
  const scan s(end, table);
  const char* q = p;
  if (note != nullptr && p < note) {
    q = s.run(p, class_decimal, 3);
    if (q < note) return q;
  }
  while (q != end) {
    if (!s.at(q).is(class_decimal)) {
      q = s.run_without(q, class_decimal);
      continue;
    }
    const digit_run run = count_digits<class_decimal>(s, q);
    if (run.count >= 3) {
      note = run.end;
      q = s.run(q, class_decimal, static_cast<int>(run.count % 3));
      if (q == p) q = s.run(q, class_decimal, 3);
      if (q != run.end) return q;
    }
    q = run.end;
  }
  return end;
}

}  // namespace

split_scanner find_digit_scanner(split_rule rule) {
  switch (rule) {
    case split_rule::digit_each: return scan_class<class_number, 1>;
    case split_rule::digit_run: return scan_class_run<class_number>;
    case split_rule::digits_3: return scan_class<class_number, 3>;
    case split_rule::split_digit_each: return scan_class<class_split_digit, 1>;
    case split_rule::split_digit_run: return scan_class_run<class_split_digit>;
    case split_rule::ascii_digits_3: return scan_ascii_digits_3;
    case split_rule::byte_digit_run: return scan_byte_digits;
    case split_rule::digit_groups: return scan_groups<class_number, false>;
    case split_rule::decimal_groups: return scan_groups<class_decimal, true>;
    case split_rule::decimal_group_starts: return scan_group_starts;
    default: return nullptr;
  }
}

}  // namespace orcd::engine::split
