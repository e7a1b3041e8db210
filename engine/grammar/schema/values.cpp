#include "engine/grammar/schema/values.hpp"

#include <algorithm>
#include <cmath>

#include "engine/grammar/json_rules.hpp"
#include "engine/grammar/schema/formats.hpp"
#include "engine/grammar/schema/keywords.hpp"

namespace orcd::engine::grammar {

namespace json = boost::json;

namespace {

/// Up to here a double tells integers apart.
constexpr double exact_most = 9'007'199'254'740'992.0;

bool equal_numbers(const json::value& a, const json::value& b) {
  if (a.is_double() && b.is_double()) return a.get_double() == b.get_double();
  if (!a.is_double() && !b.is_double()) return a == b;
  const double real = a.is_double() ? a.get_double() : b.get_double();
  const json::value& whole = a.is_double() ? b : a;
  if (real != std::floor(real) || real < -9.3e18 || real > 1.85e19) return false;
  if (whole.is_uint64())
    return real >= 0 && real < 18'446'744'073'709'551'616.0 &&
           static_cast<std::uint64_t>(real) == whole.get_uint64();
  return real >= -9'223'372'036'854'775'808.0 && real < 9'223'372'036'854'775'808.0 &&
         static_cast<std::int64_t>(real) == whole.get_int64();
}

verdict from(bool valid) {
  return valid ? verdict::yes : verdict::no;
}

verdict opposite(verdict of) {
  if (of == verdict::unknown) return of;
  return from(of == verdict::no);
}

/// What is true when all parts are.
class conjunction {
 public:
  /// False when nothing can change the outcome any more.
  bool add(verdict part) {
    if (part == verdict::no) out_ = verdict::no;
    if (part == verdict::unknown && out_ == verdict::yes) out_ = verdict::unknown;
    return out_ != verdict::no;
  }
  [[nodiscard]] verdict get() const { return out_; }

