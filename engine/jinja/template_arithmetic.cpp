#include "engine/jinja/template_arithmetic.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "engine/jinja/template_operators.hpp"
#include "engine/jinja/template_percent.hpp"
#include "engine/jinja/template_text.hpp"
#include "engine/jinja/text_builder.hpp"

namespace orcd::engine::jinja {
namespace {

constexpr std::string_view too_large = "an integer does not fit 64 bits";

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

/// `result` by reference, because it is assigned while the argument `overflows` is evaluated.
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

/// Charges for fmod, which handles the bits between the two exponents one by one.
void charge_remainder(context& c, double a, double b) {
  constexpr std::uint64_t one_bit = 6;
  if (!std::isfinite(a) || !std::isfinite(b) || a == 0 || b == 0) return;
  const int bits = std::ilogb(a) - std::ilogb(b);
  if (bits > 0) c.charge(one_bit * static_cast<std::uint64_t>(bits));
}

value real_arithmetic(context& c, operation op, double a, double b) {
  switch (op) {
    case operation::add: return make_real(a + b);
    case operation::subtract: return make_real(a - b);
    case operation::multiply: return make_real(a * b);
    case operation::power: return make_real(std::pow(a, b));
    default: break;
  }
  if (b == 0) context::fail("division by zero");
  if (op == operation::divide) return make_real(a / b);
  charge_remainder(c, a, b);
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (op == operation::modulo) return make_real(rest == 0 ? std::copysign(0.0, b) : rest);
  return make_real(std::floor((a - rest) / b + 0.5));
}

/// Joins two texts; if one of them is safe, the other one is escaped.
value joined_texts(context& c, const value& a, const value& b) {
  text_builder out(c);
  const auto append = [&](const value& part, bool escapes) {
    const std::size_t most = escapes ? longest_escape * part.size : part.size;
    c.charge_growth(out, most);
    if (!escapes) {
      out += part.view();
      return;
    }
    c.charge(cost::decoded(part.size));
    out.append(c.text(html_escaped(part.view()), {part.view()}).view());
  };
  if (!a.safe && !b.safe) out.reserve(std::min(a.size + b.size, c.limits.memory_bytes));
  append(a, b.safe && !a.safe);
  append(b, a.safe && !b.safe);
  value joined = out.kept();
  joined.safe = a.safe || b.safe;
  return joined;
}

value joined_lists(context& c, const value& a, const value& b) {
  const auto first = a.list->items;
  const auto second = b.list->items;
  const auto items = c.values(first.size() + second.size());
  std::copy(second.begin(), second.end(), std::copy(first.begin(), first.end(), items.begin()));
  return make_value(c.memory.make<list_data>(items, a.list->form, is_form(a, list_form::list)));
}

/// Repeats the first `size` items of `to`, which are set, through all of it.
template <class T>
void repeat_in_place(std::span<T> to, std::size_t size) {
  for (std::size_t done = size; done < to.size();) {
    const std::size_t more = std::min(done, to.size() - done);
    std::copy_n(to.begin(), more, to.begin() + static_cast<std::ptrdiff_t>(done));
    done += more;
  }
}

value repeated(context& c, const value& what, std::int64_t times) {
  const bool is_text = what.is(value_kind::string);
  const std::size_t size = is_text ? what.size : what.list->items.size();
  const std::size_t n = times < 0 || size == 0 ? 0 : static_cast<std::size_t>(times);
  if (n > 0 && size > c.limits.memory_bytes / n) arena::fail("memory", c.limits.memory_bytes);
  if (is_text) {
    c.charge(cost::value + cost::grown(size * n));
    const std::span<char> out(static_cast<char*>(c.memory.allocate(size * n)), size * n);
    if (n > 0) std::copy_n(what.text, size, out.begin());
    repeat_in_place(out, size);
    const value made = make_string({out.data(), out.size()});
    if (c.origins.has_callers(what.view())) c.mark(made.view());
    return made;
  }
  const auto items = c.values(size * n);
  if (n > 0) std::copy_n(what.list->items.begin(), size, items.begin());
  repeat_in_place(items, size);
  return make_value(c.memory.make<list_data>(items, what.list->form, is_form(what, list_form::list)));
}

bool is_repeatable(const value& v) {
  return v.is(value_kind::string) || is_form(v, list_form::list) || is_form(v, list_form::tuple);
}

}  // namespace

value arithmetic(context& c, operation op, const value& a, const value& b) {
  if (is_number(a) && is_number(b)) {
    return is_integral(a) && is_integral(b) ? integer_arithmetic(op, a.integer, b.integer)
                                            : real_arithmetic(c, op, as_real(a), as_real(b));
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
  refuse_operands(sign_of(op), a, b);
}

value negative(const value& v) {
  if (is_integral(v)) return integer_arithmetic(operation::subtract, 0, v.integer);
  if (v.is(value_kind::real)) return make_real(-v.real);
  require_defined(v);
  context::fail("'-' does not take " + std::string(kind_name(v)));
}

}  // namespace orcd::engine::jinja
