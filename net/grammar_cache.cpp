#include "net/grammar_cache.hpp"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <vector>

#include "engine/grammar/program.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::result;

/// The functions that may be called; they refer to the demand.
std::vector<engine::callable> callables_of(const output_demand& demand) {
  std::vector<engine::callable> out;
  for (const json::value& tool : demand.tools) {
    const json::object& function = tool.at("function").as_object();
    engine::callable one;
    one.name = std::string(function.at("name").as_string());
    if (!demand.function.empty() && one.name != demand.function) continue;
    const auto* parameters = function.if_contains("parameters");
    const auto* strict = function.if_contains("strict");
    one.strict = strict != nullptr && *strict == json::value(true);
    // Where nothing is demanded, the other functions' parameters are for the model to follow.
    const bool binds = one.strict || demand.rule != output_rule::open;
    if (binds && parameters != nullptr && !parameters->is_null()) one.parameters = parameters;
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace

result<grammar_program> compile_demand(const grammar_order& order) {
  const auto& demand = order.demand;
  const auto callables = callables_of(demand);
  const engine::offered_calls offered{callables, demand.parallel};
  if (demand.rule == output_rule::calls) {
    return engine::make_call_grammar(order.frame, offered, *order.tokens);
  }
  if (demand.rule == output_rule::open)
    return engine::make_open_grammar(order.frame, callables, *order.tokens);
  engine::grammar::schema_options options;
  options.strict = demand.strict;
  return engine::make_response_grammar(order.frame, demand.schema.is_null() ? nullptr : &demand.schema,
                                       options, *order.tokens, offered);
}

std::string key_of(const grammar_order& order) {
  const auto& demand = order.demand;
  const auto& frame = order.frame;
  std::string key;
  const auto add = [&key](bool flag) { key += flag ? '1' : '0'; };
  key += static_cast<char>('a' + static_cast<int>(frame.format.calls));
  add(frame.format.think);
  add(frame.in_reasoning);
  add(frame.may_reason);
  if (demand.rule == output_rule::open) key += 'o';
  if (demand.rule == output_rule::json) {
    key += 'r';
    add(demand.strict);
    key += json::serialize(demand.schema);
  }
  add(demand.parallel);
  for (const auto& tool : callables_of(demand)) {
    add(tool.strict);
    key += tool.name + ' ';
    if (tool.parameters != nullptr) key += json::serialize(*tool.parameters);
  }
  return key;
}

grammar_program grammar_cache::find(const std::string& key) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const entry& e) { return e.first == key; });
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return found->second;
}

void grammar_cache::keep(std::string key, grammar_program grammar) {
  if (key.size() > key_bytes_max || find(key) != nullptr) return;
  states_ += grammar->states.size();
  entries_.emplace_front(std::move(key), std::move(grammar));
  while (entries_.size() > entries_max || states_ > states_max) {
    states_ -= entries_.back().second->states.size();
    entries_.pop_back();
  }
}

}  // namespace orcd::net
