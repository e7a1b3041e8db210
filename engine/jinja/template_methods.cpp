// Methods of values. Methods that would change a list or a dict are refused, as in the sandbox that
// transformers uses.
#include <algorithm>

#include "engine/jinja/template_format.hpp"
#include "engine/jinja/template_library.hpp"
#include "engine/jinja/template_operators.hpp"
#include "engine/jinja/template_text.hpp"
#include "engine/jinja/text_search.hpp"

namespace orcd::engine::jinja {
namespace {

/// The part of a text that the start and stop arguments of find, count and the like select: code points,
/// clamped as in a slice.
std::string_view part_of(context& c, const value& self, const arguments& a, std::size_t first) {
  if (!a.has(first) && !a.has(first + 1)) return self.view();
  const value none = make_none();
  return slice(c, self, a.has(first) ? a[first] : none, a.has(first + 1) ? a[first + 1] : none, none).view();
}

template <bool Left, bool Right>
value method_strip(context& c, const value& self, const arguments& a) {
  std::string_view text = self.view();
  const bool by_set = a.has(0) && !a[0].is(value_kind::none);
  const std::string_view set = by_set ? a.text(0, "") : std::string_view();
  if (Right) text = by_set ? strip_right(c.meter, text, set) : strip_right(c.meter, text);
  if (Left) text = by_set ? strip_left(c.meter, text, set) : strip_left(c.meter, text);
  return make_string(text);
}

template <bool AtEnd>
value method_begins(context& c, const value& self, const arguments& a) {
  const std::string_view text = part_of(c, self, a, 1);
  const auto holds = [&](const value& v) {
    if (!v.is(value_kind::string)) {
      require_defined(v);
      c.fail("startswith and endswith take a string or a tuple of strings, not " + std::string(kind_name(v)));
    }
    c.charge(cost::value + cost::moved(std::min(v.size, text.size())));
    return AtEnd ? text.ends_with(v.view()) : text.starts_with(v.view());
  };
  if (!is_form(a[0], list_form::tuple)) return make_bool(holds(a[0]));
  return make_bool(std::any_of(a[0].list->items.begin(), a[0].list->items.end(), holds));
}

value method_replace(context& c, const value& self, const arguments& a) {
  const std::string_view text = self.view();
  const std::string_view from = a.text(0, "");
  const std::string_view to = a.text(1, "");
  std::int64_t left = a.integer(2, -1);
  text_builder out(c);
  std::size_t at = 0;
  while (left != 0 && at <= text.size()) {
    const std::size_t found = find_text(c.meter, text, from, at);
    if (found == std::string_view::npos) break;
    c.charge_growth(out, found - at + to.size() + 4);
    c.charge(2 * cost::value);
    out.append(text.substr(at, found - at)).append(to);
    at = found + from.size();
    if (from.empty()) {  // between all characters
      if (at == text.size()) {
        at = text.size() + 1;
        break;
      }
      const std::size_t size = code_size(text, at);
      out.append(text.substr(at, size));
      at += size;
    }
    if (left > 0) --left;
  }
  if (at == 0) return self;
  if (at < text.size()) {
    c.charge_growth(out, text.size() - at);
    out.append(text.substr(at));
  }
  return out.kept();
}

using text_map = std::string (*)(std::string_view);
template <text_map Map>
value method_mapped(context& c, const value& self, const arguments&) {
  c.charge(cost::mapped(self.size));
  return c.text(Map(self.view()), {self.view()});
}

template <text_class Which>
value method_class(context& c, const value& self, const arguments&) {
  c.charge(cost::mapped(self.size));
  return make_bool(all_of_class(self.view(), Which));
}

value method_join(context& c, const value& self, const arguments& a) {
  text_builder out(c);
  require_defined(a[0]);
  const auto items = iterate(c, a[0]);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is(value_kind::string)) {
      c.fail("join takes strings, and one item is " + std::string(kind_name(items[i])));
    }
    c.charge_growth(out, self.size + items[i].size);
    if (i > 0) out += self.view();
    out += items[i].view();
  }
  return out.kept();
}

template <bool FromEnd, bool MustBe>
value method_find(context& c, const value& self, const arguments& a) {
  const std::string_view text = part_of(c, self, a, 1);
  const std::string_view what = a.text(0, "");
  const std::size_t at = FromEnd ? rfind_text(c.meter, text, what) : find_text(c.meter, text, what);
  if (at == std::string_view::npos) {
    if (MustBe) c.fail("index did not find its text");
    return make_integer(-1);
  }
  const auto skipped = static_cast<std::size_t>(text.data() - self.text);
  c.charge(cost::scanned(skipped + at));
  return make_integer(static_cast<std::int64_t>(text_length(self.view().substr(0, skipped + at))));
}

value method_count(context& c, const value& self, const arguments& a) {
  const std::string_view text = part_of(c, self, a, 1);
  const std::string_view what = a.text(0, "");
  if (what.empty()) {
    c.charge(cost::scanned(text.size()));
    return make_integer(static_cast<std::int64_t>(text_length(text)) + 1);
  }
  std::int64_t count = 0;
  for (std::size_t at = 0;; ++count) {
    at = find_text(c.meter, text, what, at);
    if (at == std::string_view::npos) return make_integer(count);
    at += what.size();
  }
}

template <bool AtEnd>
value method_remove(context& c, const value& self, const arguments& a) {
  const std::string_view text = self.view();
  const std::string_view part = a.text(0, "");
  c.charge(cost::moved(std::min(text.size(), part.size())));
  if (AtEnd) return make_string(text.ends_with(part) ? text.substr(0, text.size() - part.size()) : text);
  return make_string(text.starts_with(part) ? text.substr(part.size()) : text);
}

