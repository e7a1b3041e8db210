#include "engine/grammar/schema/compiler.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/grammar/json_rules.hpp"
#include "engine/grammar/regex.hpp"
#include "engine/grammar/schema/document.hpp"
#include "engine/grammar/schema/flatten.hpp"
#include "engine/grammar/schema/formats.hpp"
#include "engine/grammar/schema/forms.hpp"
#include "engine/grammar/schema/merge.hpp"
#include "engine/grammar/schema/negation.hpp"
#include "engine/grammar/schema/values.hpp"

namespace orcd::engine::grammar {

namespace {

namespace json = boost::json;

struct keyword_type {
  std::string_view keyword, type;
};
/// The types that keywords imply in a schema without a type.
constexpr auto implied_types = std::to_array<keyword_type>({{"properties", "object"},
                                                            {"required", "object"},
                                                            {"additionalProperties", "object"},
                                                            {"patternProperties", "object"},
                                                            {"propertyNames", "object"},
                                                            {"minProperties", "object"},
                                                            {"maxProperties", "object"},
                                                            {"items", "array"},
                                                            {"prefixItems", "array"},
                                                            {"minItems", "array"},
                                                            {"maxItems", "array"},
                                                            {"pattern", "string"},
                                                            {"format", "string"},
                                                            {"minLength", "string"},
                                                            {"maxLength", "string"},
                                                            {"minimum", "number"},
                                                            {"maximum", "number"},
                                                            {"exclusiveMinimum", "number"},
                                                            {"exclusiveMaximum", "number"},
                                                            {"multipleOf", "number"},
                                                            {"uniqueItems", "array"},
                                                            {"contains", "array"}});

std::vector<std::string_view> types_of(const json::object& schema, const std::string& where) {
  std::vector<std::string_view> out;
  const json::value* type = schema.if_contains("type");
  if (type == nullptr) {
    for (const auto& [keyword, implied] : implied_types) {
      if (schema.contains({keyword.data(), keyword.size()}) &&
          std::find(out.begin(), out.end(), implied) == out.end()) {
        out.push_back(implied);
      }
    }
    return out;
  }
  const std::string at = deeper(where, "type");
  const auto add = [&](const json::value& name) {
    if (!name.is_string()) fail(at, "a type is a string");
    out.push_back(view(name.get_string()));
  };
  if (!type->is_array()) {
    add(*type);
  } else {
    for (const json::value& name : type->get_array()) add(name);
    if (out.empty() || out.size() > 7) fail(at, "a list of types has 1 to 7");
  }
  return out;
}

/// Compiles alternatives and leaves out those under which no value is valid.
class attempts {
 public:
  explicit attempts(std::uint32_t& trying) : trying_(trying) { ++trying_; }
  ~attempts() { --trying_; }
  attempts(const attempts&) = delete;
  attempts& operator=(const attempts&) = delete;

  template <class Make>
  void add(const Make& make) {
    try {
      out_.push_back(make());
    } catch (const grammar_failure& failure) {
      if (!failure.impossible) throw;
      if (!first_) first_ = failure;
    }
  }
  [[nodiscard]] expr finish() {
    if (out_.empty() && first_) throw grammar_failure(*first_);
    return choice(std::move(out_));
  }

