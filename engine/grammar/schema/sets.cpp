// Compiles what depends on which items have been before: arrays of unique items of a finite set.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "engine/grammar/json_rules.hpp"
#include "engine/grammar/schema/compiler.hpp"
#include "engine/grammar/schema/flatten.hpp"
#include "engine/grammar/schema/keywords.hpp"
#include "engine/grammar/schema/values.hpp"

namespace orcd::engine::grammar {

namespace json = boost::json;

namespace {

/// The rest of an array after some of its values have been used: a rule for each set of values that are left.
class arrangements {
 public:
  struct bounds {
    std::uint32_t least = 0, most = 0;
    std::uint32_t counted = 0;  ///< the values, as bits, of which there must be so many
    std::uint32_t counted_least = 0, counted_most = unbounded;
  };
  /// `places` says for each place which values it may have, as bits; the last one is that of all further
  /// ones.
  arrangements(program_builder& builder, std::vector<expr> values, std::vector<std::uint32_t> places,
               expr comma, bounds within, const std::string& where)
      : builder_(builder),
        values_(std::move(values)),
        places_(std::move(places)),
        comma_(std::move(comma)),
        within_(within),
        where_(where) {}

  expr after(std::uint32_t used) {
    const auto known = rules_.find(used);
    if (known != rules_.end()) return call(known->second);
    const auto count = static_cast<std::uint32_t>(std::popcount(used));
    const auto counted = static_cast<std::uint32_t>(std::popcount(used & within_.counted));
    std::vector<expr> out;
    if (count >= within_.least && counted >= within_.counted_least && counted <= within_.counted_most)
      out.push_back(literal(""));
    const std::uint32_t here = places_[std::min<std::size_t>(count, places_.size() - 1)] & ~used;
    for (std::uint32_t i = 0; count < within_.most && i < values_.size(); ++i) {
      if ((here >> i & 1U) == 0) continue;
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
  std::vector<std::uint32_t> places_;
  expr comma_;
  bounds within_;
  const std::string& where_;
  std::map<std::uint32_t, rule_id> rules_;
};

std::optional<std::int64_t> small_bound(const json::object& schema, const char* inclusive,
                                        const char* exclusive, std::int64_t inwards) {
  std::optional<std::int64_t> out;
  for (const char* name : {inclusive, exclusive}) {
    const json::value* bound = schema.if_contains(name);
    if (bound == nullptr || !bound->is_int64()) continue;
    constexpr std::int64_t most = 1'000'000'000;
    if (bound->get_int64() > most || bound->get_int64() < -most) continue;
    const std::int64_t at = bound->get_int64() + (name == exclusive ? inwards : 0);
    if (!out || (inwards > 0 ? at > *out : at < *out)) out = at;
  }
  return out;
}

/// Adds the values of a type; false where they are not finitely many, or more than `most`.
bool add_values_of(std::string_view type, const json::object& schema, std::int64_t most, json::array& out) {
  if (type == "null") {
    out.emplace_back(nullptr);
  } else if (type == "boolean") {
    out.emplace_back(true);
    out.emplace_back(false);
  } else if (type == "integer") {
    const auto low = small_bound(schema, "minimum", "exclusiveMinimum", 1);
    const auto high = small_bound(schema, "maximum", "exclusiveMaximum", -1);
    if (!low || !high || *high - *low >= most) return false;
    for (std::int64_t i = *low; i <= *high; ++i) out.emplace_back(i);
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::optional<json::array> schema_compiler::candidates(const object& schema, const std::string& where) const {
  if (const json::value* list = schema.if_contains("enum"); list != nullptr && list->is_array())
    return copied(list->get_array());
  json::array out(compile_budget::json());
  if (const json::value* types = schema.if_contains("type")) {
    const auto names = as_list(*types);
    if (std::all_of(names.begin(), names.end(), [&](const json::value& name) {
          return name.is_string() && add_values_of(view(name.get_string()), schema, limits_.values, out);
        })) {
      return out;
    }
    out.clear();
  }
  for (const char* keyword : {"anyOf", "oneOf"}) {
    const json::value* list = schema.if_contains(keyword);
    if (list == nullptr || !list->is_array() || list->get_array().size() > limits_.branches) continue;
    for (std::size_t i = 0; i < list->get_array().size(); ++i) {
      const std::string at = deeper(deeper(where, keyword), std::to_string(i));
      const object branch = flatten_schema(root_, list->get_array()[i], at, 1);
      const json::value* values = branch.if_contains("enum");
      if (values == nullptr || !values->is_array()) return std::nullopt;
      for (const json::value& value : values->get_array()) out.push_back(value);
    }
    return out;
  }
  return std::nullopt;
}

/// Values that the items of an array may have, each once, and at which places.
struct schema_compiler::finite_items {
  std::vector<expr> spelled;
  json::array values;
  std::vector<std::vector<bool>> places;  ///< by place: which values it may have
};

schema_compiler::finite_items schema_compiler::finite_items_of(const item_plan& plan,
                                                               const std::string& where) {
  finite_items out{{}, json::array(compile_budget::json()), {}};
  for (std::size_t i = 0; i < plan.kinds(); ++i) {
    const std::string at = i < plan.first.size() ? deeper(deeper(where, "prefixItems"), std::to_string(i))
                                                 : deeper(where, "items");
    const json::value any = json::object(compile_budget::json());
    const object schema = flatten_schema(root_, plan.at(i) == nullptr ? any : *plan.at(i), at, 1);
    const auto list = candidates(schema, at);
    if (!list) {
      fail(deeper(where, "uniqueItems"),
           "is supported only where items have finitely many values: enum, const, boolean, null, integers "
           "between "
           "bounds");
    }
    std::vector<bool> allowed(out.spelled.size());
    for (const json::value& value : *list) {
      compile_budget::work(2 + out.values.size() / 4);
      const auto same = std::find_if(out.values.begin(), out.values.end(),
                                     [&](const json::value& other) { return same_value(other, value); });
      object one = copied(schema);
      one["enum"] = list_of(copied(value));
      try {
        expr spelled = values(one, at);
        const auto number = static_cast<std::size_t>(same - out.values.begin());
        if (number == out.values.size()) {
          out.values.push_back(value);
          out.spelled.push_back(std::move(spelled));
          allowed.push_back(true);
        }
        allowed[number] = true;
      } catch (const grammar_failure& failure) {
        if (!failure.impossible) throw;
      }
    }
    out.places.push_back(std::move(allowed));
  }
  return out;
}

// Up to `unique` values come in any order; more of them in that of the schema, so that what is used up need
// not be remembered.
expr schema_compiler::unique_items(const object& schema, const item_plan& plan, const std::string& where) {
  const std::string at = deeper(where, "uniqueItems");
  finite_items items = finite_items_of(plan, where);
  const auto count = static_cast<std::uint32_t>(items.spelled.size());
  const std::uint32_t most = std::min(plan.most, count);
  if (plan.least > most) contradict(at, "the items have fewer values than minItems");
  const bool contains = schema.contains("contains");
  const expr comma = sequence({literal(","), shared_.gap()});
  expr inside;
  if (count > limits_.unique) {
    const bool all = most == count;
    const std::uint64_t numbers = std::uint64_t{1} + (all ? plan.least : most);
    if (contains || !plan.first.empty() || numbers * count > std::uint64_t{8} * limits_.counted) {
      fail(at, "is supported for more than " + std::to_string(limits_.unique) +
                   " values only without prefixItems and contains, and for few of them");
    }
    inside = list(std::move(items.spelled), std::vector<bool>(count), comma, false, plan.least,
                  all ? unbounded : most);
  } else {
    arrangements::bounds within{plan.least, most, 0, 0, unbounded};
    if (contains) {
      const counted_items wanted = counts_of(schema, where);
      within.counted_least = wanted.least;
      within.counted_most = wanted.most;
      for (std::uint32_t i = 0; i < count; ++i) {
        const verdict valid = judge(items.values[i], schema.at("contains"));
        if (valid == verdict::unknown)
          fail(deeper(where, "contains"), "cannot be tried on the values of unique items");
        if (valid == verdict::yes) within.counted |= 1U << i;
      }
    }
    std::vector<std::uint32_t> places;
    for (const auto& allowed : items.places) {
      places.push_back(0);
      for (std::size_t i = 0; i < allowed.size(); ++i) places.back() |= allowed[i] ? 1U << i : 0U;
    }
    if (places.empty()) places.push_back(0);
    arrangements rest(builder_, std::move(items.spelled), std::move(places), comma, within, where);
    inside = rest.after(0);
  }
  return call(
      builder_.add(where, sequence({literal("["), shared_.gap(), inside, shared_.gap(), literal("]")})));
}

}  // namespace orcd::engine::grammar
