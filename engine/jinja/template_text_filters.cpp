// Filters whose result is text or a number of one value.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "engine/jinja/template_arithmetic.hpp"
#include "engine/jinja/template_format.hpp"
#include "engine/jinja/template_library.hpp"
#include "engine/jinja/template_operators.hpp"
#include "engine/jinja/template_percent.hpp"
#include "engine/jinja/template_text.hpp"

namespace orcd::engine::jinja {
namespace {

value filter_tojson(context& c, const value& self, const arguments& a) {
  json_style style;
  style.ascii = a.flag(0);
  if (a.has(1) && !a[1].is(value_kind::none)) {
    style.pretty = true;
    style.indent =
        a[1].is(value_kind::string)
            ? std::string(a[1].view())
            : std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(a.integer(1, 0), 0, 1000)), ' ');
    style.between = ",";
  }
  if (a.has(2) && !a[2].is(value_kind::none)) {
    const auto pair = iterate(c, a[2]);
    if (pair.size() != 2 || !pair[0].is(value_kind::string) || !pair[1].is(value_kind::string)) {
      c.fail("the separators of tojson must be two strings");
    }
    style.between = pair[0].view();
    style.after_key = pair[1].view();
  }
  style.sorted = a.flag(3);
  text_builder out(c);
  append_json(c, out, self, style);
  return out.kept();
}

value filter_string(context& c, const value& self, const arguments&) {
  return make_string(text_of(c, self));
}

value filter_trim(context& c, const value& self, const arguments& a) {
  const std::string_view text = text_of(c, self);
  if (!a.has(0) || a[0].is(value_kind::none)) {
    return make_string(strip_left(c.meter, strip_right(c.meter, text)));
  }
  return make_string(strip_left(c.meter, strip_right(c.meter, text, a.text(0, "")), a.text(0, "")));
}

/// The title filter, whose words begin after a hyphen, white space or an opening bracket.
std::string filter_title_text(std::string_view text) {
  std::string out;
  std::size_t from = 0;
  const auto flush = [&](std::size_t to) { out += capitalize(text.substr(from, to - from)); };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = code_size(text, at);
    const char32_t code = code_at(text, at);
    if (is_space(code) || code == '-' || code == '(' || code == '{' || code == '[' || code == '<') {
      flush(at);
      out.append(text.substr(at, size));
      from = at + size;
    }
    at += size;
  }
  flush(text.size());
  return out;
}

using text_map = std::string (*)(std::string_view);
template <text_map Map>
value filter_mapped(context& c, const value& self, const arguments&) {
  const std::string_view text = text_of(c, self);
  c.charge(Map == &filter_title_text ? cost::titled(text.size()) : cost::mapped(text.size()));
  return c.text(Map(text), {text});
}

value filter_safe(context& c, const value& self, const arguments&) {
  value text = make_string(text_of(c, self));
  text.safe = true;
  return text;
}

template <bool Again>
value filter_escape(context& c, const value& self, const arguments& a) {
  if (!Again && self.safe) return self;
  const std::string_view text = text_of(c, self);
  c.charge_growth(std::string_view(), text.size() * longest_escape);
  c.charge(cost::decoded(text.size()));
  return filter_safe(c, c.text(html_escaped(text), {text}), a);
}

value filter_replace(context& c, const value& self, const arguments& a) {
  const value text = make_string(text_of(c, self));
  const std::array<value, 3> values{make_string(text_of(c, a[0])), make_string(text_of(c, a[1])),
                                    make_integer(a.integer(2, -1))};
  return call_row(c, *find_method(value_kind::string, "replace"), text, {values, {}});
}

value filter_indent(context& c, const value& self, const arguments& a) {
  if (!self.is(value_kind::string)) {
    require_defined(self);
    c.fail("indent takes a string, not " + std::string(kind_name(self)));
  }
  c.charge(2 * cost::decoded(self.size));
  const std::string text = std::string(self.view()) + "\n";
  const std::string unit =
      a.has(0) && a[0].is(value_kind::string)
          ? std::string(a[0].view())
          : std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(a.integer(0, 4), 0, 1000)), ' ');
  const bool blank = a.flag(2);
  std::string out = a.flag(1) ? unit : "";
  bool first = true;
  for (std::size_t from = 0; from < text.size(); first = false) {
    const line_end end = find_line_end(text, from);
    const std::size_t size = end.stop - from;
    c.charge_growth(out, size + unit.size() + 1);
    c.charge(2 * cost::value);
    if (!first) out.append("\n").append(size > 0 || blank ? unit : "");
    out.append(text, from, size);
    from = end.next;
  }
  const bool by_text = a.has(0) && a[0].is(value_kind::string);
  return c.text(out, {self.view(), by_text ? a[0].view() : std::string_view()});
}

value filter_default(context&, const value& self, const arguments& a) {
  const bool replaces = self.is(value_kind::undefined) || (a.flag(1) && !truth(self));
  if (!replaces) return self;
  return a.has(0) ? a[0] : make_string("");
}

value filter_float(context& c, const value& self, const arguments& a) {
  const value fallback = a.has(0) ? a[0] : make_real(0);
  if (is_number(self)) return make_real(as_real(self));
  if (self.is(value_kind::large)) return make_real(static_cast<double>(self.large));
  if (!self.is(value_kind::string)) return fallback;
  c.charge(cost::decoded(self.size));
  std::string_view text = strip_left(c.meter, strip_right(c.meter, self.view()));
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double real = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), real);
  return failed == std::errc{} && end == text.data() + text.size() ? make_real(real) : fallback;
}

