#include "engine/chat/frame_builder.hpp"

namespace orcd::engine {

using grammar::choice;
using grammar::expr;
using grammar::literal;
using grammar::optional;
using grammar::repeat;
using grammar::sequence;

expr frame_builder::mark(std::string_view text) const {
  return tokens_.is_token(text) ? grammar::token(text) : literal(text);
}

expr frame_builder::valid(const boost::json::value* schema, bool strict) {
  if (schema == nullptr) return shared_.any_object();
  return grammar::schema_compiler(rules_, shared_, *schema, strict).whole("#");
}

expr frame_builder::reasoning() {
  if (frame_.format.calls == call_format::harmony) {
    if (!frame_.may_reason) return literal("");
    return optional(
        sequence({mark("<|channel|>"), literal("analysis"), mark("<|message|>"), free_text("<|end|>"),
                  mark("<|end|>"), mark("<|start|>"), literal("assistant")}));
  }
  if (!frame_.format.think) return literal("");
  const expr lines = repeat(literal("\n"), 0, 2);
  const expr rest = sequence({free_text("</think>"), mark("</think>"), lines});
  if (frame_.in_reasoning) return rest;
  return frame_.may_reason ? optional(sequence({mark("<think>"), rest})) : literal("");
}

expr frame_builder::call_of(const callable& tool, const expr& arguments) const {
  switch (frame_.format.calls) {
    case call_format::hermes:
      return sequence({mark("<tool_call>"), literal("\n"), object_of(tool, "arguments", arguments),
                       literal("\n"), mark("</tool_call>")});
    case call_format::llama3: return object_of(tool, "parameters", arguments);
    case call_format::mistral:
      if (!has_arguments_mark()) return object_of(tool, "arguments", arguments);
      return sequence({mark("[TOOL_CALLS]"), literal(tool.name), mark("[ARGS]"), arguments});
    case call_format::harmony: {
      const expr to = literal(" to=functions." + tool.name);
      const expr json =
          choice({sequence({literal(" "), mark("<|constrain|>"), literal("json")}), literal(" json")});
      return sequence({choice({sequence({mark("<|channel|>"), literal("commentary"), to}),
                               sequence({to, mark("<|channel|>"), literal("commentary")})}),
                       json, mark("<|message|>"), arguments});
    }
    case call_format::none: break;
  }
  return choice({});
}

expr frame_builder::calls_of(const expr& one, bool parallel) const {
  const std::uint32_t more = parallel ? parallel_calls_max - 1 : 0;
  if (frame_.format.calls == call_format::hermes) {
    return sequence({one, repeat(sequence({literal("\n"), one}), 0, more)});
  }
  if (frame_.format.calls != call_format::mistral) return one;
  if (has_arguments_mark()) return sequence({one, repeat(one, 0, more)});
  return sequence({mark("[TOOL_CALLS]"), literal("["), one, repeat(sequence({literal(", "), one}), 0, more),
                   literal("]")});
}

expr frame_builder::answer(const expr& value) const {
  if (frame_.format.calls != call_format::harmony) return value;
  return sequence({mark("<|channel|>"), literal("final"),
                   optional(sequence({literal(" "), mark("<|constrain|>"), literal("json")})),
                   mark("<|message|>"), value});
}

expr frame_builder::object_of(const callable& tool, std::string_view key, const expr& arguments) {
  return sequence(
      {literal("{\"name\": \"" + tool.name + "\", \"" + std::string(key) + "\": "), arguments, literal("}")});
}

expr frame_builder::difference(const expr& body, const expr& but) {
  const grammar::rule_id rule = rules_.declare("#");
  rules_.define_common(rule, {body}, {but});
  return grammar::call(rule);
}

expr frame_builder::free_text(std::string_view until) {
  const expr any = repeat(grammar::code_points(0, 0x10FFFF), 0, grammar::unbounded);
  if (tokens_.is_token(until)) return as_rule(any);
  return difference(any, sequence({any, literal(until), any}));
}

}  // namespace orcd::engine