 private:
  std::uint32_t& trying_;
  std::vector<expr> out_;
  std::optional<grammar_failure> first_;
};

}  // namespace

json_grammar::json_grammar(program_builder& builder, value_form form)
    : builder_(builder),
      form_(std::move(form)),
      // A form of a model's own is written as the model writes it.
      gap_(form_.is_json() ? call(builder.add("#", whitespace())) : literal("")) {}

expr json_grammar::plain_number(bool whole) {
  auto& made = numbers_[whole ? 1 : 0];
  if (!made) made = call(builder_.add("#", whole ? integer() : number()));
  return *made;
}

expr json_grammar::any_text(std::uint32_t least, std::uint32_t most) {
  if (form_.is_json()) return counted_call(string_rule, least, most);
  const bool counted = least > 0 || most != unbounded;
  if (!counted && text_) return *text_;
  const rule_id rule = builder_.declare("#");
  builder_.define_common(rule, {form_.characters(least, most)}, form_.never());
  if (!counted) text_ = call(rule);
  return call(rule);
}

expr json_grammar::matching(std::string_view pattern, const std::string& where) {
  const auto known = patterns_.find(pattern);
  if (known != patterns_.end()) return known->second;
  const compile_budget::place here(where);
  const expr body = form_.matching(pattern, where);
  const rule_id rule = builder_.declare(where);
  if (form_.is_json()) {
    builder_.define(rule, body);
  } else {
    builder_.define_common(rule, {body}, form_.never());
  }
  return patterns_.emplace(pattern, call(rule)).first->second;
}

expr json_grammar::any_name() {
  if (form_.is_json()) return call(string_rule);
  if (!name_) name_ = call(builder_.add("#", form_.plain_name()));
  return *name_;
}

expr json_grammar::name_matching(std::string_view pattern, const std::string& where) {
  if (form_.is_json()) return matching(pattern, where);
  const rule_id rule = builder_.declare(where);
  builder_.define_common(rule, {form_.plain_name(), form_.name_matching(pattern, where)}, {});
  return call(rule);
}

expr json_grammar::any_value() {
  define_any();
  return call(value_);
}

expr json_grammar::any_object() {
  define_any();
  return call(object_);
}

void json_grammar::define_any() {
  if (std::exchange(defined_, true)) return;
  value_ = builder_.declare("#");
  object_ = builder_.declare("#");
  const rule_id array = builder_.declare("#");
  const expr comma = sequence({literal(","), gap_});
  const auto listed = [&](const char* open, const expr& item, const char* close) {
    return sequence({literal(open), gap_,
                     optional(sequence({item, repeat(sequence({comma, item}), 0, unbounded), gap_})),
                     literal(close)});
  };
  builder_.define(object_, listed("{", sequence({any_name(), literal(":"), gap_, call(value_)}), "}"));
  builder_.define(array, listed("[", call(value_), "]"));
  builder_.define(value_, choice({call(object_), call(array), any_text(), plain_number(false),
                                  literal("true"), literal("false"), literal("null")}));
}

schema_compiler::schema_compiler(program_builder& builder, json_grammar& shared, const json::value& root,
                                 bool strict, const schema_limits& limits)
    : builder_(builder),
      shared_(shared),
      rewritten_(with_plain_references(root)),
      root_(rewritten_ ? *rewritten_ : root),
      strict_(strict),
      limits_(limits) {
  each_unknown_keyword(root, [&](std::string_view name) {
    builder_.note_ignored("keyword=" + std::string(name.substr(0, path_step_bytes_max)));
  });
}

expr schema_compiler::value(const json::value& schema, const std::string& where, std::uint32_t depth) {
  if (depth > schema_depth_max) {
    fail(where, "the schema is nested more than " + std::to_string(schema_depth_max) + " deep");
  }
  const compile_budget::place here(where);
  if (++subschemas_ > limits_.subschemas) {
    fail(where, "the schema has more than " + std::to_string(limits_.subschemas) + " parts");
  }
  if (schema.is_bool()) return schema.get_bool() ? shared_.any_value() : choice({});
  if (!schema.is_object()) fail(where, "a schema is an object or a boolean");
  std::string_view only;  // the constraint, if there is just one
  std::size_t constraints = 0;
  compile_budget::work(20 + 4 * schema.get_object().size());
  for (const auto& member : schema.get_object()) {
    const std::string_view name = view(member.key());
    const keyword_kind kind = kind_of_keyword(name);
    if (kind == keyword_kind::unsupported) fail(deeper(where, name), "this keyword is not supported");
    if (kind == keyword_kind::annotation) continue;
    if (strict_ && (name == "not" || name == "if" || name.starts_with("depende")))
      fail(deeper(where, name), "is not supported in strict mode");
    ++constraints;
    only = name;
  }
  // A $ref alone is not merged, so that it may be recursive.
  if (constraints == 1 && only == "$ref") {
    const std::string at = deeper(where, "$ref");
    const json::value& name = schema.get_object().at("$ref");
    if (!name.is_string()) fail(at, "a reference is a string");
    return reference(resolve_reference(root_, view(name.get_string()), at), path_of(view(name.get_string())),
                     depth);
  }
  if (constraints == 1 && only == "allOf") {
    const json::array* all = schema.get_object().at("allOf").if_array();
    if (all != nullptr && all->size() == 1) return value(all->front(), where + "/allOf/0", depth + 1);
  }
  return flat(flatten_schema(root_, schema, where, depth), where, depth);
}

expr schema_compiler::reference(const json::value& target, const std::string& where, std::uint32_t depth) {
  const auto found = references_.find(&target);
  if (found != references_.end()) return call(found->second);
  const rule_id rule = builder_.declare(where);
  references_.emplace(&target, rule);
  try {
    builder_.define(rule, value(target, where, depth + 1));
  } catch (const grammar_failure& failure) {
    // Where this was one of several alternatives the rule stays, and may be called by others.
    if (!failure.impossible || trying_ == 0) throw;
    builder_.define(rule, choice({}));
  }
  return call(rule);
}

expr schema_compiler::part(const json::value& schema, const std::string& where, std::uint32_t depth,
                           bool required) {
  if (required || trying_ == 0) return value(schema, where, depth);
  try {
    return value(schema, where, depth);
  } catch (const grammar_failure& failure) {
    if (!failure.impossible) throw;
    return choice({});
  }
}

expr schema_compiler::flat(const object& schema, const std::string& where, std::uint32_t depth) {
  if (schema.contains("if")) return choices(schema, where, depth);
  if (schema.contains("anyOf")) return any_of(schema, where, depth);
  if (schema.contains("oneOf")) return one_of(schema, where, depth);
  for (const char* keyword : unevaluated) {
    const json::value* asked = schema.if_contains(keyword);
    if (asked == nullptr) continue;
    object closed = copied(schema);
    closed.erase(keyword);
    close_unevaluated(closed, keyword, *asked);
    return flat(closed, where, depth);
  }
  if (schema.contains("enum")) return values(schema, where);
  const auto types = types_of(schema, where);
  if (types.empty()) return shared_.any_value();
  std::vector<expr> out;
  for (const std::string_view type : types) {
    // "number" includes every integer.
    if (type == "integer" && std::find(types.begin(), types.end(), "number") != types.end()) continue;
    out.push_back(of_type(type, schema, where, depth));
  }
  return choice(std::move(out));
}

// Takes the first of the lists of alternatives and leaves the others to each of its schemas.
expr schema_compiler::choices(const object& schema, const std::string& where, std::uint32_t depth) {
  object base = copied(schema);
  json::array lists = std::move(base.at("if").get_array());
  base.erase("if");
  const json::array list = std::move(lists.front().get_array());
  lists.erase(lists.begin());
  if (!lists.empty()) base.emplace("if", std::move(lists));
  // The alternatives tell of all types, of which the schema's keywords may imply one.
  if (const auto types = types_of(base, where); !base.contains("type") && !types.empty()) {
    json::array names(compile_budget::json());
    for (const std::string_view type : types) names.push_back(json::string_view(type.data(), type.size()));
    base.emplace("type", std::move(names));
  }
  attempts found(trying_);
  for (const json::value& one : list) {
    found.add([&] {
      return flat(merge_schemas(copied(base), flatten_schema(root_, one, where, depth + 1), where), where,
                  depth + 1);
    });
  }
  return found.finish();
}

const json::array& schema_compiler::alternatives(const object& schema, const char* keyword,
                                                 const std::string& at) const {
  const json::array* list = schema.at(keyword).if_array();
  if (list == nullptr || list->empty() || list->size() > limits_.branches)
    fail(at, "a list of 1 to " + std::to_string(limits_.branches) + " schemas is expected");
  return *list;
}

expr schema_compiler::any_of(const object& schema, const std::string& where, std::uint32_t depth) {
  const std::string at = deeper(where, "anyOf");
  const compile_budget::place working(at);
  const json::array& list = alternatives(schema, "anyOf", at);
  object base = copied(schema);
  base.erase("anyOf");
  attempts found(trying_);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string here = deeper(at, std::to_string(i));
    found.add([&] {
      if (base.empty()) return value(list[i], here, depth + 1);
      return flat(merge_schemas(copied(base), flatten_schema(root_, list[i], here, depth + 1), here), here,
                  depth + 1);
    });
  }
  return found.finish();
}