value method_zfill(context& c, const value& self, const arguments& a) {
  c.charge(cost::scanned(self.size));
  const std::int64_t missing =
      std::max<std::int64_t>(a.integer(0, 0), 0) - static_cast<std::int64_t>(text_length(self.view()));
  if (missing <= 0) return self;
  std::string out(self.view());
  c.charge_growth(out, static_cast<std::size_t>(missing));
  out.insert(out.starts_with('-') || out.starts_with('+') ? 1 : 0, static_cast<std::size_t>(missing), '0');
  return c.text(out, {self.view()});
}

/// Pads a text: none (ljust), half (center) or all (rjust) of the missing fill characters go to its left.
template <int Halves>
value method_justify(context& c, const value& self, const arguments& a) {
  c.charge(cost::scanned(self.size));
  const std::int64_t width = std::max<std::int64_t>(a.integer(0, 0), 0);
  const std::int64_t missing = width - static_cast<std::int64_t>(text_length(self.view()));
  const std::string_view fill = a.text(1, " ");
  if (fill.size() > 4 || text_length(fill) != 1) c.fail("a fill must be one character");
  if (missing <= 0) return self;
  // str.center puts the odd one to the left when the width is odd.
  const std::int64_t left = Halves == 0 ? 0 : Halves == 2 ? missing : missing / 2 + (missing & width & 1);
  if (static_cast<std::uint64_t>(missing) > c.limits.memory_bytes)
    arena::fail("memory", c.limits.memory_bytes);
  text_builder out(c);
  c.charge_growth(out, self.size + static_cast<std::size_t>(missing) * fill.size());
  c.charge_values(static_cast<std::size_t>(missing));
  for (std::int64_t i = 0; i < left; ++i) out += fill;
  out += self.view();
  for (std::int64_t i = left; i < missing; ++i) out += fill;
  return out.kept();
}

/// "{} {0} {name}".format(...): names without conversion or specification.
value method_format(context& c, const value& self, const arguments& a) {
  const std::string_view text = self.view();
  c.charge(cost::mapped(text.size()));  // looked through for braces, then for what a field may not hold
  text_builder out(c);
  std::size_t next = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t mark = std::min(text.find_first_of("{}", at), text.size());
    c.charge_growth(out, mark - at);
    c.charge(cost::node);
    out.append(text.substr(at, mark - at));
    if (mark == text.size()) break;
    if (mark + 1 < text.size() && text[mark + 1] == text[mark]) {
      out += text[mark];
      at = mark + 2;
      continue;
    }
    const std::size_t end = text.find('}', mark);
    if (text[mark] == '}' || end == std::string_view::npos) c.fail("a format has a single brace");
    const std::string_view field = text.substr(mark + 1, end - mark - 1);
    if (field.find_first_of(":!.[{") != std::string_view::npos) {
      c.fail("a format field with ':', '!', '.' or '[' is not supported");
    }
    const bool by_place = field.find_first_not_of("0123456789") == std::string_view::npos;
    if (by_place) {
      if (field.size() > 4) c.fail("a format has a place beyond its values");
      const std::size_t place = field.empty() ? next++ : std::stoul(std::string(field));
      if (place >= a.raw.items.size()) c.fail("a format has a place beyond its values");
      append_text(c, out, a.raw.items[place]);
    } else {
      c.charge(cost::keys(a.raw.named.size(), field.size()));
      const auto found = std::find_if(a.raw.named.begin(), a.raw.named.end(),
                                      [&](const named_value& named) { return named.name == field; });
      if (found == a.raw.named.end()) c.fail("a format has a name without a value");
      append_text(c, out, found->item);
    }
    at = end + 1;
  }
  return out.kept();
}

constexpr method_row row(std::string_view name, library_function run, std::string_view parameters = {},
                         std::uint32_t required = 0) {
  return method_row{{name, run, parameters, required}};
}

constexpr std::array rows{
    row("strip", method_strip<true, true>, "chars"),
    row("lstrip", method_strip<true, false>, "chars"),
    row("rstrip", method_strip<false, true>, "chars"),
    row("startswith", method_begins<false>, "prefix start end", 1),
    row("endswith", method_begins<true>, "suffix start end", 1),
    row("replace", method_replace, "old new count", 2),
    row("upper", method_mapped<upper>),
    row("lower", method_mapped<lower>),
    row("title", method_mapped<title>),
    row("capitalize", method_mapped<capitalize>),
    row("join", method_join, "iterable", 1),
    row("find", method_find<false, false>, "sub start end", 1),
    row("rfind", method_find<true, false>, "sub start end", 1),
    row("index", method_find<false, true>, "sub start end", 1),
    row("rindex", method_find<true, true>, "sub start end", 1),
    row("count", method_count, "sub start end", 1),
    row("removeprefix", method_remove<false>, "prefix", 1),
    row("removesuffix", method_remove<true>, "suffix", 1),
    row("format", method_format, "*"),
    row("isalpha", method_class<text_class::alphabetic>),
    row("isdigit", method_class<text_class::digits>),
    row("isdecimal", method_class<text_class::digits>),
    row("isnumeric", method_class<text_class::numeric>),
    row("isalnum", method_class<text_class::alphanumeric>),
    row("isspace", method_class<text_class::space>),
    row("isupper", method_class<text_class::uppercase>),
    row("islower", method_class<text_class::lowercase>),
    row("zfill", method_zfill, "width", 1),
    row("ljust", method_justify<0>, "width fillchar", 1),
    row("center", method_justify<1>, "width fillchar", 1),
    row("rjust", method_justify<2>, "width fillchar", 1),
};

}  // namespace

std::span<const method_row> text_methods() noexcept {
  return rows;
}

}  // namespace orcd::engine::jinja
