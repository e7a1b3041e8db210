#include "engine/jinja/template_operators.hpp"

#include <algorithm>
#include <string>

#include "engine/jinja/text_search.hpp"

namespace orcd::engine::jinja {
namespace {

bool less_lists(context& c, std::span<const value> a, std::span<const value> b) {
  const context::deeper guard(c);
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (!equal(c, a[i], b[i])) return less(c, a[i], b[i]);
  }
  return a.size() < b.size();
}

bool equal_lists(context& c, std::span<const value> a, std::span<const value> b) {
  if (a.size() != b.size()) return false;
  const context::deeper guard(c);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!equal(c, a[i], b[i])) return false;
  }
  return true;
}

bool equal_dicts(context& c, const value& a, const value& b) {
  if (a.dict->entries.size() != b.dict->entries.size()) return false;
  const context::deeper guard(c);
  return std::all_of(a.dict->entries.begin(), a.dict->entries.end(), [&](const dict_entry& entry) {
    const value* other = find_key(c, b, entry.key);
    return other != nullptr && equal(c, entry.item, *other);
  });
}

}  // namespace

std::string_view kind_name(const value& v) noexcept {
  switch (v.kind) {
    case value_kind::undefined: return "something undefined";
    case value_kind::none: return "none";
    case value_kind::boolean: return "a boolean";
    case value_kind::integer:
    case value_kind::large: return "an integer";
    case value_kind::real: return "a float";
    case value_kind::string: return "a string";
    case value_kind::list: return v.list->form == list_form::tuple ? "a tuple" : "a list";
    case value_kind::dict: return "a mapping";
    case value_kind::space: return "a namespace";
    case value_kind::loop: return "a loop";
    case value_kind::macro: return "a macro";
    case value_kind::method:
    case value_kind::function: return "a function";
  }
  return "a value";
}

void require_defined(const value& v) {
  if (v.is(value_kind::undefined))
    context::fail("'" + std::string(v.view().substr(0, 80)) + "' is undefined");
}

void refuse_operands(std::string_view what, const value& a, const value& b) {
  require_defined(a);
  require_defined(b);
  context::fail(std::string(what) + " does not take " + std::string(kind_name(a)) + " and " +
                std::string(kind_name(b)));
}

bool truth(const value& v) noexcept {
  switch (v.kind) {
    case value_kind::undefined:
    case value_kind::none: return false;
    case value_kind::boolean:
    case value_kind::integer: return v.integer != 0;
    case value_kind::real: return v.real != 0;
    case value_kind::string: return v.size != 0;
    case value_kind::list: return v.list->form == list_form::generator || !v.list->items.empty();
    case value_kind::dict: return !v.dict->entries.empty();
    default: return true;
  }
}

bool equal(context& c, const value& a, const value& b) {
  c.charge(cost::value);
  if (is_number(a) && is_number(b)) {
    return is_integral(a) && is_integral(b) ? a.integer == b.integer : as_real(a) == as_real(b);
  }
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case value_kind::undefined:
    case value_kind::none: return true;
    case value_kind::string:
      if (a.size != b.size) return false;
      c.charge(cost::moved(a.size));
      return a.view() == b.view();
    case value_kind::list:
      return a.list == b.list || (a.list->form == b.list->form && a.list->form != list_form::generator &&
                                  equal_lists(c, a.list->items, b.list->items));
    case value_kind::dict: return a.dict == b.dict || equal_dicts(c, a, b);
    case value_kind::large: return a.large == b.large;
    default: return a.text == b.text;  // the same object
  }
}

bool less(context& c, const value& a, const value& b) {
  c.charge(cost::value);
  if (is_number(a) && is_number(b)) {
    return is_integral(a) && is_integral(b) ? a.integer < b.integer : as_real(a) < as_real(b);
  }
  if (a.is(value_kind::string) && b.is(value_kind::string)) {
    c.charge(cost::moved(std::min(a.size, b.size)));
    return a.view() < b.view();  // the order of UTF-8 is that of code points
  }
  if (a.is(value_kind::large) && b.is(value_kind::large)) return a.large < b.large;
  if (a.is(value_kind::large) && is_number(b)) return static_cast<double>(a.large) < as_real(b);
  if (is_number(a) && b.is(value_kind::large)) return as_real(a) < static_cast<double>(b.large);
  if (is_indexed(a) && is_indexed(b) && a.list->form == b.list->form) {
    return less_lists(c, a.list->items, b.list->items);
  }
  refuse_operands("a comparison", a, b);
}

bool contains(context& c, const value& container, const value& item) {
  if (container.is(value_kind::string)) {
    if (!item.is(value_kind::string)) refuse_operands("'in'", item, container);
    return find_text(c.meter, container.view(), item.view()) != std::string_view::npos;
  }
  if (container.is(value_kind::dict)) return find_key(c, container, item) != nullptr;
  const auto items = iterate(c, container);
  return std::any_of(items.begin(), items.end(), [&](const value& v) { return equal(c, v, item); });
}

bool compare(context& c, operation op, const value& a, const value& b) {
  switch (op) {
    case operation::equal: return equal(c, a, b);
    case operation::not_equal: return !equal(c, a, b);
    case operation::less: return less(c, a, b);
    case operation::greater: return less(c, b, a);
    case operation::less_equal: return less(c, a, b) || equal(c, a, b);
    case operation::greater_equal: return less(c, b, a) || equal(c, a, b);
    case operation::in: return contains(c, b, a);
    default: return !contains(c, b, a);
  }
}

}  // namespace orcd::engine::jinja
