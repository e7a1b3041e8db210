#include "engine/chat/frame_builder.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/chat/argument_types.hpp"
#include "engine/grammar/schema/keywords.hpp"

namespace orcd::engine {

using form = call_syntax::body;
using grammar::choice;
using grammar::expr;
using grammar::literal;
using grammar::optional;
using grammar::repeat;
using grammar::sequence;

expr frame_builder::mark(std::string_view text) const {
  return tokens_.is_token(text) ? grammar::token(text) : literal(text);
}

expr frame_builder::opening() const {
  return syntax_.kind.empty() ? mark(syntax_.open) : sequence({mark(syntax_.open), mark(syntax_.kind)});
}

expr frame_builder::valid(const boost::json::value* schema, bool strict) {
  if (schema == nullptr) return shared_.any_object();
  return grammar::schema_compiler(rules_, shared_, *schema, strict).whole("#");
}

expr frame_builder::reasoning() {
  if (syntax_.what == form::channels) {
    if (!frame_.may_reason) return literal("");
    return optional(
        sequence({mark("<|channel|>"), literal("analysis"), mark("<|message|>"), free_text("<|end|>"),
                  mark("<|end|>"), mark("<|start|>"), literal("assistant")}));
  }
  if (!frame_.format.think || frame_.in_answer) return literal("");
  const reasoning_syntax think = reasoning_marks(frame_.format);
  const expr lines = repeat(literal("\n"), 0, 2);
  const expr rest = sequence({free_text(think.close), mark(think.close), lines});
  if (frame_.in_reasoning) return rest;
  if (!frame_.may_reason) return literal("");
  const expr label = think.label.empty() ? literal("") : literal(std::string(think.label) + "\n");
  return optional(sequence({mark(think.open), label, rest}));
}

expr frame_builder::arguments_of(const callable& tool) {
  if (syntax_.what == form::elements || syntax_.what == form::python) {
    return make_arguments({syntax_, tokens_, rules_, shared_, texts_}, tool);
  }
  if (!marked_) return valid(tool.parameters, tool.strict);
  if (tool.parameters == nullptr || is_open(*tool.parameters)) return marked_->any_object();
  if ((kinds_of(*tool.parameters, *tool.parameters) & object_kind) == 0)
    grammar::fail("#/type", "must be an object");
  return grammar::schema_compiler(rules_, *marked_, *tool.parameters, tool.strict).whole("#");
}

expr frame_builder::call_of(const callable& tool, const expr& arguments) const {
  if (syntax_.what == form::channels) {
    const expr to = literal(" to=functions." + tool.name);
    const expr json =
        choice({sequence({literal(" "), mark("<|constrain|>"), literal("json")}), literal(" json")});
    return sequence({choice({sequence({mark("<|channel|>"), literal("commentary"), to}),
                             sequence({to, mark("<|channel|>"), literal("commentary")})}),
                     json, mark("<|message|>"), arguments});
  }
  if (has_arguments_mark()) {
    return sequence({mark(syntax_.open), literal(tool.name), mark("[ARGS]"), arguments});
  }
  const expr one = bare_call(tool, arguments, spacing::own);
  return syntax_.each ? sequence({opening(), behind_open(one, 0, spacing::own)}) : one;
}

expr frame_builder::calls_of(const expr& one, bool parallel) const {
  const std::uint32_t more = parallel ? parallel_calls_max - 1 : 0;
  if (frame_.format.calls == call_format::generic) {
    if (!parallel) return sequence({literal("{\"tool_call\": "), one, literal("}")});
    const expr next = sequence({literal(", "), one});
    return sequence({literal("{\"tool_calls\": ["), one, repeat(next, 0, more), literal("]}")});
  }
  if (has_arguments_mark()) return sequence({one, repeat(one, 0, more)});
  if (syntax_.each) return sequence({one, repeat(sequence({literal(syntax_.between), one}), 0, more)});
  if (syntax_.what == form::channels || syntax_.bare) return one;
  return sequence({opening(), behind_open(one, more, spacing::own)});
}

expr frame_builder::answer(const expr& value) const {
  if (syntax_.what == form::channels) {
    return sequence({mark("<|channel|>"), literal("final"),
                     optional(sequence({literal(" "), mark("<|constrain|>"), literal("json")})),
                     mark("<|message|>"), value});
  }
  if (frame_.format.calls == call_format::generic) {
    return sequence({literal("{\"response\": "), value, literal("}")});
  }
  const mark_pair around = answer_marks(frame_.format);
  if (around.open.empty()) return value;
  return choice({sequence({mark(around.open), value, mark(around.close)}), value});
}

expr frame_builder::bare_call(const callable& tool, const expr& arguments, spacing spaces) const {
  const element_syntax& elements = syntax_.elements;
  switch (syntax_.what) {
    case form::elements: {
      const expr line = optional(literal("\n"));
      const std::string name = std::string(elements.name_open) + tool.name + std::string(elements.name_close);
      return sequence({literal(name), line, arguments, literal(elements.call_close)});
    }
    case form::python:
    case form::named:
      return sequence({literal(tool.name), literal(syntax_.middle), arguments, literal(syntax_.tail)});
    default: break;
  }
  std::vector<expr> out;
  if (!syntax_.number.empty()) {
    out = {spaced(syntax_.number, spaces), repeat(grammar::byte_range('0', '9'), 1, 2)};
  }
  out.insert(out.end(), {spaced(syntax_.name, spaces), literal(tool.name), spaced(syntax_.middle, spaces),
                         arguments, spaced(syntax_.tail, spaces)});
  return sequence(std::move(out));
}

expr frame_builder::behind_open(const expr& one, std::uint32_t more, spacing spaces) const {
  expr close = literal(syntax_.trailer);
  if (!syntax_.close.empty()) {
    close = mark(syntax_.close);
    if (spaces == spacing::any) close = choice({close, literal(syntax_.close)});
  }
  const expr next = sequence({spaced(syntax_.between, spaces), one});
  return sequence(
      {spaced(syntax_.head, spaces), one, repeat(next, 0, more), spaced(syntax_.foot, spaces), close});
}

expr frame_builder::spaced(std::string_view text, spacing spaces) {
  if (spaces == spacing::own) return literal(text);
  constexpr std::string_view white = " \n";
  std::vector<expr> out;
  while (!text.empty()) {
    const bool blank = white.find(text.front()) != std::string_view::npos;
    const std::size_t end = blank ? text.find_first_not_of(white) : text.find_first_of(white);
    const expr run = literal(text.substr(0, end));
    out.push_back(blank ? optional(choice({literal(" "), run})) : run);
    text.remove_prefix(std::min(end, text.size()));
  }
  return sequence(std::move(out));
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