// A value must be valid under exactly one alternative: each is compiled with what the others refuse, unless
// they exclude each other anyhow.
expr schema_compiler::one_of(const object& schema, const std::string& where, std::uint32_t depth) {
  const std::string at = deeper(where, "oneOf");
  const compile_budget::place working(at);
  const json::array& list = alternatives(schema, "oneOf", at);
  std::vector<std::optional<object>> flattened;
  for (std::size_t i = 0; i < list.size(); ++i) {
    try {
      flattened.emplace_back(flatten_schema(root_, list[i], deeper(at, std::to_string(i)), depth + 1));
    } catch (const grammar_failure& failure) {
      if (!failure.impossible) throw;
      flattened.emplace_back();
    }
  }
  object base = copied(schema);
  base.erase("oneOf");
  attempts found(trying_);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string here = deeper(at, std::to_string(i));
    found.add([&] {
      if (!flattened[i]) contradict(here, "no value is valid under this");
      object one = merge_schemas(copied(base), *flattened[i], here);
      bool overlaps = false;
      for (std::size_t j = 0; j < list.size(); ++j) {
        if (i == j || !flattened[j] || excludes(*flattened[i], *flattened[j])) continue;
        overlaps = true;
        for (const char* keyword : unevaluated) {
          if (base.contains(keyword))
            fail(deeper(where, keyword), "is not supported beside oneOf whose alternatives overlap");
        }
        leave_out(one, list[j], here, j, depth);
      }
      return overlaps || !base.empty() ? flat(one, here, depth + 1) : value(list[i], here, depth + 1);
    });
  }
  return found.finish();
}

