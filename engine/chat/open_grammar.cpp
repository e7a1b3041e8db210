// Outputs that are free except for the calls in them. Each format is a regular language around the calls:
// what opens a call is excluded from the free text, and after it only the grammar of a call continues. Sigma
// is every byte, including the one that stands before the text of a control token, so that free text may
// contain every token.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/chat/frame_builder.hpp"
#include "engine/chat/output_grammar.hpp"

namespace orcd::engine {

namespace {

using form = call_syntax::body;
using grammar::choice;
using grammar::expr;
using grammar::literal;
using grammar::optional;
using grammar::sequence;

expr many(expr part) {
  return grammar::repeat(std::move(part), 0, grammar::unbounded);
}
expr any_byte() {
  return grammar::byte_range(0, 255);
}
expr bytes_of(std::string_view list) {
  grammar::byte_set set;
  for (const char c : list) set.set(static_cast<unsigned char>(c));
  return grammar::one_of(set);
}
expr bytes_but(std::string_view list) {
  grammar::byte_set set;
  for (const char c : list) set.set(static_cast<unsigned char>(c));
  return grammar::one_of(~set);
}
expr any() {
  return many(any_byte());
}
expr space() {
  return many(bytes_of(" \n\t\r"));
}
expr holds(expr part) {
  return sequence({any(), std::move(part), any()});
}
expr begins(expr part) {
  return sequence({std::move(part), any()});
}
expr words(std::initializer_list<std::string_view> list) {
  std::vector<expr> out;
  for (const auto word : list) out.push_back(literal(word));
  return choice(std::move(out));
}

class open_builder {
 public:
  /// `about` is set to the tool whose schema is being compiled, for the message when something is thrown.
  open_builder(frame_builder& pieces, std::span<const callable> tools, std::string& about) : pieces_(pieces) {
    for (const callable& offered : tools) {
      about = "tool \"" + offered.name + "\": ";
      tools_.push_back({offered, pieces.as_rule(pieces.arguments_of(offered))});
    }
    about.clear();
  }

  [[nodiscard]] expr output() {
    switch (pieces_.syntax().what) {
      case form::none: return any();
      case form::channels: return harmony();
      case form::named: return after_reasoning(named());
      case form::lead_name:
        if (pieces_.has_arguments_mark()) return after_reasoning(between_calls(marked_call()));
        break;
      default: break;
    }
    return after_reasoning(pieces_.syntax().bare ? llama3() : between_calls(any_calls()));
  }

 private:
  struct tool {
    callable what;
    expr arguments;
  };

  [[nodiscard]] expr without(const expr& part) { return pieces_.difference(any(), part); }
  /// The mark as a token or as text; used where no free text before it could consume the token's first byte.
  [[nodiscard]] expr either(std::string_view text) const {
    return choice({pieces_.mark(text), literal(text)});
  }

  /// Reasoning is free text of any kind, and may come until there is content.
  [[nodiscard]] expr after_reasoning(const expr& text) {
    if (!pieces_.frame().format.think) return text;
    auto& rules = pieces_.rules();
    const mark_pair think = reasoning_marks(pieces_.frame().format);
    const expr inside = without(holds(literal(think.close)));
    const grammar::rule_id whole = rules.declare("#");
    const expr reasoned =
        sequence({inside, optional(sequence({literal(think.close), grammar::call(whole)}))});
    rules.define(whole, choice({text, sequence({space(), either(think.open), reasoned})}));
    return pieces_.frame().in_reasoning ? reasoned : grammar::call(whole);
  }

  [[nodiscard]] expr between_calls(const expr& call) {
    const call_syntax& syntax = pieces_.syntax();
    expr mark = literal(syntax.open);
    if (!syntax.kind.empty()) {
      const expr is_token = optional(bytes_of({&grammar::token_mark, 1}));
      mark = sequence({std::move(mark), is_token, literal(syntax.kind)});
    }
    const expr free = without(holds(mark));
    return pieces_.as_rule(sequence({free, many(sequence({mark, call, free}))}));
  }

  /// What follows the opening mark.
  [[nodiscard]] expr any_calls() const {
    constexpr auto spaces = frame_builder::spacing::any;
    std::vector<expr> out;
    for (const auto& t : tools_) out.push_back(pieces_.bare_call(t.what, t.arguments, spaces));
    const expr one = pieces_.as_rule(choice(std::move(out)));
    const expr gap = optional(literal(" "));
    return sequence(
        {gap, pieces_.behind_open(one, pieces_.syntax().each ? 0 : parallel_calls_max - 1, spaces)});
  }

  [[nodiscard]] expr marked_call() const {
    std::vector<expr> out;
    for (const auto& t : tools_)
      out.push_back(sequence({literal(t.what.name), either("[ARGS]"), t.arguments}));
    return pieces_.as_rule(choice(std::move(out)));
  }

