// Compiles strings and numbers.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "engine/grammar/json_rules.hpp"
#include "engine/grammar/schema/compiler.hpp"
#include "engine/grammar/schema/formats.hpp"
#include "engine/grammar/schema/keywords.hpp"
#include "engine/grammar/schema/values.hpp"

namespace orcd::engine::grammar {

namespace json = boost::json;

namespace {

constexpr double whole_most = 999'999'999'999'999'999.0;

// A bound as the nearest integer inside it; nullopt when it excludes no number that is generated.
std::optional<std::int64_t> whole_bound(const json::object& schema, const char* inclusive,
                                        const char* exclusive, bool low, const std::string& where) {
  std::optional<std::int64_t> out;
  for (const char* name : {inclusive, exclusive}) {
    const json::value* bound = schema.if_contains(name);
    if (bound == nullptr) continue;
    if (!bound->is_number()) fail(deeper(where, name), "a bound is a number");
    double at = bound->to_number<double>();
    if (bound->is_int64() && std::abs(at) <= whole_most) {
      std::int64_t exact = bound->get_int64();
      if (name == exclusive) exact += low ? 1 : -1;
      out = out ? (low ? std::max(*out, exact) : std::min(*out, exact)) : exact;
      continue;
    }
    if (name == exclusive) at = low ? std::floor(at) + 1 : std::ceil(at) - 1;
    at = low ? std::ceil(at) : std::floor(at);
    if (low ? at > whole_most : at < -whole_most) {
      fail(deeper(where, name), "integers have at most 18 digits here");
    }
    if (std::abs(at) > whole_most) continue;
    const auto exact = static_cast<std::int64_t>(at);
    out = out ? (low ? std::max(*out, exact) : std::min(*out, exact)) : exact;
  }
  return out;
}

// The stricter one of an inclusive and an exclusive bound.
std::optional<number_bound> decimal_bound(const json::object& schema, const char* inclusive,
                                          const char* exclusive, bool low, const std::string& where) {
  std::optional<number_bound> out;
  double kept = 0;
  for (const char* name : {inclusive, exclusive}) {
    const json::value* bound = schema.if_contains(name);
    if (bound == nullptr) continue;
    if (!bound->is_number()) fail(deeper(where, name), "a bound is a number");
    const double at = bound->to_number<double>();
    if (out && (low ? at < kept : at > kept)) continue;
    kept = at;
    out = bound->is_int64() ? whole_number(bound->get_int64(), name == exclusive)
                            : decimal(at, name == exclusive);
    if (!out)
      fail(deeper(where, name),
           "the bound of a number that is not an integer has at most 15 digits, a whole one 18");
  }
  return out;
}

struct asked_text {
  std::string_view pattern;
  std::string where;
};

std::string_view text_of(const json::value& value, const std::string& where) {
  if (!value.is_string()) fail(where, "must be a string");
  return view(value.get_string());
}

// What "not" says of strings.
std::vector<expr> excluded_strings(const value_form& form, const json::object& schema,
                                   const std::string& where) {
  std::vector<expr> out;
  const json::value* list = schema.if_contains("not");
  if (list == nullptr) return out;
  const std::string at = deeper(where, "not");
  for (const json::value& part : list->as_array()) {
    if (const json::value* pattern = part.as_object().if_contains("pattern"))
      out.push_back(form.matching(text_of(*pattern, at), at));
    const json::value* values = part.as_object().if_contains("enum");
    if (values == nullptr) continue;
    for (const json::value& value : values->as_array())
      out.push_back(literal(form.text(view(value.as_string()))));
  }
  return out;
}

// A step of integers: of 0.75 it is 3.
std::uint32_t step_of(const json::value& step, bool whole, std::uint32_t limit, const std::string& at) {
  const auto by = scaled(step);
  if (!by || by->units <= 0) fail(at, "must be a number above 0 of at most 15 digits");
  if (by->places > 0 && !whole) fail(at, "must be a whole number here");
  const std::int64_t out = by->units / std::gcd(by->units, power_of_ten(by->places));
  if (out > limit) fail(at, "asks for steps of more than " + std::to_string(limit) + ", the limit");
  return static_cast<std::uint32_t>(out);
}

}  // namespace

std::uint32_t schema_compiler::count(const object& schema, const char* keyword, std::uint32_t otherwise,
                                     std::uint32_t limit, const std::string& where) const {
  const json::value* found = schema.if_contains(keyword);
  if (found == nullptr) return otherwise;
  const double number = found->is_number() ? found->to_number<double>() : -1;
  if (number < 0 || number != std::floor(number) || number > limit) {
    fail(deeper(where, keyword), "must be a whole number from 0 to " + std::to_string(limit));
  }
  return static_cast<std::uint32_t>(number);
}

expr schema_compiler::string(const object& schema, const std::string& where) {
  const json::value* format = schema.if_contains("format");
  if (format != nullptr && format->is_string() && pattern_of_format(view(format->get_string())).empty()) {
    builder_.note_ignored("format=" + std::string(view(format->get_string())));
    format = nullptr;
  }
  const std::uint32_t least = count(schema, "minLength", 0, limits_.characters, where);
  std::uint32_t most = unbounded;
  if (schema.contains("maxLength")) most = count(schema, "maxLength", 0, unbounded - 1, where);
  if (most >= limits_.characters) most = unbounded;
  if (least > most) contradict(deeper(where, "minLength"), "is above maxLength");
  std::vector<asked_text> asked;
  if (const json::value* patterns = schema.if_contains("pattern")) {
    for (const json::value& pattern : as_list(*patterns))
      asked.push_back({text_of(pattern, deeper(where, "pattern")), deeper(where, "pattern")});
  }
  if (format != nullptr) {
    const std::string at = deeper(where, "format");
    asked.push_back({pattern_of_format(text_of(*format, at)), at});
  }
  const value_form& form = shared_.form();
  std::vector<expr> excluded = excluded_strings(form, schema, where);
  const bool counted = least > 0 || most != unbounded;
  if (excluded.empty() && asked.empty()) return shared_.any_text(least, most);
  if (excluded.empty() && asked.size() == 1 && !counted)
    return shared_.matching(asked[0].pattern, asked[0].where);
  std::vector<expr> all;
  for (const asked_text& one : asked) all.push_back(form.matching(one.pattern, one.where));
  if (counted || asked.empty()) all.push_back(form.characters(least, most));
  for (const expr& no_text : form.never()) excluded.push_back(no_text);
  const rule_id rule = builder_.declare(where);
  builder_.define_common(rule, all, excluded);
  return call(rule);
}

// The integers among `body` that are multiples of the schema's multipleOf and not of what is excluded.
expr schema_compiler::multiples(const object& schema, const std::vector<std::uint32_t>& excluded,
                                const expr& body, const std::string& where) {
  const std::string at = deeper(where, "multipleOf");
  std::uint32_t by = 1;
  if (const json::value* step = schema.if_contains("multipleOf")) by = step_of(*step, true, limits_.step, at);
  if (by == 1 && excluded.empty()) return body;
  std::uint32_t period = by;
  for (const std::uint32_t step : excluded) {
    if (by % step == 0) contradict(at, "all multiples of this are excluded");
    period = std::lcm(period, step);
    if (period > limits_.step) fail(at, "takes more than " + std::to_string(limits_.step) + " remainders");
  }
  const rule_id rule = builder_.declare(at);
  builder_.define_multiples(rule, body, period, 0, [&](std::uint32_t remainder) {
    return remainder % by == 0 && std::none_of(excluded.begin(), excluded.end(),
                                               [&](std::uint32_t step) { return remainder % step == 0; });
  });
  return call(rule);
}

// Numbers that are multiples of a step with decimal places; of 15 digits in all, unless bounds have more.
expr schema_compiler::decimal_multiples(const object& schema, const std::string& where) {
  const std::string at = deeper(where, "multipleOf");
  const auto step = *scaled(schema.at("multipleOf"));
  if (schema.contains("not")) fail(at, "must be a whole number beside not");
  if (step.units > limits_.step) {
    fail(at, "has more than " + std::to_string(limits_.step) + " units of its last decimal place, the limit");
  }
  constexpr std::uint32_t exact_digits = 15;
  const std::int64_t most = power_of_ten(exact_digits - std::min(step.places, exact_digits)) - 1;
  auto low = decimal_bound(schema, "minimum", "exclusiveMinimum", true, where);
  auto high = decimal_bound(schema, "maximum", "exclusiveMaximum", false, where);
  if (!low && (!high || !high->negative || high->whole <= static_cast<std::uint64_t>(most)))
    low = whole_number(-most, false);
  if (!high && (!low || low->negative || low->whole <= static_cast<std::uint64_t>(most)))
    high = whole_number(most, false);
  const expr between = number_between(low, high);
  if (between == nullptr) contradict(where, "no number lies between the bounds");
  const rule_id rule = builder_.declare(at);
  builder_.define_multiples(rule, between, static_cast<std::uint32_t>(step.units), step.places,
                            [](std::uint32_t remainder) { return remainder == 0; });
  return call(rule);
}

expr schema_compiler::number(const object& schema, bool whole, const std::string& where) {
  if (const json::value* step = schema.if_contains("multipleOf"); step != nullptr && !whole) {
    const auto by = scaled(*step);
    if (by && by->units > 0 && by->places > 0) return decimal_multiples(schema, where);
  }
  bool fractions = false;  // no integers
  std::vector<std::uint32_t> excluded;
  if (const json::value* list = schema.if_contains("not")) {
    for (const json::value& part : list->as_array()) {
      fractions = fractions || part.as_object().contains("type");
      if (const json::value* step = part.as_object().if_contains("multipleOf"))
        excluded.push_back(step_of(*step, whole, limits_.step, deeper(where, "not")));
    }
  }
  // A multiple of a whole number is an integer, and so are those that are generated for what is none.
  whole = whole || schema.contains("multipleOf") || (!excluded.empty() && !fractions);
  if (whole && fractions) contradict(where, "integers are asked for and excluded");
  if (whole) {
    const auto low = whole_bound(schema, "minimum", "exclusiveMinimum", true, where);
    const auto high = whole_bound(schema, "maximum", "exclusiveMaximum", false, where);
    if (!low && !high && excluded.empty() && !schema.contains("multipleOf"))
      return shared_.plain_number(true);
    if (low && high && *low > *high) contradict(where, "no integer lies between the bounds");
    return multiples(schema, excluded, integer_between(low, high), where);
  }
  const auto low = decimal_bound(schema, "minimum", "exclusiveMinimum", true, where);
  const auto high = decimal_bound(schema, "maximum", "exclusiveMaximum", false, where);
  if (!low && !high && !fractions) return shared_.plain_number(false);
  const expr between = number_between(low, high);
  if (between == nullptr) contradict(where, "no number lies between the bounds");
  if (!fractions) return between;
  const rule_id rule = builder_.declare(where);
  builder_.define_common(rule, {between, proper_fraction()}, {});
  return call(rule);
}

}  // namespace orcd::engine::grammar
