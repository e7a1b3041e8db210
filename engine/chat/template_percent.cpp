// "..." % values, as the format filter and the % operator have it.
#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>

#include "engine/chat/template_format.hpp"
#include "engine/chat/template_operators.hpp"
#include "engine/chat/template_text.hpp"

namespace orcd::engine::jinja {
namespace {

constexpr std::size_t most_width = 1'000;

struct conversion {
  bool left = false;
  bool zeros = false;
  bool sign = false;
  std::size_t width = 0;
  int precision = -1;
  char type = 's';
};

/// Reads digits; bounded.
std::size_t number_at(std::string_view format, std::size_t& at) {
  std::size_t n = 0;
  while (at < format.size() && format[at] >= '0' && format[at] <= '9') {
    n = n * 10 + static_cast<std::size_t>(format[at++] - '0');
    if (n > most_width)
      context::fail("a width in a format is over the limit of " + std::to_string(most_width));
  }
  return n;
}

conversion read_conversion(std::string_view format, std::size_t& at) {
  conversion out;
  for (; at < format.size(); ++at) {
    if (format[at] == '-') {
      out.left = true;
    } else if (format[at] == '0') {
      out.zeros = true;
    } else if (format[at] == '+') {
      out.sign = true;
    } else {
      break;
    }
  }
  out.width = number_at(format, at);
  if (at < format.size() && format[at] == '.') out.precision = static_cast<int>(number_at(format, ++at));
  if (at >= format.size()) context::fail("a format ends inside of a conversion");
  out.type = format[at++];
  return out;
}

std::string converted(context& c, const conversion& how, const value& v) {
  std::string out;
  std::array<char, 1500> buffer{};  // the longest double has 309 digits before the point
  switch (how.type) {
    case 's':
    case 'r':
      how.type == 's' ? append_text(c, out, v) : append_repr(c, out, v);
      if (how.precision >= 0) out.resize(text_offset(out, static_cast<std::size_t>(how.precision)));
      return out;
    case 'd':
    case 'i':
    case 'x':
    case 'f': break;
    default: c.fail(std::string("a format has the conversion %") + how.type + ", which is not supported");
  }
  if (!is_number(v)) {
    require_defined(v);
    c.fail(std::string("%") + how.type + " takes a number, not " + std::string(kind_name(v)));
  }
  if (how.type == 'f') {
    std::snprintf(buffer.data(), buffer.size(), "%.*f", how.precision < 0 ? 6 : how.precision, as_real(v));
  } else if (how.type == 'x') {
    if (!is_integral(v)) c.fail("%x takes an integer");
    std::snprintf(
        buffer.data(), buffer.size(), v.integer < 0 ? "-%" PRIx64 : "%" PRIx64,
        v.integer < 0 ? 0 - static_cast<std::uint64_t>(v.integer) : static_cast<std::uint64_t>(v.integer));
  } else {
    const double whole = as_real(v);
    if (!is_integral(v) && !(whole > -9e18 && whole < 9e18)) c.fail("%d takes a number of 64 bits");
    const std::int64_t n = is_integral(v) ? v.integer : static_cast<std::int64_t>(whole);
    std::snprintf(buffer.data(), buffer.size(), "%" PRId64, n);
  }
  out = buffer.data();
  if (how.sign && out.front() != '-') out.insert(0, 1, '+');
  return out;
}

void append_padded(std::string& out, const conversion& how, std::string text) {
  const std::size_t size = text_length(text);
  if (size < how.width) {
    const std::size_t missing = how.width - size;
    if (how.left) {
      text.append(missing, ' ');
    } else if (how.zeros && how.type != 's' && how.type != 'r') {
      text.insert(text.front() == '-' || text.front() == '+' ? 1 : 0, missing, '0');
    } else {
      text.insert(0, missing, ' ');
    }
  }
  out += text;
}

}  // namespace

value percent_format(context& c, std::string_view format, const value& argument) {
  const bool several = is_form(argument, list_form::tuple);
  const std::span<const value> values = several ? argument.list->items : std::span<const value>(&argument, 1);
  std::size_t used = 0;
  std::string out;
  for (std::size_t at = 0; at < format.size();) {
    const std::size_t mark = std::min(format.find('%', at), format.size());
    c.charge_growth(out, mark - at);
    out.append(format.substr(at, mark - at));
    at = mark + 1;
    if (mark == format.size()) break;
    if (at < format.size() && format[at] == '%') {
      out += '%';
      ++at;
      continue;
    }
    const conversion how = read_conversion(format, at);
    if (used == values.size()) c.fail("a format has more conversions than values");
    std::string text = converted(c, how, values[used++]);
    c.charge_growth(out, text.size() + how.width);
    append_padded(out, how, std::move(text));
  }
  if (used != values.size() && !(values.size() == 1 && argument.is(value_kind::dict))) {
    c.fail("a format has fewer conversions than values");
  }
  return c.text(out);
}

}  // namespace orcd::engine::jinja
