#include "engine/chat/output_grammar.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/grammar/program_builder.hpp"
#include "engine/grammar/schema_compiler.hpp"
#include "engine/grammar/token_table.hpp"

namespace orcd::engine {

namespace {

using grammar::choice;
using grammar::expr;
using grammar::literal;
using grammar::optional;
using grammar::repeat;
using grammar::sequence;

constexpr std::size_t name_bytes_max = 64;

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= name_bytes_max && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("_-.:").find(c) != std::string_view::npos;
  });
}

class frame_builder {
 public:
  frame_builder(const output_frame& frame, const grammar::token_table& tokens)
      : frame_(frame), tokens_(tokens), shared_(rules_) {}

  /// A mark as its token, or spelled where the vocabulary has none.
  [[nodiscard]] expr mark(std::string_view text) const {
    return tokens_.is_token(text) ? grammar::token(text) : literal(text);
  }

  [[nodiscard]] expr valid(const boost::json::value* schema, bool strict) {
    if (schema == nullptr) return shared_.any_object();
    return grammar::schema_compiler(rules_, shared_, *schema, strict).whole("#");
  }

  /// What may come before the call or the answer.
  [[nodiscard]] expr reasoning() {
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

  [[nodiscard]] expr call_of(const callable& tool, const expr& arguments) const {
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

  [[nodiscard]] expr calls_of(const expr& one, bool parallel) const {
    const std::uint32_t more = parallel ? parallel_calls_max - 1 : 0;
    if (frame_.format.calls == call_format::hermes) {
      return sequence({one, repeat(sequence({literal("\n"), one}), 0, more)});
    }
    if (frame_.format.calls != call_format::mistral) return one;
    if (has_arguments_mark()) return sequence({one, repeat(one, 0, more)});
    return sequence({mark("[TOOL_CALLS]"), literal("["), one, repeat(sequence({literal(", "), one}), 0, more),
                     literal("]")});
  }

  [[nodiscard]] expr answer(const expr& value) const {
    if (frame_.format.calls != call_format::harmony) return value;
    return sequence({mark("<|channel|>"), literal("final"),
                     optional(sequence({literal(" "), mark("<|constrain|>"), literal("json")})),
                     mark("<|message|>"), value});
  }

  [[nodiscard]] std::shared_ptr<const grammar::program> finish(const expr& body) {
    return rules_.finish(rules_.add("#", sequence({reasoning(), body})));
  }
  /// As a rule, so that it is compiled once wherever it occurs.
  [[nodiscard]] expr as_rule(const expr& body) { return grammar::call(rules_.add("#", body)); }

 private:
  [[nodiscard]] bool has_arguments_mark() const { return tokens_.is_token("[ARGS]"); }

  [[nodiscard]] static expr object_of(const callable& tool, std::string_view key, const expr& arguments) {
    return sequence({literal("{\"name\": \"" + tool.name + "\", \"" + std::string(key) + "\": "), arguments,
                     literal("}")});
  }

  /// Any text up to a mark. Where the mark is spelled, the text must not spell it.
  [[nodiscard]] expr free_text(std::string_view until) {
    const expr any = repeat(grammar::code_points(0, 0x10FFFF), 0, grammar::unbounded);
    if (tokens_.is_token(until)) return as_rule(any);
    const grammar::rule_id rule = rules_.declare("#");
    rules_.define_difference(rule, any, sequence({any, literal(until), any}));
    return grammar::call(rule);
  }

  const output_frame& frame_;
  const grammar::token_table& tokens_;
  grammar::program_builder rules_;
  grammar::json_grammar shared_;
};

error refused(std::string text, std::string param) {
  return {errc::invalid_request, std::move(text), std::move(param)};
}

/// Calls of any of the tools.
result<expr> any_calls(frame_builder& builder, const output_frame& frame, const offered_calls& offered) {
  if (frame.format.calls == call_format::none) {
    return refused("the model's chat template has no format of tool calls that could be enforced",
                   "tool_choice");
  }
  if (offered.tools.empty()) return refused("there is no tool to call", "tools");
  std::string about;
  try {
    std::vector<expr> calls;
    for (const callable& tool : offered.tools) {
      if (!is_name(tool.name)) {
        return refused("a tool's name has 1 to " + std::to_string(name_bytes_max) +
                           " letters, digits, '_', '-', '.' and ':'",
                       "tools");
      }
      about = "tool \"" + tool.name + "\": ";
      calls.push_back(builder.call_of(tool, builder.as_rule(builder.valid(tool.parameters, tool.strict))));
    }
    about.clear();
    return builder.calls_of(builder.as_rule(choice(std::move(calls))), offered.parallel);
  } catch (const grammar::grammar_failure& failure) {
    return refused(about + failure.where + ": " + failure.what, "tools");
  }
}

}  // namespace

result<std::shared_ptr<const grammar::program>> make_call_grammar(const output_frame& frame,
                                                                  const offered_calls& offered,
                                                                  const grammar::token_table& tokens) {
  try {
    frame_builder builder(frame, tokens);
    const auto calls = any_calls(builder, frame, offered);
    if (!calls) return calls.error();
    return builder.finish(*calls);
  } catch (const grammar::grammar_failure& failure) {
    return refused(failure.where + ": " + failure.what, "tools");
  }
}

result<std::shared_ptr<const grammar::program>> make_response_grammar(const output_frame& frame,
                                                                      const boost::json::value* schema,
                                                                      const grammar::schema_options& options,
                                                                      const grammar::token_table& tokens,
                                                                      const offered_calls& offered) {
  try {
    frame_builder builder(frame, tokens);
    std::vector<expr> outputs{builder.answer(builder.valid(schema, options.strict))};
    if (!offered.tools.empty()) {
      const auto calls = any_calls(builder, frame, offered);
      if (!calls) return calls.error();
      outputs.push_back(*calls);
    }
    return builder.finish(choice(std::move(outputs)));
  } catch (const grammar::grammar_failure& failure) {
    return refused(failure.where + ": " + failure.what, options.param);
  }
}

}  // namespace orcd::engine
