// Filters over the items of a value.
#include <algorithm>

#include "engine/jinja/template_arithmetic.hpp"
#include "engine/jinja/template_format.hpp"
#include "engine/jinja/template_library.hpp"
#include "engine/jinja/template_operators.hpp"
#include "engine/jinja/template_text.hpp"

namespace orcd::engine::jinja {
namespace {

value filter_length(context& c, const value& self, const arguments&) {
  return make_integer(static_cast<std::int64_t>(length(c, self)));
}

value filter_first(context& c, const value& self, const arguments&) {
  if (self.is(value_kind::string) && self.size > 0) return get_item(c, self, make_integer(0));
  const auto items = iterate(c, self);
  return items.empty() ? make_undefined("first item of an empty sequence") : items.front();
}

value filter_last(context& c, const value& self, const arguments&) {
  if (is_form(self, list_form::generator)) c.fail("last takes a sequence, not a generator");
  if (self.is(value_kind::string) && self.size > 0) return get_item(c, self, make_integer(-1));
  const auto items = iterate(c, self);
  return items.empty() ? make_undefined("last item of an empty sequence") : items.back();
}

value filter_list(context& c, const value& self, const arguments&) {
  const auto items = iterate(c, self);
  return make_value(c.memory.make<list_data>(items, list_form::list, true));
}

value filter_join(context& c, const value& self, const arguments& a) {
  const std::string_view between = a.has(0) ? text_of(c, a[0]) : std::string_view();
  text_builder out(c);
  bool first = true;
  for (const value& item : iterate(c, self)) {
    c.charge_growth(out, between.size());
    if (!std::exchange(first, false)) out += between;
    const bool by_attribute = a.has(1) && !a[1].is(value_kind::none);
    append_text(c, out, by_attribute ? get_path(c, item, text_of(c, a[1])) : item);
  }
  return out.kept();
}

value filter_reverse(context& c, const value& self, const arguments&) {
  const value none = make_none();
  if (self.is(value_kind::string)) return slice(c, self, none, none, make_integer(-1));
  const auto items = iterate(c, self);
  const auto out = c.values(items.size());
  std::copy(items.rbegin(), items.rend(), out.begin());
  return make_value(c.memory.make<list_data>(out, list_form::generator));
}

value filter_items(context& c, const value& self, const arguments&) {
  if (self.is(value_kind::undefined)) return c.list({}, list_form::generator);
  if (!self.is(value_kind::dict)) c.fail("items takes a mapping, not " + std::string(kind_name(self)));
  std::vector<value> pairs;
  c.charge_values(self.dict->entries.size());
  for (const dict_entry& entry : self.dict->entries) {
    const std::array<value, 2> pair{entry.key, entry.item};
    pairs.push_back(c.list(pair, list_form::tuple));
  }
  return c.list(pairs, list_form::generator);
}

/// The value by which an item is compared: its attribute, and without case unless asked for.
value sort_key(context& c, const value& item, const value& path, bool with_case) {
  const bool whole = path.is(value_kind::none) || path.is(value_kind::undefined);
  const value v = whole                         ? item
                  : path.is(value_kind::string) ? get_path(c, item, path.view())
                                                : get_item(c, item, path);
  if (with_case || !v.is(value_kind::string)) return v;
  c.charge(cost::mapped(v.size));
  return c.text(lower(v.view()), {v.view()});
}

struct keyed {
  value key;
  value item;
};

std::vector<keyed> keyed_items(context& c, const value& self, const value& path, bool with_case) {
  std::vector<keyed> out;
  const auto items = iterate(c, self);
  c.charge(cost::allocation + 4 * cost::value * items.size());
  out.reserve(items.size());
  for (const value& item : items) out.push_back({sort_key(c, item, path, with_case), item});
  return out;
}

void sort_keyed(context& c, std::vector<keyed>& items, bool reverse) {
  // A comparison may throw, because it charges; the vector is left in some order then, but the rendering has
  // failed.
  std::stable_sort(items.begin(), items.end(), [&](const keyed& a, const keyed& b) {
    c.charge(cost::value);  // for moving values while they are sorted
    return reverse ? less(c, b.key, a.key) : less(c, a.key, b.key);
  });
}

value listed(context& c, const std::vector<keyed>& items, list_form form) {
  const auto out = c.values(items.size());
  std::transform(items.begin(), items.end(), out.begin(), [](const keyed& k) { return k.item; });
  return make_value(c.memory.make<list_data>(out, form));
}

value filter_sort(context& c, const value& self, const arguments& a) {
  auto items = keyed_items(c, self, a[2], a.flag(1));
  sort_keyed(c, items, a.flag(0));
  return listed(c, items, list_form::list);
}

value filter_dictsort(context& c, const value& self, const arguments& a) {
  require_defined(self);
  if (!self.is(value_kind::dict)) c.fail("dictsort takes a mapping, not " + std::string(kind_name(self)));
  const std::string_view by = a.text(1, "key");
  if (by != "key" && by != "value") c.fail("dictsort sorts by key or value");
  auto items = keyed_items(c, filter_items(c, self, {}), make_integer(by == "key" ? 0 : 1), a.flag(0));
  sort_keyed(c, items, a.flag(2));
  return listed(c, items, list_form::list);
}

value filter_unique(context& c, const value& self, const arguments& a) {
  std::vector<keyed> out;
  for (const keyed& k : keyed_items(c, self, a[1], a.flag(0))) {
    const bool seen =
        std::any_of(out.begin(), out.end(), [&](const keyed& o) { return equal(c, o.key, k.key); });
    if (!seen) out.push_back(k);
  }
  return listed(c, out, list_form::generator);
}

template <bool Largest>
value filter_extreme(context& c, const value& self, const arguments& a) {
  const auto items = keyed_items(c, self, a[1], a.flag(0));
  if (items.empty()) return make_undefined("extreme of an empty sequence");
  const keyed* best = &items.front();
  for (const keyed& k : items) {
    if (Largest ? less(c, best->key, k.key) : less(c, k.key, best->key)) best = &k;
  }
  return best->item;
}

value filter_sum(context& c, const value& self, const arguments& a) {
  value total = a.has(1) ? a[1] : make_integer(0);
  for (const value& item : iterate(c, self)) {
    c.charge(cost::value);
    const bool by_attribute = a.has(0) && !a[0].is(value_kind::none);
    total = arithmetic(c, operation::add, total, by_attribute ? get_path(c, item, text_of(c, a[0])) : item);
  }
  return total;
}

value filter_batch(context& c, const value& self, const arguments& a) {
  const std::int64_t size = a.integer(0, 0);
  if (size < 1 || size > 1'000'000) c.fail("batch takes a size of 1 to 1000000");
  const auto items = iterate(c, self);
  std::vector<value> out;
  for (std::size_t from = 0; from < items.size(); from += static_cast<std::size_t>(size)) {
    const auto part = items.subspan(from, std::min(items.size() - from, static_cast<std::size_t>(size)));
    const bool fills = a.has(1) && !a[1].is(value_kind::none);
    const auto one = c.values(fills ? static_cast<std::size_t>(size) : part.size());
    std::fill(std::copy(part.begin(), part.end(), one.begin()), one.end(), fills ? a[1] : value{});
    out.push_back(make_value(c.memory.make<list_data>(one)));
  }
  return c.list(out, list_form::generator);
}

constexpr std::array rows{
    filter_row{"length", filter_length},
    filter_row{"count", filter_length},
    filter_row{"first", filter_first},
    filter_row{"last", filter_last},
    filter_row{"list", filter_list},
    filter_row{"join", filter_join, "d attribute"},
    filter_row{"reverse", filter_reverse},
    filter_row{"items", filter_items},
    filter_row{"sort", filter_sort, "reverse case_sensitive attribute"},
    filter_row{"dictsort", filter_dictsort, "case_sensitive by reverse"},
    filter_row{"unique", filter_unique, "case_sensitive attribute"},
    filter_row{"min", filter_extreme<false>, "case_sensitive attribute"},
    filter_row{"max", filter_extreme<true>, "case_sensitive attribute"},
    filter_row{"sum", filter_sum, "attribute start"},
    filter_row{"batch", filter_batch, "linecount fill_with", 1},
};

}  // namespace

std::span<const filter_row> list_filters() noexcept {
  return rows;
}

}  // namespace orcd::engine::jinja
