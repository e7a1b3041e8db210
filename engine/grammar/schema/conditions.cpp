// Compiles what some properties ask of others, by an alternative for each way in which these may be there.
#include <utility>
#include <vector>

#include "engine/grammar/json_rules.hpp"
#include "engine/grammar/schema/compiler.hpp"
#include "engine/grammar/schema/merge.hpp"

namespace orcd::engine::grammar {

namespace json = boost::json;

namespace {

void forbid(json::object& schema, json::string_view name, const std::string& where) {
  if (!schema.contains("properties")) schema.emplace("properties", json::object(compile_budget::json()));
  json::object* properties = schema.at("properties").if_object();
  if (properties == nullptr) fail(deeper(where, "properties"), "must be an object");
  (*properties)[name] = false;
}

void demand(json::object& schema, std::string_view name, const std::string& where) {
  if (!schema.contains("required")) schema.emplace("required", json::array(compile_budget::json()));
  const name_set known = names_of(schema.if_contains("required"), deeper(where, "required"));
  if (!known.contains(name))
    schema.at("required").get_array().emplace_back(json::string_view(name.data(), name.size()));
}

}  // namespace

expr schema_compiler::dependent(const object& schema, const std::string& where, std::uint32_t depth) {
  const std::string at = deeper(where, "dependentRequired");
  const json::object* asked = schema.at("dependentRequired").if_object();
  if (asked == nullptr) fail(at, "must be an object");
  if (strict_) fail(at, "is not supported in strict mode");
  if (asked->size() > limits_.dependent)
    fail(at, "is supported for at most " + std::to_string(limits_.dependent) + " properties");
  object base = copied(schema);
  base.erase("dependentRequired");
  std::vector<expr> out;
  for (unsigned present = 0; present < 1U << asked->size(); ++present) {
    object one = copied(base);
    unsigned bit = 1;
    for (const auto& member : *asked) {
      const name_set names = names_of(&member.value(), deeper(at, view(member.key())));
      if ((present & bit) != 0) {
        demand(one, view(member.key()), where);
        for (const std::string_view name : names) demand(one, name, where);
      }
      bit <<= 1U;
    }
    const name_set wanted = names_of(one.if_contains("required"), deeper(where, "required"));
    bool possible = true;
    bit = 1;
    for (const auto& member : *asked) {
      if ((present & bit) == 0) {
        possible = possible && !wanted.contains(view(member.key()));
        forbid(one, member.key(), where);
      }
      bit <<= 1U;
    }
    if (possible) out.push_back(flat(one, where, depth + 1));
  }
  return choice(std::move(out));
}

}  // namespace orcd::engine::grammar
