#include "engine/grammar/schema/negation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "engine/grammar/schema/forms.hpp"
#include "engine/grammar/schema/keywords.hpp"
#include "engine/grammar/schema/values.hpp"

namespace orcd::engine::grammar {

namespace json = boost::json;

namespace {

/// The most numbers that a list to be avoided has: each parts the others into two ranges.
constexpr std::size_t numbers_max = 32;

/// Collects the alternatives to one schema.
class negation {
 public:
  negation(const json::value& root, const std::string& where, std::uint32_t depth)
      : root_(root), where_(where), depth_(depth), out_(compile_budget::json()) {}

  json::array run(const json::value& schema) {
    if (depth_ > schema_depth_max)
      fail(where_, "the schema is nested more than " + std::to_string(schema_depth_max) + " deep");
    if (schema.is_bool()) {
      if (!schema.get_bool()) out_.push_back(true);
      return std::move(out_);
    }
    if (!schema.is_object()) fail(where_, "a schema is an object or a boolean");
    json::object plain = copied(schema.get_object());
    modernize(plain, where_);
    close_unevaluated(plain, schema.get_object(), where_);
    for (const auto& member : plain) add(plain, view(member.key()), member.value());
    return std::move(out_);
  }

 private:
  void add(const json::object& schema, std::string_view keyword, const json::value& asked) {
    compile_budget::work(20);
    const keyword_kind kind = kind_of_keyword(keyword);
    const std::string at = deeper(where_, keyword);
    if (kind == keyword_kind::unsupported) fail(at, "this keyword is not supported");
    if (kind == keyword_kind::annotation || keyword == "format" || keyword == "then" || keyword == "else")
      return;
    if (add_combined(schema, keyword, asked, at) || add_number(keyword, asked, at) ||
        add_text(keyword, asked, at) || add_array(schema, keyword, asked, at) ||
        add_object(schema, keyword, asked, at)) {
      return;
    }
    if (keyword == "type") return add_types(asked, at);
    if (keyword == "const" || keyword == "enum") return add_values(as_list(asked));
    fail(at, "cannot be negated here (not, if, or oneOf whose alternatives overlap)");
  }

  void put(std::string_view type, std::string_view keyword, json::value value) {
    out_.push_back(object_of("type", word(type), keyword, std::move(value)));
  }
  void put_types(json::array types) {
    if (!types.empty()) out_.push_back(object_of("type", std::move(types)));
  }
  static json::object not_of(const json::value& schema) { return object_of("not", copied(schema)); }

  json::array inner(const json::value& schema, const std::string& at) const {
    return alternatives_to(root_, schema, at, depth_ + 1);
  }
  void put_all(json::array list) {
    for (json::value& item : list) out_.push_back(std::move(item));
  }

  bool add_combined(const json::object& schema, std::string_view keyword, const json::value& asked,
                    const std::string& at) {
    if (keyword == "$ref") {
      if (!asked.is_string()) fail(at, "a reference is a string");
      const std::string_view name = view(asked.get_string());
      put_all(inner(resolve_reference(root_, name, at), path_of(name)));
    } else if (keyword == "not") {
      out_.push_back(copied(asked));
    } else if (keyword == "allOf") {
      if (!asked.is_array()) fail(at, "a list of schemas is expected");
      std::size_t i = 0;
      for (const json::value& part : asked.get_array()) put_all(inner(part, deeper(at, std::to_string(i++))));
    } else if (keyword == "anyOf") {
      if (!asked.is_array()) fail(at, "a list of schemas is expected");
      json::array none(compile_budget::json());
      for (const json::value& part : asked.get_array()) none.push_back(not_of(part));
      out_.push_back(object_of("allOf", std::move(none)));
    } else if (keyword == "if") {
      const json::value* then = schema.if_contains("then");
      const json::value* otherwise = schema.if_contains("else");
      if (then != nullptr) out_.push_back(object_of("allOf", list_of(copied(asked), not_of(*then))));
      if (otherwise != nullptr)
        out_.push_back(object_of("allOf", list_of(not_of(asked), not_of(*otherwise))));
    } else {
      return false;
    }
    return true;
  }

  bool add_number(std::string_view keyword, const json::value& asked, const std::string& at) {
    constexpr auto bounds =
        std::to_array<std::pair<std::string_view, std::string_view>>({{"minimum", "exclusiveMaximum"},
                                                                      {"exclusiveMinimum", "maximum"},
                                                                      {"maximum", "exclusiveMinimum"},
                                                                      {"exclusiveMaximum", "minimum"}});
    for (const auto& [bound, beyond] : bounds) {
      if (keyword != bound) continue;
      if (!asked.is_number()) fail(at, "a bound is a number");
      put("number", beyond, copied(asked));
      return true;
    }
    if (keyword != "multipleOf") return false;
    put("number", "not", object_of(keyword, copied(asked)));
    return true;
  }

