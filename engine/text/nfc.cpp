#include "engine/text/nfc.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "engine/base/ensure.hpp"
#include "engine/text/unicode_tables.hpp"
#include "engine/text/utf8.hpp"

namespace orcd::engine {

void append_decomposed(char32_t code, std::vector<std::int32_t>& out) {
  std::array<utf8proc_int32_t, 8> parts;  // no canonical decomposition has more than 4
  int last_boundary = 0;
  const utf8proc_ssize_t n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts.data(),
                                                     parts.size(), UTF8PROC_DECOMPOSE, &last_boundary);
  ORCD_ENSURE(n >= 0 && static_cast<std::size_t>(n) <= parts.size());
  out.insert(out.end(), parts.begin(), parts.begin() + n);
}

namespace {

int combining_class(utf8proc_int32_t code) {
  return utf8proc_get_property(code)->combining_class;
}

struct segment {
  std::vector<utf8proc_int32_t> codes;  // decomposed
  std::size_t movable = 0;              // index of the first that canonical ordering may move
};

// Canonical ordering: runs of marks sorted by combining class, equal classes keeping their order.
void order_marks(segment& s) {
  const auto end = s.codes.end();
  for (auto first = s.codes.begin() + static_cast<std::ptrdiff_t>(s.movable); first < end;) {
    if (combining_class(*first) == 0) {
      ++first;
      continue;
    }
    const auto last = std::find_if(first, end, [](auto c) { return combining_class(c) == 0; });
    std::stable_sort(first, last, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    first = last;
  }
}

// Composes the segment, appends it to `out` and clears it.
void flush(segment& s, std::string& out) {
  std::size_t count = s.codes.size();
  if (count > 1) {
    order_marks(s);
    constexpr auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    const utf8proc_ssize_t n =
        utf8proc_normalize_utf32(s.codes.data(), static_cast<utf8proc_ssize_t>(count), options);
    ORCD_ENSURE(n >= 0);
    count = static_cast<std::size_t>(n);
  }
  for (std::size_t i = 0; i < count; ++i) utf8::append(out, static_cast<char32_t>(s.codes[i]));
  s.codes.clear();
}

}  // namespace

bool may_need_nfc(std::string_view text) {
  const unicode_table& table = unicode_table::instance();
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p != end;) {
    const utf8::decoded d = utf8::decode(p, end);
    if (table.classes(d.code) & class_nfc) return true;
    p += d.size;
  }
  return false;
}

// A segment starts at every code point that, by our table, can neither move before what precedes it nor
// combine with it. utf8proc may know newer marks: at the beginning of a segment nothing happens to them.
std::string to_nfc(std::string_view text) {
  const unicode_table& table = unicode_table::instance();
  std::string out;
  out.reserve(text.size());
  segment s;
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p != end;) {
    const utf8::decoded d = utf8::decode(p, end);
    const bool touched = (table.classes(d.code) & class_nfc) != 0;
    if (!touched) flush(s, out);
    if (d.code == utf8::invalid) {
      out.push_back(*p);
    } else {
      if (s.codes.empty()) s.movable = touched ? 0 : 1;
      append_decomposed(d.code, s.codes);
    }
    p += d.size;
  }
  flush(s, out);
  return out;
}

}  // namespace orcd::engine
