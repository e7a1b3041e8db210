#include "engine/text/nfc.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "engine/base/ensure.hpp"
#include "engine/text/unicode_tables.hpp"
#include "engine/text/utf8.hpp"

namespace orcd::engine {

namespace {

int combining_class(utf8proc_int32_t code) {
  return utf8proc_get_property(code)->combining_class;
}

void decompose(char32_t code, std::vector<utf8proc_int32_t>& out) {
  std::array<utf8proc_int32_t, 8> parts;  // no canonical decomposition has more than 4
  int last_boundary = 0;
  const utf8proc_ssize_t n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts.data(),
                                                     parts.size(), UTF8PROC_DECOMPOSE, &last_boundary);
  ORCD_ENSURE(n >= 0 && static_cast<std::size_t>(n) <= parts.size());
  out.insert(out.end(), parts.begin(), parts.begin() + n);
}

// Canonical ordering: each run of marks sorted by combining class, equal classes keeping their order.
void order_marks(std::vector<utf8proc_int32_t>& codes) {
  for (auto first = codes.begin(); first != codes.end();) {
    if (combining_class(*first) == 0) {
      ++first;
      continue;
    }
    const auto last = std::find_if(first, codes.end(), [](auto c) { return combining_class(c) == 0; });
    std::stable_sort(first, last, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    first = last;
  }
}

// Composes and writes what has been gathered, then forgets it.
void flush(std::vector<utf8proc_int32_t>& codes, std::string& out) {
  if (codes.empty()) return;
  order_marks(codes);
  constexpr auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  const utf8proc_ssize_t n =
      utf8proc_normalize_utf32(codes.data(), static_cast<utf8proc_ssize_t>(codes.size()), options);
  ORCD_ENSURE(n >= 0);
  for (utf8proc_ssize_t i = 0; i < n; ++i)
    utf8::append(out, static_cast<char32_t>(codes[static_cast<std::size_t>(i)]));
  codes.clear();
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

std::string to_nfc(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::vector<utf8proc_int32_t> codes;
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p != end;) {
    const utf8::decoded d = utf8::decode(p, end);
    if (d.code == utf8::invalid) {
      flush(codes, out);
      out.push_back(*p);
    } else {
      decompose(d.code, codes);
    }
    p += d.size;
  }
  flush(codes, out);
  return out;
}

}  // namespace orcd::engine
