#include "engine/grammar/schema/keywords.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace orcd::engine::grammar {

namespace {

namespace json = boost::json;

constexpr auto constraints = std::to_array<std::string_view>({"$ref",
                                                              "allOf",
                                                              "anyOf",
                                                              "oneOf",
                                                              "type",
                                                              "enum",
                                                              "const",
                                                              "properties",
                                                              "required",
                                                              "items",
                                                              "minItems",
                                                              "maxItems",
                                                              "pattern",
                                                              "format",
                                                              "additionalProperties",
                                                              "minimum",
                                                              "maximum",
                                                              "minLength",
                                                              "maxLength",
                                                              "prefixItems",
                                                              "exclusiveMinimum",
                                                              "exclusiveMaximum",
                                                              "multipleOf",
                                                              "nullable",
                                                              "additionalItems",
                                                              "patternProperties",
                                                              "propertyNames",
                                                              "minProperties",
                                                              "maxProperties",
                                                              "uniqueItems",
                                                              "contains",
                                                              "minContains",
                                                              "maxContains",
                                                              "dependencies",
                                                              "dependentRequired",
                                                              "not",
                                                              "if",
                                                              "then",
                                                              "else",
                                                              "dependentSchemas",
                                                              "unevaluatedProperties",
                                                              "unevaluatedItems"});
constexpr auto annotations = std::to_array<std::string_view>(
    {"title",         "description", "default",        "examples",         "$schema",
     "$id",           "$comment",    "$defs",          "definitions",      "deprecated",
     "readOnly",      "writeOnly",   "discriminator",  "contentMediaType", "contentEncoding",
     "contentSchema", "$anchor",     "$dynamicAnchor", "$recursiveAnchor", "$vocabulary"});
/// Keywords of JSON Schema, older drafts among them, that ask for what is not enforced.
constexpr auto refused =
    std::to_array<std::string_view>({"$dynamicRef", "$recursiveRef", "extends", "disallow", "divisibleBy"});

template <class Names>
bool contains(const Names& names, std::string_view name) noexcept {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

void fail(const std::string& where, std::string what) {
  throw grammar_failure{where, std::move(what)};
}

void contradict(const std::string& where, std::string what) {
  throw grammar_failure{where, std::move(what), true};
}

keyword_kind kind_of_keyword(std::string_view name) noexcept {
  if (contains(constraints, name)) return keyword_kind::constraint;
  return contains(refused, name) ? keyword_kind::unsupported : keyword_kind::annotation;
}

bool is_known_keyword(std::string_view name) noexcept {
  return contains(constraints, name) || contains(annotations, name) || contains(refused, name) ||
         name.starts_with("x-");
}

std::string deeper(const std::string& where, std::string_view step) {
  constexpr std::string_view cut = "/...";
  if (where.size() > path_bytes_max) return where.ends_with(cut) ? where : where + std::string(cut);
  compile_budget::work(8 + where.size() / 32);
  std::string out = where + '/';
  for (const char c : step.substr(0, path_step_bytes_max)) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

name_set names_of(const json::value* required, const std::string& where) {
  name_set out;
  if (required == nullptr) return out;
  const json::array* list = required->if_array();
  if (list == nullptr) fail(where, "must be a list of names");
  for (const json::value& name : *list) {
    if (!name.is_string()) fail(where, "must be a list of names");
    compile_budget::work(1 + name.get_string().size() / 64);
    out.insert(view(name.get_string()));
  }
  return out;
}

namespace {

/// A URI's fragment with its percent escapes replaced (RFC 6901, section 6); a '%' that begins none is none.
std::string unescaped(std::string_view fragment, const std::string& where) {
  std::string out;
  for (std::size_t at = 0; at < fragment.size(); ++at) {
    if (fragment[at] != '%') {
      out += fragment[at];
      continue;
    }
    const auto digits = fragment.substr(at + 1, 2);
    unsigned byte = 0;
    const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (digits.size() != 2 || failed != std::errc{} || end != digits.data() + 2) {
      fail(where, "the reference has a '%' that is no escape");
    }
    out += static_cast<char>(byte);
    at += 2;
  }
  return out;
}

}  // namespace

const json::value& resolve_reference(const json::value& root, std::string_view reference,
                                     const std::string& where) {
  compile_budget::work(4 + reference.size() / 6);
  if (reference == "#") return root;
  if (!reference.starts_with("#/")) {
    fail(where, "only references into the same schema are supported (\"#\" or \"#/...\")");
  }
  boost::system::error_code ec;
  const std::string pointer = unescaped(reference.substr(1), where);
  const json::value* found = root.find_pointer(pointer, ec);
  if (found == nullptr || ec) fail(where, "the reference names nothing in the schema");
  return *found;
}

json::object object_of(std::string_view name, json::value value) {
  json::object out(compile_budget::json());
  out.emplace(json::string_view(name.data(), name.size()), std::move(value));
  return out;
}

json::object object_of(std::string_view name, json::value value, std::string_view other,
                       json::value other_value) {
  json::object out = object_of(name, std::move(value));
  out.emplace(json::string_view(other.data(), other.size()), std::move(other_value));
  return out;
}

json::array list_of(json::value first) {
  json::array out(compile_budget::json());
  out.push_back(std::move(first));
  return out;
}

json::array list_of(json::value first, json::value second) {
  json::array out = list_of(std::move(first));
  out.push_back(std::move(second));
  return out;
}

}  // namespace orcd::engine::grammar
