#include "engine/chat/template_operators.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/chat/template_format.hpp"
#include "engine/chat/template_text.hpp"

namespace orcd::engine::jinja {
namespace {

constexpr std::string_view too_large = "an integer does not fit 64 bits";

[[noreturn]] void refuse(std::string_view what, const value& a, const value& b) {
  require_defined(a);
  require_defined(b);
  context::fail(std::string(what) + " does not take " + std::string(kind_name(a)) + " and " +
                std::string(kind_name(b)));
}

std::string_view sign_of(operation op) {
  switch (op) {
    case operation::add: return "+";
    case operation::subtract: return "-";
    case operation::multiply: return "*";
    case operation::divide: return "/";
    case operation::floor_divide: return "//";
    case operation::modulo: return "%";
    case operation::power: return "**";
    default: return "a comparison";
  }
}

/// `result` by reference: it is written while `overflows` is computed.
value checked(bool overflows, const std::int64_t& result) {
  if (overflows) context::fail(std::string(too_large));
  return make_integer(result);
}

value integer_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return make_real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  std::int64_t result = 1;
  bool overflows = false;
  bool base_overflows = false;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0)
      overflows = base_overflows || __builtin_mul_overflow(result, base, &result) || overflows;
    if (exponent > 1) base_overflows = __builtin_mul_overflow(base, base, &base) || base_overflows;
  }
  return checked(overflows, result);
}

value integer_arithmetic(operation op, std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  switch (op) {
    case operation::add: return checked(__builtin_add_overflow(a, b, &r), r);
    case operation::subtract: return checked(__builtin_sub_overflow(a, b, &r), r);
    case operation::multiply: return checked(__builtin_mul_overflow(a, b, &r), r);
    case operation::power: return integer_power(a, b);
    default: break;
  }
  if (b == 0) context::fail("division by zero");
  if (op == operation::divide) return make_real(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1)
    return op == operation::modulo ? make_integer(0) : integer_arithmetic(operation::subtract, 0, a);
  const std::int64_t rest = a % b;
  const bool below = rest != 0 && (rest < 0) != (b < 0);  // Python rounds down, C++ towards zero
  if (op == operation::modulo) return make_integer(below ? rest + b : rest);
  return make_integer(a / b - (below ? 1 : 0));
}

value real_arithmetic(operation op, double a, double b) {
  switch (op) {
    case operation::add: return make_real(a + b);
    case operation::subtract: return make_real(a - b);
    case operation::multiply: return make_real(a * b);
    case operation::power: return make_real(std::pow(a, b));
    default: break;
  }
  if (b == 0) context::fail("division by zero");
  if (op == operation::divide) return make_real(a / b);
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (op == operation::modulo) return make_real(rest == 0 ? std::copysign(0.0, b) : rest);
  return make_real(std::floor((a - rest) / b + 0.5));
}

/// What is not safe is escaped when the other is.
value joined_texts(context& c, const value& a, const value& b) {
  std::string out;
  c.charge_growth(out, a.size + b.size);
  out.reserve(a.size + b.size);
  out += b.safe && !a.safe ? html_escaped(a.view()) : std::string(a.view());
  out += a.safe && !b.safe ? html_escaped(b.view()) : std::string(b.view());
  value joined = c.text(out);
  joined.safe = a.safe || b.safe;
  return joined;
}

value joined_lists(context& c, const value& a, const value& b) {
  std::vector<value> items(a.list->items.begin(), a.list->items.end());
  c.charge(items.size() + b.list->items.size());
  items.insert(items.end(), b.list->items.begin(), b.list->items.end());
  return c.list(items, a.list->form);
}

