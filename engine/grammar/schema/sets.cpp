// Compiles what depends on which items have been before: arrays of unique items of a finite set.
#include <algorithm>
#include <bit>
#include <map>
#include <utility>
#include <vector>

#include "engine/grammar/json_rules.hpp"
#include "engine/grammar/schema/compiler.hpp"
#include "engine/grammar/schema/flatten.hpp"
#include "engine/grammar/schema/merge.hpp"
#include "engine/grammar/schema/values.hpp"

namespace orcd::engine::grammar {

namespace json = boost::json;

namespace {

/// The rest of an array after some of its values have been used: a rule for each set of values that are left.
class arrangements {
 public:
  arrangements(program_builder& builder, std::vector<expr> values, expr comma, std::uint32_t least,
               std::uint32_t most, const std::string& where)
      : builder_(builder),
        values_(std::move(values)),
        comma_(std::move(comma)),
        least_(least),
        most_(most),
        where_(where) {}

  expr after(std::uint32_t used) {
    const auto known = rules_.find(used);
    if (known != rules_.end()) return call(known->second);
    const auto count = static_cast<std::uint32_t>(std::popcount(used));
    std::vector<expr> out;
    if (count >= least_) out.push_back(literal(""));
    for (std::uint32_t i = 0; count < most_ && i < values_.size(); ++i) {
      if ((used >> i & 1U) != 0) continue;
      expr item = count == 0 ? values_[i] : sequence({comma_, values_[i]});
      out.push_back(sequence({std::move(item), after(used | 1U << i)}));
    }
    const rule_id rule = builder_.add(where_, choice(std::move(out)));
    rules_.emplace(used, rule);
    return call(rule);
  }

 private:
  program_builder& builder_;
  std::vector<expr> values_;
  expr comma_;
  std::uint32_t least_, most_;
  const std::string& where_;
  std::map<std::uint32_t, rule_id> rules_;
};

}  // namespace

expr schema_compiler::unique_items(const object& schema, const std::string& where) {
  const std::string at = deeper(where, "uniqueItems");
  const std::uint32_t least = count(schema, "minItems", 0, limits_.items, where);
  const std::uint32_t most =
      schema.contains("maxItems") ? count(schema, "maxItems", 0, limits_.items, where) : unbounded;
  if (least > most) fail(deeper(where, "minItems"), "is more than the array may have");
  const json::value* items = schema.if_contains("items");
  if (schema.contains("prefixItems") || items == nullptr || !items->is_object())
    fail(at, "is supported only where items is one enum or const");
  const object flat_items = flatten_schema(root_, *items, deeper(where, "items"), 1);
  const json::value* list = flat_items.if_contains("enum");
  if (list == nullptr || !list->is_array() || list->get_array().size() > limits_.unique) {
    fail(at, "is supported only where items is one enum of at most " + std::to_string(limits_.unique) +
                 " values");
  }
  std::vector<expr> values_of_items;
  std::vector<const json::value*> kept;
  for (const json::value& value : list->get_array()) {
    const bool again = std::any_of(kept.begin(), kept.end(),
                                   [&](const json::value* other) { return same_value(*other, value); });
    if (again) continue;
    object one = copied(flat_items);
    one.erase("enum");
    json::array only(compile_budget::json());
    only.push_back(value);
    one.emplace("enum", std::move(only));
    try {
      values_of_items.push_back(values(one, deeper(where, "items")));
      kept.push_back(&value);
    } catch (const grammar_failure& failure) {
      if (!failure.impossible) throw;
    }
  }
  const auto most_here = std::min(most, static_cast<std::uint32_t>(kept.size()));
  if (least > most_here) fail(at, "the items have fewer values than minItems");
  arrangements rest(builder_, std::move(values_of_items), sequence({literal(","), shared_.gap()}), least,
                    most_here, where);
  return call(builder_.add(
      where, sequence({literal("["), shared_.gap(), rest.after(0), shared_.gap(), literal("]")})));
}

}  // namespace orcd::engine::grammar