  bool add_text(std::string_view keyword, const json::value& asked, const std::string& at) {
    if (keyword == "pattern") {
      if (!asked.is_string()) fail(at, "must be a string");
      put("string", "not", object_of(keyword, copied(asked)));
      return true;
    }
    return add_count("string", "Length", keyword, asked, at);
  }

  /// minX n is broken by at most n - 1, maxX n by at least n + 1.
  bool add_count(std::string_view type, std::string_view what, std::string_view keyword,
                 const json::value& asked, const std::string& at) {
    const bool low = keyword.starts_with("min");
    if ((!low && !keyword.starts_with("max")) || keyword.substr(3) != what) return false;
    const double bound = asked.is_number() ? asked.to_number<double>() : -1;
    if (bound < 0 || bound != std::floor(bound) || bound > 1e9) fail(at, "must be a whole number up to 1e9");
    const auto number = static_cast<std::int64_t>(bound);
    if (low && number == 0) return true;
    put(type, (low ? "max" : "min") + std::string(what), low ? number - 1 : number + 1);
    return true;
  }

  bool add_array(const json::object& schema, std::string_view keyword, const json::value& asked,
                 const std::string& at) {
    const json::value* prefix = schema.if_contains("prefixItems");
    if (prefix != nullptr && !prefix->is_array()) fail(at, "a list of schemas is expected");
    if (keyword == "prefixItems") {
      json::array before(compile_budget::json());
      for (const json::value& item : asked.get_array()) {
        json::array wrong = copied(before);
        wrong.push_back(not_of(item));
        before.push_back(true);
        add_wrong_items(std::move(wrong));
      }
      return true;
    }
    if (keyword == "contains") {
      add_contains(schema, asked, at);
      return true;
    }
    if (keyword == "minContains" || keyword == "maxContains") return true;
    if (keyword != "items") return add_count("array", "Items", keyword, asked, at);
    const std::size_t count = prefix == nullptr ? 0 : prefix->get_array().size();
    if (asked.is_bool() && !asked.get_bool()) {
      put("array", "minItems", count + 1);
    } else if (!asked.is_bool()) {
      json::array wrong(compile_budget::json());
      for (std::size_t i = 0; i < count; ++i) wrong.push_back(true);
      wrong.push_back(not_of(asked));
      add_wrong_items(std::move(wrong));
    }
    return true;
  }

  /// Fewer than minContains items are valid, or more than maxContains.
  void add_contains(const json::object& schema, const json::value& asked, const std::string& at) {
    for (const bool low : {true, false}) {
      const json::value* bound = schema.if_contains(low ? "minContains" : "maxContains");
      if (bound == nullptr) continue;
      const double number = bound->is_number() ? bound->to_number<double>() : -1;
      if (number < 0 || number != std::floor(number) || number > 1e9)
        fail(at, "must be a whole number up to 1e9");
      const auto limit = static_cast<std::int64_t>(number);
      if (low && limit == 0) continue;
      json::object out = object_of("type", word("array"), "contains", copied(asked));
      out.emplace("minContains", low ? 0 : limit + 1);
      if (low) out.emplace("maxContains", limit - 1);
      out_.push_back(std::move(out));
    }
  }

  void add_wrong_items(json::array items) {
    json::object out = object_of("type", word("array"), "minItems", items.size());
    out.emplace("prefixItems", std::move(items));
    out_.push_back(std::move(out));
  }

  bool add_object(const json::object& schema, std::string_view keyword, const json::value& asked,
                  const std::string& at) {
    if (keyword == "required") {
      for (const std::string_view name : names_of(&asked, at)) add_without(name);
    } else if (keyword == "properties") {
      if (!asked.is_object()) fail(at, "must be an object");
      for (const auto& member : asked.get_object()) {
        if (!member.value().is_bool() || !member.value().get_bool())
          add_with(view(member.key()), not_of(member.value()));
      }
    } else if (keyword == "additionalProperties") {
      if (!asked.is_bool()) fail(at, "cannot be negated unless it is true or false");
      if (asked.get_bool() || schema.contains("properties") || schema.contains("patternProperties"))
        return true;
      put("object", "minProperties", 1);
    } else if (keyword == "dependentRequired") {
      add_dependents(asked, at);
    } else if (keyword == "dependentSchemas") {
      if (!asked.is_object()) fail(at, "must be an object");
      for (const auto& member : asked.get_object()) {
        json::object out = object_of("type", word("object"), "required", list_of(json::string(member.key())));
        out.emplace("allOf", list_of(not_of(member.value())));
        out_.push_back(std::move(out));
      }
    } else {
      return add_count("object", "Properties", keyword, asked, at);
    }
    return true;
  }

