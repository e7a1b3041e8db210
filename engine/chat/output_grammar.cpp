#include "engine/chat/output_grammar.hpp"

#include <algorithm>
#include <boost/json/object.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/chat/frame_builder.hpp"
#include "engine/grammar/json_rules.hpp"
#include "engine/grammar/schema/compiler.hpp"
#include "engine/grammar/text_grammar.hpp"

namespace orcd::engine {

namespace {

using grammar::choice;
using grammar::expr;

constexpr std::size_t name_bytes_max = 128;

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= name_bytes_max && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("_-.:").find(c) != std::string_view::npos;
  });
}

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
      calls.push_back(builder.call_of(tool, builder.as_rule(builder.arguments_of(tool))));
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
    return builder.finish(grammar::sequence({builder.reasoning(), *calls}));
  } catch (const grammar::grammar_failure& failure) {
    return refused(failure.where + ": " + failure.what, "tools");
  }
}

result<std::shared_ptr<const grammar::program>> make_generic_grammar(const output_frame& frame,
                                                                     const offered_calls& offered,
                                                                     const grammar::token_table& tokens) {
  try {
    frame_builder builder(frame, tokens);
    if (frame.in_answer) {
      const expr character = grammar::string_character(0, 0x10FFFF);
      return builder.finish(
          grammar::sequence({grammar::repeat(character, 0, grammar::unbounded), grammar::literal("\"}")}));
    }
    const boost::json::value text = boost::json::object{{"type", "string"}};
    const expr response = builder.answer(builder.valid(&text, false));
    const auto calls = any_calls(builder, frame, offered);
    if (!calls) return calls.error();
    return builder.finish(grammar::sequence({builder.reasoning(), choice({response, *calls})}));
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
    return builder.finish(grammar::sequence({builder.reasoning(), choice(std::move(outputs))}));
  } catch (const grammar::grammar_failure& failure) {
    return refused(failure.where + ": " + failure.what, options.param);
  }
}

result<std::shared_ptr<const grammar::program>> make_text_grammar(const output_frame& frame,
                                                                  const grammar::text_grammar& text,
                                                                  const std::string& param,
                                                                  const grammar::token_table& tokens) {
  try {
    frame_builder builder(frame, tokens, grammar::noun_of(text));
    const expr body =
        grammar::call(grammar::define_text(builder.rules(), text, grammar::compile_inner_schema));
    return builder.finish(grammar::sequence({builder.reasoning(), builder.answer(body)}));
  } catch (const grammar::grammar_failure& failure) {
    return refused(failure.where + ": " + failure.what, param);
  }
}

}  // namespace orcd::engine
