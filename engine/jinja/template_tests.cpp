// The tests after `is`.
#include <algorithm>

#include "engine/jinja/template_arithmetic.hpp"
#include "engine/jinja/template_format.hpp"
#include "engine/jinja/template_library.hpp"
#include "engine/jinja/template_operators.hpp"
#include "engine/jinja/template_text.hpp"

namespace orcd::engine::jinja {
namespace {

using kind = value_kind;

template <kind... Kinds>
value test_kind(context&, const value& self, const arguments&) {
  return make_bool(((self.kind == Kinds) || ...));
}

value test_defined(context&, const value& self, const arguments&) {
  return make_bool(!self.is(kind::undefined));
}

value test_number(context&, const value& self, const arguments&) {
  return make_bool(is_number(self) || self.is(kind::large));
}

template <bool Wanted>
value test_boolean_value(context&, const value& self, const arguments&) {
  return make_bool(self.is(kind::boolean) && (self.integer != 0) == Wanted);
}

value test_sequence(context&, const value& self, const arguments&) {
  return make_bool(is_indexed(self) || self.is(kind::string) || self.is(kind::dict) ||
                   self.is(kind::undefined));
}

value test_iterable(context&, const value& self, const arguments&) {
  return make_bool(self.is(kind::list) || self.is(kind::string) || self.is(kind::dict) ||
                   self.is(kind::undefined) || self.is(kind::loop));
}

template <operation Op>
value test_compare(context& c, const value& self, const arguments& a) {
  return make_bool(compare(c, Op, self, a[0]));
}

value remainder(context& c, const value& self, const value& by) {
  if (!is_number(self)) {
    require_defined(self);
    c.fail("odd, even and divisibleby take a number, not " + std::string(kind_name(self)));
  }
  return arithmetic(c, operation::modulo, self, by);
}

value test_odd(context& c, const value& self, const arguments&) {
  return make_bool(equal(c, remainder(c, self, make_integer(2)), make_integer(1)));
}
value test_even(context& c, const value& self, const arguments&) {
  return make_bool(equal(c, remainder(c, self, make_integer(2)), make_integer(0)));
}
value test_divisible(context& c, const value& self, const arguments& a) {
  return make_bool(equal(c, remainder(c, self, a[0]), make_integer(0)));
}

template <text_class Which>
value test_case(context& c, const value& self, const arguments&) {
  const std::string_view text = text_of(c, self);
  c.charge(cost::mapped(text.size()));
  return make_bool(all_of_class(text, Which));
}

value test_same(context& c, const value& self, const arguments& a) {
  return make_bool(self.kind == a[0].kind && equal(c, self, a[0]));
}

value test_filter(context& c, const value& self, const arguments&) {
  c.charge(cost::call);
  return make_bool(self.is(kind::string) && find_filter(self.view()) != nullptr);
}
value test_test(context& c, const value& self, const arguments&) {
  c.charge(cost::call);
  return make_bool(self.is(kind::string) && find_test(self.view()) != nullptr);
}

constexpr test_row row(std::string_view name, library_function run, std::string_view parameters = {}) {
  return test_row{{name, run, parameters, parameters.empty() ? 0U : 1U}};
}

constexpr std::array rows{
    row("defined", test_defined),
    row("undefined", test_kind<kind::undefined>),
    row("none", test_kind<kind::none>),
    row("string", test_kind<kind::string>),
    row("number", test_number),
    row("integer", test_kind<kind::integer, kind::large>),
    row("float", test_kind<kind::real>),
    row("boolean", test_kind<kind::boolean>),
    row("true", test_boolean_value<true>),
    row("false", test_boolean_value<false>),
    row("mapping", test_kind<kind::dict>),
    row("sequence", test_sequence),
    row("iterable", test_iterable),
    row("callable", test_kind<kind::macro, kind::method, kind::function, kind::loop>),
    row("in", test_compare<operation::in>, "seq"),
    row("eq", test_compare<operation::equal>, "other"),
    row("==", test_compare<operation::equal>, "other"),
    row("equalto", test_compare<operation::equal>, "other"),
    row("ne", test_compare<operation::not_equal>, "other"),
    row("!=", test_compare<operation::not_equal>, "other"),
    row("lt", test_compare<operation::less>, "other"),
    row("<", test_compare<operation::less>, "other"),
    row("lessthan", test_compare<operation::less>, "other"),
    row("le", test_compare<operation::less_equal>, "other"),
    row("<=", test_compare<operation::less_equal>, "other"),
    row("gt", test_compare<operation::greater>, "other"),
    row(">", test_compare<operation::greater>, "other"),
    row("greaterthan", test_compare<operation::greater>, "other"),
    row("ge", test_compare<operation::greater_equal>, "other"),
    row(">=", test_compare<operation::greater_equal>, "other"),
    row("odd", test_odd),
    row("even", test_even),
    row("divisibleby", test_divisible, "num"),
    row("lower", test_case<text_class::lowercase>),
    row("upper", test_case<text_class::uppercase>),
    row("sameas", test_same, "other"),
    row("filter", test_filter),
    row("test", test_test),
};

}  // namespace

const test_row* find_test(std::string_view name) noexcept {
  const auto* found =
      std::find_if(rows.begin(), rows.end(), [&](const test_row& r) { return r.name == name; });
  return found == rows.end() ? nullptr : found;
}

}  // namespace orcd::engine::jinja