value repeated(context& c, const value& what, std::int64_t times) {
  const std::size_t size = what.is(value_kind::string) ? what.size : what.list->items.size() * sizeof(value);
  const std::size_t n = times < 0 || size == 0 ? 0 : static_cast<std::size_t>(times);
  if (n > 0 && size > c.limits.memory_bytes / n) arena::fail("memory", c.limits.memory_bytes);
  c.charge_text(size * n);
  if (what.is(value_kind::string)) {
    std::string out;
    for (std::size_t i = 0; i < n; ++i) out += what.view();
    return c.text(out);
  }
  std::vector<value> items;
  for (std::size_t i = 0; i < n; ++i) {
    items.insert(items.end(), what.list->items.begin(), what.list->items.end());
  }
  return c.list(items, what.list->form);
}

bool is_repeatable(const value& v) {
  return v.is(value_kind::string) || is_form(v, list_form::list) || is_form(v, list_form::tuple);
}

bool less_lists(context& c, std::span<const value> a, std::span<const value> b) {
  const context::deeper guard(c);
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    c.charge(1);
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
  c.charge(1);
  if (is_number(a) && is_number(b)) {
    return is_integral(a) && is_integral(b) ? a.integer == b.integer : as_real(a) == as_real(b);
  }
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case value_kind::undefined:
    case value_kind::none: return true;
    case value_kind::string: c.charge(a.size == b.size ? a.size / 64 : 0); return a.view() == b.view();
    case value_kind::list:
      return a.list == b.list || (a.list->form == b.list->form && a.list->form != list_form::generator &&
                                  equal_lists(c, a.list->items, b.list->items));
    case value_kind::dict: return a.dict == b.dict || equal_dicts(c, a, b);
    case value_kind::large: return a.large == b.large;
    default: return a.text == b.text;  // the same object
  }
}

bool less(context& c, const value& a, const value& b) {
  c.charge(1);
  if (is_number(a) && is_number(b)) {
    return is_integral(a) && is_integral(b) ? a.integer < b.integer : as_real(a) < as_real(b);
  }
  if (a.is(value_kind::string) && b.is(value_kind::string)) {
    c.charge(std::min(a.size, b.size) / 64);
    return a.view() < b.view();  // the order of UTF-8 is that of code points
  }
  if (a.is(value_kind::large) && b.is(value_kind::large)) return a.large < b.large;
  if (a.is(value_kind::large) && is_number(b)) return static_cast<double>(a.large) < as_real(b);
  if (is_number(a) && b.is(value_kind::large)) return as_real(a) < static_cast<double>(b.large);
  if (is_indexed(a) && is_indexed(b) && a.list->form == b.list->form) {
    return less_lists(c, a.list->items, b.list->items);
  }
  refuse("a comparison", a, b);
}

bool contains(context& c, const value& container, const value& item) {
  if (container.is(value_kind::string)) {
    if (!item.is(value_kind::string)) refuse("'in'", item, container);
    c.charge_text(container.size);
    return container.view().find(item.view()) != std::string_view::npos;
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

value arithmetic(context& c, operation op, const value& a, const value& b) {
  if (is_number(a) && is_number(b)) {
    return is_integral(a) && is_integral(b) ? integer_arithmetic(op, a.integer, b.integer)
                                            : real_arithmetic(op, as_real(a), as_real(b));
  }
  if (op == operation::add) {
    if (a.is(value_kind::string) && b.is(value_kind::string)) return joined_texts(c, a, b);
    if (is_repeatable(a) && is_repeatable(b) && a.kind == b.kind && a.list->form == b.list->form) {
      return joined_lists(c, a, b);
    }
  }
  if (op == operation::multiply) {
    if (is_repeatable(a) && is_integral(b)) return repeated(c, a, b.integer);
    if (is_integral(a) && is_repeatable(b)) return repeated(c, b, a.integer);
  }
  if (op == operation::modulo && a.is(value_kind::string)) return percent_format(c, a.view(), b);
  refuse(sign_of(op), a, b);
}

value negative(const value& v) {
  if (is_integral(v)) return integer_arithmetic(operation::subtract, 0, v.integer);
  if (v.is(value_kind::real)) return make_real(-v.real);
  require_defined(v);
  context::fail("'-' does not take " + std::string(kind_name(v)));
}

}  // namespace orcd::engine::jinja