  void add_without(std::string_view name) { put("object", "properties", object_of(name, false)); }
  void add_with(std::string_view name, json::value content) {
    json::object out = object_of("type", word("object"), "properties", object_of(name, std::move(content)));
    out.emplace("required", list_of(word(name)));
    out_.push_back(std::move(out));
  }
  void add_dependents(const json::value& asked, const std::string& at) {
    if (!asked.is_object()) fail(at, "must be an object");
    for (const auto& member : asked.get_object()) {
      for (const std::string_view name : names_of(&member.value(), deeper(at, view(member.key())))) {
        json::object out = object_of("type", word("object"), "required", list_of(json::string(member.key())));
        out.emplace("properties", object_of(name, false));
        out_.push_back(std::move(out));
      }
    }
  }

  void add_types(const json::value& asked, const std::string& at) {
    bool integer = false, number = false;
    for (const json::value& type : as_list(asked)) {
      if (!type.is_string()) fail(at, "a type is a string");
      integer = integer || type.get_string() == "integer";
      number = number || type.get_string() == "number";
    }
    json::array others(compile_budget::json());
    for (const std::string_view name : type_names) {
      const json::string type = word(name);
      if (!has(as_list(asked), type) && !(integer && name == "number")) others.push_back(type);
    }
    put_types(std::move(others));
    if (integer && !number) put("number", "not", object_of("type", word("integer")));
  }

  void add_values(std::span<const json::value> values) {
    json::array others(compile_budget::json());
    for (const std::string_view name : type_names) {
      json::array same(compile_budget::json());
      for (const json::value& value : values) {
        if (has_type(value, name) && !has({same.data(), same.size()}, value)) same.push_back(value);
      }
      if (same.empty()) {
        others.push_back(word(name));
      } else if (name == "boolean" && same.size() == 1) {
        out_.push_back(object_of("const", !same.front().get_bool()));
      } else if (name == "string") {
        put("string", "not", object_of("enum", std::move(same)));
      } else if (name == "number") {
        add_ranges(std::move(same));
      } else if (name == "array" || name == "object") {
        add_structures(same, name);
      }
    }
    put_types(std::move(others));
  }

  void add_ranges(json::array numbers) {
    if (numbers.size() > numbers_max)
      fail(where_, "at most " + std::to_string(numbers_max) + " numbers can be left out");
    std::sort(numbers.begin(), numbers.end(), [](const json::value& a, const json::value& b) {
      return a.to_number<double>() < b.to_number<double>();
    });
    put("number", "exclusiveMaximum", numbers.front());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      json::object out = object_of("type", word("number"), "exclusiveMinimum", numbers[i]);
      if (i + 1 < numbers.size()) out.emplace("exclusiveMaximum", numbers[i + 1]);
      out_.push_back(std::move(out));
    }
  }

  void add_structures(const json::array& values, std::string_view type) {
    if (values.size() > 1) {
      json::array each(compile_budget::json());
      for (const json::value& value : values) each.push_back(not_of(object_of("const", value)));
      return put(type, "allOf", std::move(each));
    }
    if (const json::array* items = values.front().if_array()) {
      put(type, "minItems", items->size() + 1);
      if (!items->empty()) put(type, "maxItems", items->size() - 1);
      return;
    }
    const json::object& members = values.front().get_object();
    if (members.empty()) put(type, "minProperties", 1);
    for (const auto& member : members) {
      add_without(view(member.key()));
      add_with(view(member.key()), not_of(object_of("const", member.value())));
    }
  }

  const json::value& root_;
  const std::string& where_;
  std::uint32_t depth_;
  json::array out_;
};

}  // namespace

json::array alternatives_to(const json::value& root, const json::value& schema, const std::string& where,
                            std::uint32_t depth) {
  const compile_budget::place here(where);
  return negation(root, where, depth).run(schema);
}

bool is_plain_exclusion(const json::object& schema, const json::value& excluded) {
  const json::value* type = schema.if_contains("type");
  const json::object* what = excluded.if_object();
  if (type == nullptr || !type->is_string() || what == nullptr || what->size() != 1) return false;
  const auto& [keyword, asked] = *what->begin();
  if (*type == "string") {
    if (keyword == "pattern") return asked.is_string();
    return keyword == "enum" && asked.is_array() && !asked.get_array().empty() &&
           std::all_of(asked.get_array().begin(), asked.get_array().end(),
                       [](const json::value& value) { return value.is_string(); });
  }
  if (*type == "number" && keyword == "type") return asked == "integer";
  return (*type == "number" || *type == "integer") && keyword == "multipleOf" && asked.is_number();
}

}  // namespace orcd::engine::grammar