 private:
  verdict out_ = verdict::yes;
};

verdict judge_any(const json::value& value, const json::array& list) {
  conjunction none;
  for (const json::value& part : list) {
    if (!none.add(opposite(judge(value, part)))) break;
  }
  return opposite(none.get());
}

verdict judge_one(const json::value& value, const json::array& list) {
  std::size_t valid = 0, unknown = 0;
  for (const json::value& part : list) {
    const verdict here = judge(value, part);
    valid += here == verdict::yes ? 1 : 0;
    unknown += here == verdict::unknown ? 1 : 0;
  }
  if (valid > 1) return verdict::no;
  return unknown > 0 ? verdict::unknown : from(valid == 1);
}

/// A bound that is a whole number; -1 otherwise.
std::int64_t count_of(const json::value& bound) {
  const double at = bound.is_number() ? bound.to_number<double>() : -1;
  return at < 0 || at != std::floor(at) || at > exact_most ? -1 : static_cast<std::int64_t>(at);
}

verdict judge_bound(const json::value& value, std::string_view keyword, const json::value& bound) {
  if (!value.is_number()) return verdict::yes;
  if (!bound.is_number()) return verdict::unknown;
  const double a = value.to_number<double>(), b = bound.to_number<double>();
  if (std::abs(a) >= exact_most && std::abs(b) >= exact_most) return verdict::unknown;
  if (keyword == "minimum") return from(a >= b);
  if (keyword == "maximum") return from(a <= b);
  if (keyword == "exclusiveMinimum") return from(a > b);
  return from(a < b);
}

verdict judge_step(const json::value& value, const json::value& step) {
  if (!value.is_number()) return verdict::yes;
  const auto by = scaled(step), of = scaled(value);
  if (!by || !of || by->units <= 0) return verdict::unknown;
  if (of->units == 0) return verdict::yes;
  const std::uint32_t places = std::max(by->places, of->places);
  // In units of the finer of both; where these are too many for 18 digits it cannot be told.
  const auto in_units = [&](const scaled_number& one) -> std::int64_t {
    constexpr std::int64_t most = 999'999'999'999'999'999;
    const std::int64_t factor = places - one.places > 18 ? most : power_of_ten(places - one.places);
    return std::abs(one.units) > most / factor ? 0 : one.units * factor;
  };
  const std::int64_t a = in_units(*of), b = in_units(*by);
  return a == 0 || b == 0 ? verdict::unknown : from(a % b == 0);
}

verdict judge_count(std::uint64_t count, const json::value& bound, bool low) {
  const std::int64_t at = count_of(bound);
  if (at < 0) return verdict::unknown;
  return from(low ? count >= static_cast<std::uint64_t>(at) : count <= static_cast<std::uint64_t>(at));
}

verdict judge_types(const json::value& value, const json::object& schema) {
  if (schema.contains("nullable")) return verdict::unknown;
  for (const json::value& type : as_list(schema.at("type"))) {
    if (!type.is_string()) return verdict::unknown;
    if (has_type(value, view(type.get_string()))) return verdict::yes;
  }
  return verdict::no;
}

verdict judge_text(const json::string& value, std::string_view keyword, const json::value& asked) {
  if (keyword == "format") {
    const bool known = !asked.is_string() || !pattern_of_format(view(asked.get_string())).empty();
    return known ? verdict::unknown : verdict::yes;
  }
  if (keyword == "pattern") return verdict::unknown;
  return judge_count(characters_of(view(value)), asked, keyword == "minLength");
}

verdict judge_items(const json::array& value, const json::object& schema, std::string_view keyword) {
  const json::value* prefix = schema.if_contains("prefixItems");
  const json::value* rest = schema.if_contains("items");
  if ((prefix != nullptr && !prefix->is_array()) || (rest != nullptr && rest->is_array()))
    return verdict::unknown;
  const std::size_t before = prefix == nullptr ? 0 : prefix->get_array().size();
  conjunction all;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (keyword == "prefixItems" && i < before && !all.add(judge(value[i], prefix->get_array()[i]))) break;
    if (keyword == "items" && i >= before && !all.add(judge(value[i], *rest))) break;
  }
  return all.get();
}

verdict judge_contains(const json::array& value, const json::object& schema) {
  std::uint64_t valid = 0, unknown = 0;
  for (const json::value& item : value) {
    const verdict here = judge(item, schema.at("contains"));
    valid += here == verdict::yes ? 1 : 0;
    unknown += here == verdict::unknown ? 1 : 0;
  }
  const json::value* low = schema.if_contains("minContains");
  const json::value* high = schema.if_contains("maxContains");
  const auto within = [&](std::uint64_t counted) {
    conjunction both;
    both.add(low == nullptr ? from(counted > 0) : judge_count(counted, *low, true));
    if (high != nullptr) both.add(judge_count(counted, *high, false));
    return both.get();
  };
  const verdict least = within(valid);
  // Where those that cannot be told could change it, it cannot be told.
  for (std::uint64_t more = 1; more <= unknown; ++more) {
    if (within(valid + more) != least) return verdict::unknown;
  }
  return least;
}

verdict judge_array(const json::array& value, const json::object& schema, std::string_view keyword) {
  const json::value& asked = schema.at({keyword.data(), keyword.size()});
  if (keyword == "items" || keyword == "prefixItems") return judge_items(value, schema, keyword);
  if (keyword == "uniqueItems") {
    if (!asked.is_bool()) return verdict::unknown;
    for (std::size_t i = 0; asked.get_bool() && i < value.size(); ++i) {
      if (has({value.data(), i}, value[i])) return verdict::no;
    }
    return verdict::yes;
  }
  if (keyword == "contains") return judge_contains(value, schema);
  if (keyword == "minContains" || keyword == "maxContains") return verdict::yes;  // with contains
  return judge_count(value.size(), asked, keyword == "minItems");
}

verdict judge_properties(const json::object& value, const json::object& properties) {
  conjunction all;
  for (const auto& member : value) {
    const json::value* asked = properties.if_contains(member.key());
    if (asked != nullptr && !all.add(judge(member.value(), *asked))) break;
  }
  return all.get();
}

verdict judge_further(const json::object& value, const json::object& schema) {
  const json::value* named = schema.if_contains("properties");
  if (schema.contains("patternProperties") || (named != nullptr && !named->is_object()))
    return value.empty() ? verdict::yes : verdict::unknown;
  conjunction all;
  for (const auto& member : value) {
    if (named != nullptr && named->get_object().contains(member.key())) continue;
    if (!all.add(judge(member.value(), schema.at("additionalProperties")))) break;
  }
  return all.get();
}

verdict judge_required(const json::object& value, const json::value& names) {
  if (!names.is_array()) return verdict::unknown;
  for (const json::value& name : names.get_array()) {
    if (!name.is_string()) return verdict::unknown;
    if (!value.contains(name.get_string())) return verdict::no;
  }
  return verdict::yes;
}

verdict judge_names(const json::object& value, const json::value& schema) {
  conjunction all;
  for (const auto& member : value) {
    if (!all.add(judge(json::string(member.key()), schema))) break;
  }
  return all.get();
}

/// dependentRequired and dependentSchemas.
verdict judge_dependents(const json::object& value, const json::value& asked, bool names) {
  if (!asked.is_object()) return verdict::unknown;
  conjunction all;
  for (const auto& member : asked.get_object()) {
    if (!value.contains(member.key())) continue;
    if (!all.add(names ? judge_required(value, member.value()) : judge(value, member.value()))) break;
  }
  return all.get();
}

verdict judge_object(const json::object& value, const json::object& schema, std::string_view keyword) {
  const json::value& asked = schema.at({keyword.data(), keyword.size()});
  if (keyword == "required") return judge_required(value, asked);
  if (keyword == "properties")
    return asked.is_object() ? judge_properties(value, asked.get_object()) : verdict::unknown;
  if (keyword == "additionalProperties") return judge_further(value, schema);
  if (keyword == "propertyNames") return judge_names(value, asked);
  if (keyword == "dependentRequired" || keyword == "dependentSchemas")
    return judge_dependents(value, asked, keyword == "dependentRequired");
  if (keyword == "minProperties" || keyword == "maxProperties")
    return judge_count(value.size(), asked, keyword == "minProperties");
  return value.empty() ? verdict::yes : verdict::unknown;
}

verdict judge_condition(const json::value& value, const json::object& schema) {
  const json::value& condition = schema.at("if");
  if (condition.is_array()) {  // lists of alternatives, one of each
    conjunction all;
    for (const json::value& list : condition.get_array()) {
      if (!all.add(judge_any(value, list.as_array()))) break;
    }
    return all.get();
  }
  const verdict holds = judge(value, condition);
  const json::value* then = schema.if_contains("then");
  const json::value* otherwise = schema.if_contains("else");
  const auto of = [&](const json::value* part) {
    return part == nullptr ? verdict::yes : judge(value, *part);
  };
  if (holds == verdict::yes) return of(then);
  if (holds == verdict::no) return of(otherwise);
  return of(then) == verdict::yes && of(otherwise) == verdict::yes ? verdict::yes : verdict::unknown;
}

verdict judge_combined(const json::value& value, const json::object& schema, std::string_view keyword) {
  const json::value& asked = schema.at({keyword.data(), keyword.size()});
  if (keyword == "not") {
    conjunction all;
    for (const json::value& part : as_list(asked)) all.add(opposite(judge(value, part)));
    return all.get();
  }
  if (keyword == "if") return judge_condition(value, schema);
  if (!asked.is_array()) return verdict::unknown;
  if (keyword == "anyOf") return judge_any(value, asked.get_array());
  if (keyword == "oneOf") return judge_one(value, asked.get_array());
  conjunction all;
  for (const json::value& part : asked.get_array()) {
    if (!all.add(judge(value, part))) break;
  }
  return all.get();
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

// Written here because Boost.JSON's own comparison copies the members of objects, and tells 1 and 1.0 apart.
bool same_value(const json::value& a, const json::value& b) {
  compile_budget::work(1);
  if (a.is_array() && b.is_array()) {
    const json::array &left = a.get_array(), &right = b.get_array();
    return std::equal(left.begin(), left.end(), right.begin(), right.end(), same_value);
  }
  if (a.is_object() && b.is_object()) {
    const json::object &left = a.get_object(), &right = b.get_object();
    return left.size() == right.size() && std::all_of(left.begin(), left.end(), [&](const auto& member) {
             const json::value* other = right.if_contains(member.key());
             return other != nullptr && same_value(member.value(), *other);
           });
  }
  if (a.is_structured() || b.is_structured()) return false;
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.is_string()) compile_budget::work(a.get_string().size() / 1'024);
  return a == b;
}

std::uint64_t size_of(const json::value& value) {
  constexpr std::size_t bytes_a_step = 64;
  std::uint64_t out = 1;
  if (const json::string* text = value.if_string()) {
    out += text->size() / bytes_a_step;
  } else if (const json::array* list = value.if_array()) {
    for (const json::value& item : *list) out += size_of(item);
  } else if (const json::object* object = value.if_object()) {
    for (const auto& member : *object) out += size_of(member.value()) + member.key().size() / bytes_a_step;
  }
  return out;
}

bool has(std::span<const json::value> list, const json::value& value) {
  return std::any_of(list.begin(), list.end(),
                     [&](const json::value& item) { return same_value(item, value); });
}

std::span<const json::value> as_list(const json::value& value) {
  if (!value.is_array()) return {&value, 1};
  return {value.get_array().data(), value.get_array().size()};
}

std::span<const json::value> values_of(const json::object& schema) {
  if (const json::value* value = schema.if_contains("const")) return {value, 1};
  const json::value* list = schema.if_contains("enum");
  return list != nullptr && list->is_array() ? as_list(*list) : std::span<const json::value>();
}

bool has_type(const json::value& value, std::string_view type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_bool();
  if (type == "string") return value.is_string();
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "number") return value.is_number();
  return type == "integer" && value.is_number() &&
         (!value.is_double() || value.get_double() == std::floor(value.get_double()));
}

std::uint64_t characters_of(std::string_view text) noexcept {
  return static_cast<std::uint64_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

verdict judge(const json::value& value, const json::value& schema) {
  compile_budget::work(4);
  if (schema.is_bool()) return from(schema.get_bool());
  if (!schema.is_object()) return verdict::unknown;
  conjunction all;
  for (const auto& member : schema.get_object()) {
    if (!all.add(judge_keyword(value, schema.get_object(), view(member.key())))) break;
  }
  return all.get();
}

verdict judge_keyword(const json::value& value, const json::object& schema, std::string_view keyword) {
  compile_budget::work(8);
  const json::value& asked = schema.at({keyword.data(), keyword.size()});
  if (kind_of_keyword(keyword) == keyword_kind::annotation || is_one_of(keyword, {"then", "else"}))
    return verdict::yes;
  if (keyword == "type") return judge_types(value, schema);
  if (keyword == "const") return from(same_value(value, asked));
  if (keyword == "enum") return asked.is_array() ? from(has(as_list(asked), value)) : verdict::unknown;
  if (is_one_of(keyword, {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}))
    return judge_bound(value, keyword, asked);
  if (keyword == "multipleOf") return judge_step(value, asked);
  if (is_one_of(keyword, {"minLength", "maxLength", "pattern", "format"}))
    return value.is_string() ? judge_text(value.get_string(), keyword, asked) : verdict::yes;
  if (is_one_of(keyword, {"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains",
                          "minContains", "maxContains"}))
    return value.is_array() ? judge_array(value.get_array(), schema, keyword) : verdict::yes;
  if (is_one_of(keyword,
                {"required", "properties", "additionalProperties", "patternProperties", "propertyNames",
                 "minProperties", "maxProperties", "dependentRequired", "dependentSchemas"}))
    return value.is_object() ? judge_object(value.get_object(), schema, keyword) : verdict::yes;
  if (is_one_of(keyword, {"not", "if", "allOf", "anyOf", "oneOf"}))
    return judge_combined(value, schema, keyword);
  return verdict::unknown;
}

}  // namespace orcd::engine::grammar