value whole(const value& fallback, double real) {
  if (!(real > -9.2e18 && real < 9.2e18)) return fallback;
  return make_integer(static_cast<std::int64_t>(real));
}

value filter_int(context& c, const value& self, const arguments& a) {
  const value fallback = a.has(0) ? a[0] : make_integer(0);
  if (is_integral(self)) return make_integer(self.integer);
  if (self.is(value_kind::large)) return self;
  if (self.is(value_kind::real)) return whole(fallback, self.real);
  if (!self.is(value_kind::string)) return fallback;
  c.charge(cost::decoded(self.size));
  std::string_view text = strip_left(c.meter, strip_right(c.meter, self.view()));
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const std::int64_t base = a.integer(1, 10);
  if (base < 2 || base > 36) c.fail("the base of int must be 2 to 36");
  constexpr std::string_view letters = "xXoObB";
  const std::size_t letter =
      text.size() > 2 && text[0] == '0' ? letters.find(text[1]) : std::string_view::npos;
  if (letter != std::string_view::npos && base == (letter < 2 ? 16 : letter < 4 ? 8 : 2))
    text.remove_prefix(2);
  std::int64_t integer = 0;
  const auto [end, failed] =
      std::from_chars(text.data(), text.data() + text.size(), integer, static_cast<int>(base));
  if (failed == std::errc{} && end == text.data() + text.size()) return make_integer(integer);
  const value real = filter_float(c, self, arguments{{make_none()}, 1, {}});
  return real.is(value_kind::real) ? whole(fallback, real.real) : fallback;
}

value filter_abs(context& c, const value& self, const arguments&) {
  if (self.is(value_kind::real)) return make_real(std::fabs(self.real));
  if (!is_integral(self)) c.fail("abs takes a number, not " + std::string(kind_name(self)));
  return self.integer < 0 ? negative(self) : make_integer(self.integer);
}

/// Rounds to the nearest decimal, ties to the even digit, as printf does with the exact value.
double round_to(context& c, double real, std::int64_t places) {
  if (!std::isfinite(real)) return real;
  c.charge(cost::printed_real +
           2 * cost::digit * static_cast<std::uint64_t>(std::max<std::int64_t>(places, 0)));
  if (places >= 0) {
    std::array<char, 700> buffer{};
    std::snprintf(buffer.data(), buffer.size(), "%.*f", static_cast<int>(std::min<std::int64_t>(places, 340)),
                  real);
    return std::strtod(buffer.data(), nullptr);
  }
  const double unit = std::pow(10.0, static_cast<double>(-places));
  return std::nearbyint(real / unit) * unit;
}

value filter_round(context& c, const value& self, const arguments& a) {
  if (!is_number(self)) {
    require_defined(self);
    c.fail("round takes a number, not " + std::string(kind_name(self)));
  }
  const std::int64_t places = std::clamp<std::int64_t>(a.integer(0, 0), -340, 340);
  const std::string_view method = a.text(1, "common");
  if (method == "common") {
    if (is_integral(self) && places >= 0) return make_integer(self.integer);
    const double rounded = round_to(c, as_real(self), places);
    return is_integral(self) ? whole(make_integer(0), rounded) : make_real(rounded);
  }
  if (method != "ceil" && method != "floor") c.fail("the method of round must be common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(places));
  const double scaled = as_real(self) * unit;
  return make_real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

value filter_format(context& c, const value& self, const arguments& a) {
  if (!a.raw.named.empty()) c.fail("format with named values is not supported");
  return percent_format(c, text_of(c, self), c.list(a.raw.items, list_form::tuple));
}

value filter_center(context& c, const value& self, const arguments& a) {
  const value text = make_string(text_of(c, self));
  const std::array<value, 1> width{make_integer(a.integer(0, 80))};
  return call_row(c, *find_method(value_kind::string, "center"), text, {width, {}});
}

value filter_wordcount(context& c, const value& self, const arguments&) {
  const std::string_view text = text_of(c, self);
  c.charge(cost::mapped(text.size()));
  std::int64_t words = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.size(); at += code_size(text, at)) {
    const char32_t code = code_at(text, at);
    const bool part =
        code == '_' || !(is_space(code) || (code < 0x80 && std::ispunct(static_cast<int>(code)) != 0));
    words += part && !inside ? 1 : 0;
    inside = part;
  }
  return make_integer(words);
}

constexpr std::array rows{
    filter_row{"tojson", filter_tojson, "ensure_ascii indent separators sort_keys"},
    filter_row{"trim", filter_trim, "chars"},
    filter_row{"string", filter_string},
    filter_row{"safe", filter_safe},
    filter_row{"upper", filter_mapped<upper>},
    filter_row{"lower", filter_mapped<lower>},
    filter_row{"capitalize", filter_mapped<capitalize>},
    filter_row{"title", filter_mapped<filter_title_text>},
    filter_row{"e", filter_escape<false>},
    filter_row{"escape", filter_escape<false>},
    filter_row{"forceescape", filter_escape<true>},
    filter_row{"replace", filter_replace, "old new count", 2},
    filter_row{"indent", filter_indent, "width first blank"},
    filter_row{"default", filter_default, "default_value boolean"},
    filter_row{"d", filter_default, "default_value boolean"},
    filter_row{"int", filter_int, "default base"},
    filter_row{"float", filter_float, "default"},
    filter_row{"abs", filter_abs},
    filter_row{"round", filter_round, "precision method"},
    filter_row{"format", filter_format, "*"},
    filter_row{"center", filter_center, "width"},
    filter_row{"wordcount", filter_wordcount},
};

}  // namespace

std::span<const filter_row> text_filters() noexcept {
  return rows;
}

}  // namespace orcd::engine::jinja