  // A call begins the output or follows a mark: a name that is offered, white space, an object.
  [[nodiscard]] expr named() {
    std::vector<expr> openings, calls;
    for (const auto& t : tools_) {
      openings.push_back(
          sequence({space(), literal(t.what.name), bytes_of(" \n\t\r"), space(), literal("{")}));
      calls.push_back(sequence({space(), literal(t.what.name), space(), literal("\n"), t.arguments}));
    }
    const expr mark = literal(pieces_.syntax().open);
    const expr free = without(choice({begins(choice(std::move(openings))), holds(mark)}));
    const expr call = sequence({pieces_.as_rule(choice(std::move(calls))), without(holds(mark))});
    const expr part = pieces_.as_rule(choice({free, call}));
    return sequence({part, many(sequence({mark, part}))});
  }

  // A call is an object at the beginning of the output or right after a mark. An object with other members is
  // an answer, and free. Excluded is what output_parser would take for a call without such a beginning: a
  // name that is no tool's or is written with escapes, or arguments before the name.
  [[nodiscard]] expr llama3() {
    const std::string_view mark = pieces_.syntax().open;
    const expr name = words({"\"name\"", "\"function\""});
    const expr colon = sequence({space(), literal(":"), space()});
    const expr text =
        sequence({literal("\""), many(choice({bytes_but("\"\\"), sequence({literal("\\"), any_byte()})})),
                  literal("\"")});
    const expr type = sequence({literal("\"type\""), colon, text, space(), literal(","), space()});
    const expr head = sequence({space(), literal("{"), space(), many(type)});
    const expr second = words({"\"parameters\"", "\"arguments\"", "\"type\"", "\"id\""});
    const expr plain_name = sequence({literal("\""), many(bytes_but("\"\\"))});
    const expr ends = choice(
        {literal("\\"), sequence({literal("\""), space(),
                                  choice({literal("}"), sequence({literal(","), space(), second})})})});
    const expr wrong = sequence({head, choice({words({"\"parameters\"", "\"arguments\"", "\"id\""}),
                                               sequence({literal("\"type\""), colon, bytes_but("\" \n\t\r")}),
                                               sequence({name, colon, plain_name, ends})})});
    std::vector<expr> openings{wrong}, calls;
    for (const auto& t : tools_) {
      const expr opening = sequence({head, name, colon, literal("\"" + t.what.name + "\"")});
      openings.push_back(opening);
      const expr gap = optional(literal(" "));
      calls.push_back(
          sequence({opening, literal(","), gap, literal("\"parameters\":"), gap, t.arguments, literal("}")}));
    }
    const expr call = pieces_.as_rule(choice(std::move(calls)));
    const expr next = sequence({space(), optional(literal(";")), space()});
    const expr after = without(choice({begins(sequence({next, literal("{")})), holds(literal(mark))}));
    const expr chain =
        sequence({call, many(sequence({optional(sequence({space(), literal(";")})), call})), after});
    const expr opened = choice(std::move(openings));
    const expr rest = choice({without(choice({begins(opened), holds(literal(mark))})), chain});
    expr first = rest;
    if (pieces_.frame().format.think) {
      const expr think = sequence({space(), optional(bytes_of({&grammar::token_mark, 1})),
                                   literal(reasoning_marks(pieces_.frame().format).open)});
      first = choice({without(choice({begins(opened), begins(think), holds(literal(mark))})), chain});
    }
    return pieces_.as_rule(sequence({first, many(sequence({literal(mark), rest}))}));
  }

  // Headers and bodies alternate. A header that names a strict function is followed by its arguments.
  [[nodiscard]] expr harmony() {
    std::vector<expr> recipients, calls;
    std::vector<std::pair<expr, expr>> strict;
    for (const auto& t : tools_) {
      if (!t.what.strict) continue;
      const expr to =
          sequence({literal("to="), space(), optional(literal("functions.")), literal(t.what.name)});
      recipients.push_back(to);
      strict.emplace_back(to, t.arguments);
    }
    const std::string edge = std::string(" \n\t\r<") + grammar::token_mark;
    const expr to = choice(std::move(recipients));
    const expr message = literal("<|message|>");
    const expr header =
        without(choice({holds(choice({message, sequence({to, bytes_of(edge)})})), sequence({any(), to})}));
    const expr rest = without(
        choice({begins(bytes_but(edge)),
                holds(words({"<|message|>", "to=", "<|start|>", "<|end|>", "<|call|>", "<|return|>"}))}));
    const expr next = words({"<|start|>", "<|channel|>"});
    const expr body = without(holds(next));
    for (const auto& [recipient, arguments] : strict) {
      calls.push_back(sequence({recipient, rest, message, arguments}));
    }
    const expr call = pieces_.as_rule(choice(std::move(calls)));
    const expr part = pieces_.as_rule(
        sequence({header, optional(choice({sequence({message, body}), sequence({call, body})}))}));
    return sequence({part, many(sequence({next, part}))});
  }

  frame_builder& pieces_;
  std::vector<tool> tools_;
};

}  // namespace

result<std::shared_ptr<const grammar::program>> make_open_grammar(const output_frame& frame,
                                                                  std::span<const callable> tools,
                                                                  const grammar::token_table& tokens) {
  std::string about;
  try {
    frame_builder pieces(frame, tokens);
    open_builder builder(pieces, tools, about);
    return pieces.finish(builder.output());
  } catch (const grammar::grammar_failure& failure) {
    return error(errc::invalid_request, about + failure.where + ": " + failure.what, "tools");
  }
}

}  // namespace orcd::engine