void schema_compiler::leave_out(object& from, const json::value& other, const std::string& where,
                                std::size_t number, std::uint32_t depth) const {
  try {
    add_choice(root_, from, alternatives_to(root_, other, where, depth + 1), where, depth);
  } catch (const grammar_failure& failure) {
    if (failure.impossible) throw;
    fail(where, "cannot be told apart from alternative " + std::to_string(number) +
                    ": alternatives of oneOf need different types, a required property with different "
                    "constants, or a form that can be negated (" +
                    failure.where + ": " + failure.what + "); use anyOf");
  }
}

bool schema_compiler::fits(const json::value& value, const object& schema, const std::string& keyword,
                           const std::string& at) {
  const json::value& asked = schema.at(keyword);
  const auto matches = [&](const json::value& pattern) {
    if (!pattern.is_string()) fail(at, "must be a string");
    return builder_.matches(shared_.matching(view(pattern.get_string()), at)->rule,
                            shared_.form().text(view(value.get_string())));
  };
  if (value.is_string() && keyword == "pattern")
    return std::all_of(as_list(asked).begin(), as_list(asked).end(), matches);
  if (value.is_string() && keyword == "format" && asked.is_string()) {
    const std::string_view known = pattern_of_format(view(asked.get_string()));
    return known.empty() || matches(json::string(known.data(), known.size()));
  }
  if (value.is_string() && keyword == "not" && asked.is_array()) {
    return std::none_of(asked.get_array().begin(), asked.get_array().end(), [&](const json::value& part) {
      const json::value* pattern = part.as_object().if_contains("pattern");
      return pattern != nullptr ? matches(*pattern) : judge(value, part) != verdict::no;
    });
  }
  const verdict valid = judge_keyword(value, schema, keyword);
  if (valid == verdict::unknown) fail(at, "cannot be combined with enum or const");
  return valid == verdict::yes;
}

expr schema_compiler::values(const object& schema, const std::string& where) {
  const json::value& list = schema.at("enum");
  if (!list.is_array() || list.get_array().empty() || list.get_array().size() > limits_.values) {
    fail(deeper(where, "enum"), "a list of 1 to " + std::to_string(limits_.values) + " values is expected");
  }
  std::vector<expr> out;
  for (const json::value& item : list.get_array()) {
    const bool valid = std::all_of(schema.begin(), schema.end(), [&](const auto& member) {
      const std::string keyword(view(member.key()));
      return keyword == "enum" || fits(item, schema, keyword, deeper(where, keyword));
    });
    if (valid) out.push_back(shared_.form().exact(item, shared_.gap()));
  }
  if (out.empty()) contradict(where, "none of the values of enum is valid under the rest");
  return choice(std::move(out));
}

expr schema_compiler::of_type(std::string_view type, const object& schema, const std::string& where,
                              std::uint32_t depth) {
  if (type == "null") return literal("null");
  if (type == "boolean") return choice({literal("true"), literal("false")});
  if (type == "string") return string(schema, where);
  if (type == "number" || type == "integer") return number(schema, type == "integer", where);
  if (type == "array") return array(schema, where, depth);
  if (type == "object") return members(schema, where, depth);
  fail(deeper(where, "type"), "is none of null, boolean, string, number, integer, array, object");
}

}  // namespace orcd::engine::grammar
