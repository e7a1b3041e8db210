// Compiles arrays: items in their order, and items of which some number must be valid under `contains`.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "engine/grammar/json_rules.hpp"
#include "engine/grammar/schema/compiler.hpp"
#include "engine/grammar/schema/keywords.hpp"

namespace orcd::engine::grammar {

namespace json = boost::json;

schema_compiler::item_plan schema_compiler::items_of(const object& schema, const std::string& where) const {
  item_plan out;
  if (const json::value* list = schema.if_contains("prefixItems")) {
    if (!list->is_array() || list->get_array().size() > limits_.items) {
      fail(deeper(where, "prefixItems"),
           "a list of at most " + std::to_string(limits_.items) + " schemas is expected");
    }
    out.first = {list->get_array().data(), list->get_array().size()};
  }
  out.rest = schema.if_contains("items");
  if (out.rest != nullptr && out.rest->is_array())
    fail(deeper(where, "items"), "must be one schema; use prefixItems");
  out.closed = out.rest != nullptr && out.rest->is_bool() && !out.rest->get_bool();
  out.least = count(schema, "minItems", 0, limits_.items, where);
  if (schema.contains("maxItems")) out.most = count(schema, "maxItems", 0, limits_.items, where);
  if (out.closed) out.most = std::min(out.most, static_cast<std::uint32_t>(out.first.size()));
  if (out.least > out.most) contradict(deeper(where, "minItems"), "is more than the array may have");
  return out;
}

namespace {

std::string path_of_item(const std::string& where, std::size_t i, std::size_t first) {
  return i < first ? deeper(deeper(where, "prefixItems"), std::to_string(i)) : deeper(where, "items");
}

expr in_brackets(const expr& items, const expr& gap) {
  return sequence({literal("["), gap, items, gap, literal("]")});
}

}  // namespace

expr schema_compiler::array(const object& schema, const std::string& where, std::uint32_t depth) {
  const json::value* unique = schema.if_contains("uniqueItems");
  if (unique != nullptr && !unique->is_bool()) fail(deeper(where, "uniqueItems"), "must be true or false");
  const item_plan plan = items_of(schema, where);
  if (unique != nullptr && unique->get_bool() && plan.most > 1) return unique_items(schema, plan, where);
  if (schema.contains("contains")) return containing_items(schema, plan, where, depth);
  std::vector<expr> parts;
  std::vector<bool> required;
  const auto add = [&](expr item) {
    required.push_back(parts.size() < plan.least);
    parts.push_back(std::move(item));
  };
  for (std::size_t i = 0; i < plan.first.size() && parts.size() < plan.most; ++i)
    add(part(plan.first[i], path_of_item(where, i, plan.first.size()), depth + 1, parts.size() < plan.least));
  bool open = false;
  if (!plan.closed && parts.size() < plan.most) {
    const expr item = plan.rest == nullptr
                          ? shared_.any_value()
                          : part(*plan.rest, deeper(where, "items"), depth + 1, parts.size() < plan.least);
    open = plan.most == unbounded;
    do {
      add(item);
    } while (parts.size() < (open ? plan.least : plan.most));
  }
  const expr comma = sequence({literal(","), shared_.gap()});
  // An item may be left out only if all later ones are, so that the optional items are nested.
  expr tail = literal("");
  for (std::size_t i = parts.size(); i-- > 0;) {
    const expr item = i == 0 ? parts[i] : sequence({comma, parts[i]});
    const bool loops = open && i + 1 == parts.size();
    if (loops) {
      tail = sequence({item, repeat(sequence({comma, parts[i]}), 0, unbounded)});
    } else {
      tail = sequence({item, tail});
    }
    if (!required[i]) tail = optional(tail);
  }
  return call(builder_.add(where, in_brackets(tail, shared_.gap())));
}

schema_compiler::counted_items schema_compiler::counts_of(const object& schema,
                                                          const std::string& where) const {
  counted_items out;
  out.least = count(schema, "minContains", 1, limits_.items, where);
  if (schema.contains("maxContains")) out.most = count(schema, "maxContains", 0, limits_.items, where);
  if (out.least > out.most) contradict(deeper(where, "minContains"), "is above maxContains");
  return out;
}

// An item of a kind, or null where there is none: valid under both schemas, or under the first alone.
expr schema_compiler::item_of_kind(const json::value* item, const json::value& contained, bool valid,
                                   const std::string& where, std::uint32_t depth) {
  ++trying_;
  expr out;
  try {
    const json::value other = valid ? copied(contained) : json::value(object_of("not", copied(contained)));
    if (item == nullptr || (item->is_bool() && item->get_bool())) {
      out = value(valid ? contained : other, where, depth + 1);
    } else {
      out = value(object_of("allOf", list_of(copied(*item), other)), where, depth + 1);
    }
  } catch (const grammar_failure& failure) {
    --trying_;
    if (!failure.impossible) throw;
    return nullptr;
  }
  --trying_;
  return out;
}

// A rule for each number of items so far, as far as it matters, and of those that are valid under `contains`.
// Where only the least number of these is bounded, an item may be counted or not as the array needs it.
expr schema_compiler::containing_items(const object& schema, const item_plan& plan, const std::string& where,
                                       std::uint32_t depth) {
  const std::string at = deeper(where, "contains");
  const json::value& contained = schema.at("contains");
  const counted_items wanted = counts_of(schema, where);
  if (wanted.least > plan.most) contradict(at, "asks for more items than the array may have");
  const bool exact = wanted.most != unbounded;
  const std::size_t first = plan.first.size();
  // The first item has no comma before it.
  const std::size_t places =
      std::max<std::size_t>({1, first, plan.least, plan.most == unbounded ? 0 : plan.most});
  const std::uint32_t counts = exact ? wanted.most : wanted.least;
  if ((places + 1) * (counts + std::uint64_t{1}) > limits_.counted)
    fail(at, "takes more than " + std::to_string(limits_.counted) +
                 " numbers of items and of items that are counted: bound fewer");
  struct kinds {
    expr counted, other;
  };
  std::vector<kinds> items;
  for (std::size_t i = 0; i < plan.kinds(); ++i) {
    const json::value* item = plan.at(i);
    kinds made;
    if (counts > 0) made.counted = item_of_kind(item, contained, true, at, depth);
    if (exact) {
      made.other = item_of_kind(item, contained, false, at, depth);
    } else {
      made.other = item == nullptr ? shared_.any_value()
                                   : part(*item, path_of_item(where, i, first), depth + 1, i < plan.least);
    }
    items.push_back(std::move(made));
  }
  const expr comma = sequence({literal(","), shared_.gap()});
  std::map<std::pair<std::size_t, std::uint32_t>, rule_id> rules;
  std::vector<std::pair<std::size_t, std::uint32_t>> open;
  const auto after = [&](std::size_t i, std::uint32_t counted) {
    const auto [found, is_new] = rules.try_emplace({std::min(i, places), counted}, 0);
    if (is_new) {
      found->second = builder_.declare(where);
      open.push_back(found->first);
    }
    return call(found->second);
  };
  const expr begin = after(0, 0);
  while (!open.empty()) {
    const std::size_t i = open.back().first;
    const std::uint32_t counted = open.back().second;
    open.pop_back();
    std::vector<expr> out;
    if (i >= plan.least && counted >= wanted.least) out.push_back(literal(""));
    const std::size_t kind = std::min(i, first);
    if (i < plan.most && kind < items.size()) {
      const auto add = [&](const expr& item, std::uint32_t then) {
        if (item == nullptr) return;
        out.push_back(i == 0 ? sequence({item, after(i + 1, then)})
                             : sequence({comma, item, after(i + 1, then)}));
      };
      if (counted < counts) add(items[kind].counted, counted + 1);
      add(items[kind].other, counted);
    }
    builder_.define(rules.at({i, counted}), choice(std::move(out)));
  }
  return call(builder_.add(where, in_brackets(begin, shared_.gap())));
}

}  // namespace orcd::engine::grammar
