#include "engine/jinja/template_percent.hpp"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>

#include "engine/jinja/template_format.hpp"
#include "engine/jinja/template_operators.hpp"
#include "engine/jinja/template_text.hpp"

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

text_builder converted(context& c, const conversion& how, const value& v) {
  text_builder out(c);
  std::array<char, 1500> buffer{};  // the longest double has 309 digits before the point
  switch (how.type) {
    case 's':
    case 'r':
      how.type == 's' ? append_text(c, out, v) : append_repr(c, out, v);
      c.charge(cost::scanned(out.size()));  // for its length
      if (how.precision >= 0) out.resize(text_offset(out.text(), static_cast<std::size_t>(how.precision)));
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
    c.charge(cost::printed_real + cost::digit * static_cast<std::uint64_t>(std::max(how.precision, 6)));
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
  if (how.sign && buffer.front() != '-') out += '+';
  return out.add_own(buffer.data());
}

void append_padded(text_builder& out, const conversion& how, const text_builder& text) {
  const std::size_t size = text_length(text.text());
  const std::size_t missing = size < how.width ? how.width - size : 0;
  if (how.left) {
    out.append(text).add_own(std::string(missing, ' '));
  } else if (how.zeros && how.type != 's' && how.type != 'r') {
    const bool sign = text.text().front() == '-' || text.text().front() == '+';
    const std::string_view digits = text.text();
    out.add_own(digits.substr(0, sign ? 1 : 0)).add_own(std::string(missing, '0'));
    out.add_own(digits.substr(sign ? 1 : 0));
  } else {
    out.add_own(std::string(missing, ' ')).append(text);
  }
}

}  // namespace

value percent_format(context& c, std::string_view format, const value& argument) {
  const bool several = is_form(argument, list_form::tuple);
  const std::span<const value> values = several ? argument.list->items : std::span<const value>(&argument, 1);
  std::size_t used = 0;
  text_builder out(c);
  c.charge(cost::scanned(format.size()));
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
    c.charge(2 * cost::call);
    const conversion how = read_conversion(format, at);
    if (used == values.size()) c.fail("a format has more conversions than values");
    const text_builder text = converted(c, how, values[used++]);
    c.charge_growth(out, text.size() + how.width);
    append_padded(out, how, text);
  }
  if (used != values.size() && !(values.size() == 1 && argument.is(value_kind::dict))) {
    c.fail("a format has fewer conversions than values");
  }
  return out.kept();
}

}  // namespace orcd::engine::jinja
