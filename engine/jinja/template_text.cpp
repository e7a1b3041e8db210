#include "engine/jinja/template_text.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "engine/text/utf8.hpp"

namespace orcd::engine::jinja {
namespace {

constexpr char32_t sharp_s = 0xDF;

bool is_cased(char32_t code) noexcept {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT;
}

void append_mapped(std::string& out, char32_t code, utf8proc_int32_t (*map)(utf8proc_int32_t)) {
  utf8::append(out, static_cast<char32_t>(map(static_cast<utf8proc_int32_t>(code))));
}

void append_upper(std::string& out, char32_t code) {
  if (code == sharp_s) {
    out += "SS";
  } else {
    append_mapped(out, code, utf8proc_toupper);
  }
}

void append_title(std::string& out, char32_t code) {
  if (code == sharp_s) {
    out += "Ss";
  } else {
    append_mapped(out, code, utf8proc_totitle);
  }
}

void append_lower(std::string& out, char32_t code) {
  append_mapped(out, code, utf8proc_tolower);
}

/// Calls visit(code) for each code point.
template <class Visit>
void for_codes(std::string_view text, Visit visit) {
  for (std::size_t at = 0; at < text.size(); at += code_size(text, at)) visit(code_at(text, at));
}

bool of_class(char32_t code, text_class which) noexcept {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  const bool letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
  const bool number = category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
  switch (which) {
    case text_class::alphabetic: return letter;
    case text_class::numeric: return number;
    case text_class::alphanumeric: return letter || number;
    case text_class::digits: return category == UTF8PROC_CATEGORY_ND;
    case text_class::space: return is_space(code);
    case text_class::uppercase: return category == UTF8PROC_CATEGORY_LU;
    case text_class::lowercase: return category == UTF8PROC_CATEGORY_LL;
  }
  return false;
}

/// The set of code points that occur in a text.
class code_set {
 public:
  code_set(work_meter& meter, std::string_view text) {
    meter.charge(cost::sorted(text.size()));
    for_codes(text, [this](char32_t code) {
      if (code < ascii_.size()) {
        ascii_[code] = true;
      } else {
        others_.push_back(code);
      }
    });
    std::sort(others_.begin(), others_.end());
  }
  [[nodiscard]] bool has(char32_t code) const noexcept {
    return code < ascii_.size() ? ascii_[code] : std::binary_search(others_.begin(), others_.end(), code);
  }

 private:
  std::array<bool, 128> ascii_{};
  std::vector<char32_t> others_;
};

constexpr std::size_t portion = 4'096;  // bytes that are charged at a time

/// The offset of the first code point for which `goes` is false.
template <class Goes>
std::size_t passed_left(work_meter& meter, std::string_view text, Goes goes) {
  std::size_t at = 0;
  std::size_t charged = 0;
  while (at < text.size() && goes(code_at(text, at))) {
    at += code_size(text, at);
    if (at - charged < portion) continue;
    meter.charge(cost::decoded(at - charged));
    charged = at;
  }
  meter.charge(cost::value + cost::decoded(at - charged));
  return at;
}

/// The end of the last code point for which `goes` is false.
template <class Goes>
std::size_t passed_right(work_meter& meter, std::string_view text, Goes goes) {
  std::size_t end = text.size();
  std::size_t charged = end;
  while (end > 0) {
    const std::size_t at = code_before(text, end);
    if (!goes(code_at(text, at))) break;
    end = at;
    if (charged - end < portion) continue;
    meter.charge(cost::decoded(charged - end));
    charged = end;
  }
  meter.charge(cost::value + cost::decoded(charged - end));
  return end;
}

}  // namespace

bool is_space(char32_t code) noexcept {
  if (code > 0x20 && code < 0x80) return false;
  return (code >= 9 && code <= 13) || (code >= 0x1C && code <= 0x20) || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_ascii(std::string_view text) noexcept {
  unsigned char seen = 0;
  for (const char c : text) seen |= static_cast<unsigned char>(c);
  return seen < 0x80;
}

std::size_t text_length(std::string_view text) noexcept {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U ? 1 : 0;
  return count;
}

std::size_t text_offset(std::string_view text, std::size_t index) noexcept {
  std::size_t at = 0;
  while (at < text.size() && index > 0) {
    at += code_size(text, at);
    --index;
  }
  return at;
}

std::size_t text_offset_from_end(std::string_view text, std::size_t count) noexcept {
  std::size_t at = text.size();
  for (; count > 0; --count) {
    if (at == 0) return text.size();
    at = code_before(text, at);
  }
  return at;
}

std::size_t code_before(std::string_view text, std::size_t end) noexcept {
  do --end;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U);
  return end;
}

std::size_t code_size(std::string_view text, std::size_t at) noexcept {
  return utf8::decode(text.data() + at, text.data() + text.size()).size;
}

char32_t code_at(std::string_view text, std::size_t at) noexcept {
  return utf8::decode(text.data() + at, text.data() + text.size()).code;
}

std::string_view strip_left(work_meter& meter, std::string_view text) {
  return text.substr(passed_left(meter, text, is_space));
}

std::string_view strip_right(work_meter& meter, std::string_view text) {
  return text.substr(0, passed_right(meter, text, is_space));
}

std::string_view strip_left(work_meter& meter, std::string_view text, std::string_view set) {
  const code_set codes(meter, set);
  return text.substr(passed_left(meter, text, [&](char32_t code) { return codes.has(code); }));
}

std::string_view strip_right(work_meter& meter, std::string_view text, std::string_view set) {
  const code_set codes(meter, set);
  return text.substr(0, passed_right(meter, text, [&](char32_t code) { return codes.has(code); }));
}

std::string upper(std::string_view text) {
  std::string out;
  for_codes(text, [&](char32_t code) { append_upper(out, code); });
  return out;
}

std::string lower(std::string_view text) {
  std::string out;
  for_codes(text, [&](char32_t code) { append_lower(out, code); });
  return out;
}

std::string capitalize(std::string_view text) {
  std::string out;
  for_codes(text, [&, first = true](char32_t code) mutable {
    first ? append_title(out, code) : append_lower(out, code);
    first = false;
  });
  return out;
}

std::string title(std::string_view text) {
  std::string out;
  for_codes(text, [&, inside = false](char32_t code) mutable {
    inside ? append_lower(out, code) : append_title(out, code);
    inside = is_cased(code);
  });
  return out;
}

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&#34;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

line_end find_line_end(std::string_view text, std::size_t from) noexcept {
  for (std::size_t at = from; at < text.size();) {
    const std::size_t size = code_size(text, at);
    const char32_t code = code_at(text, at);
    if (code == '\r' && at + 1 < text.size() && text[at + 1] == '\n') return {at, at + 2};
    if ((code >= 10 && code <= 13) || (code >= 0x1C && code <= 0x1E) || code == 0x85 || code == 0x2028 ||
        code == 0x2029) {
      return {at, at + size};
    }
    at += size;
  }
  return {text.size(), text.size()};
}

bool all_of_class(std::string_view text, text_class which) noexcept {
  // isupper() and islower() ignore characters without case, if at least one has case.
  const bool by_case = which == text_class::uppercase || which == text_class::lowercase;
  bool some = false;
  for (std::size_t at = 0; at < text.size(); at += code_size(text, at)) {
    const char32_t code = code_at(text, at);
    const bool fits = of_class(code, which);
    if (!fits && (!by_case || is_cased(code))) return false;
    some = some || fits;
  }
  return some;
}

}  // namespace orcd::engine::jinja
