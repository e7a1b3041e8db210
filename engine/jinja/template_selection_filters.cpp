// map, select and reject: filters that apply another filter or a test to each item.
#include "engine/jinja/template_library.hpp"
#include "engine/jinja/template_operators.hpp"

namespace orcd::engine::jinja {
namespace {

std::string_view name_argument(const arguments& a, std::size_t i, const char* what) {
  if (i >= a.raw.items.size() || !a.raw.items[i].is(value_kind::string)) {
    context::fail(std::string("the name of ") + what + " is missing");
  }
  return a.raw.items[i].view();
}

value filter_map(context& c, const value& self, const arguments& a) {
  const context::deeper guard(c);
  if (!truth(self)) return c.list({}, list_form::generator);  // even none
  std::vector<value> out;
  if (a.raw.items.empty()) {
    value path;
    value fallback;
    bool has_fallback = false;
    for (const named_value& named : a.raw.named) {
      if (named.name == "attribute") {
        path = named.item;
      } else if (named.name == "default") {
        fallback = named.item;
        has_fallback = true;
      } else {
        c.fail("'map' does not take the argument '" + std::string(named.name) + "'");
      }
    }
    require_defined(path);
    for (const value& item : iterate(c, self)) {
      c.charge(cost::node);
      const value v = path.is(value_kind::string) ? get_path(c, item, path.view()) : get_item(c, item, path);
      out.push_back(v.is(value_kind::undefined) && has_fallback ? fallback : v);
    }
    return c.list(out, list_form::generator);
  }
  const std::string_view name = name_argument(a, 0, "a filter");
  const filter_row* row = find_filter(name);
  if (row == nullptr) c.fail("no filter named '" + std::string(name.substr(0, 40)) + "'");
  const call_values rest{a.raw.items.subspan(1), a.raw.named};
  for (const value& item : iterate(c, self)) out.push_back(call_row(c, *row, item, rest));
  return c.list(out, list_form::generator);
}

/// Keeps the items that pass a test (or, unless Wanted, those that do not); ByAttribute tests an attribute of
/// each.
template <bool Wanted, bool ByAttribute>
value filter_choose(context& c, const value& self, const arguments& a) {
  const context::deeper guard(c);
  if (!truth(self)) return c.list({}, list_form::generator);  // even none
  std::vector<value> out;
  constexpr std::size_t first = ByAttribute ? 1 : 0;
  value path;
  if (ByAttribute) {
    if (a.raw.items.empty()) c.fail("the attribute to select by is missing");
    path = a.raw.items[0];
  }
  const test_row* row = nullptr;
  call_values rest;
  if (a.raw.items.size() > first) {
    const std::string_view name = name_argument(a, first, "a test");
    row = find_test(name);
    if (row == nullptr) c.fail("no test named '" + std::string(name.substr(0, 40)) + "'");
    rest = {a.raw.items.subspan(first + 1), a.raw.named};
  }
  for (const value& item : iterate(c, self)) {
    c.charge(cost::node);
    const value v = !ByAttribute                  ? item
                    : path.is(value_kind::string) ? get_path(c, item, path.view())
                                                  : get_item(c, item, path);
    if (truth(row == nullptr ? v : call_row(c, *row, v, rest)) == Wanted) out.push_back(item);
  }
  return c.list(out, list_form::generator);
}

constexpr std::array rows{
    filter_row{"map", filter_map, "*"},
    filter_row{"select", filter_choose<true, false>, "*"},
    filter_row{"reject", filter_choose<false, false>, "*"},
    filter_row{"selectattr", filter_choose<true, true>, "*"},
    filter_row{"rejectattr", filter_choose<false, true>, "*"},
};

}  // namespace

std::span<const filter_row> selection_filters() noexcept {
  return rows;
}

}  // namespace orcd::engine::jinja
