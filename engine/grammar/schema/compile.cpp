#include <functional>
#include <utility>
#include <vector>

#include "engine/grammar/grammar.hpp"
#include "engine/grammar/program_builder.hpp"
#include "engine/grammar/schema/compiler.hpp"
#include "engine/grammar/text_grammar.hpp"

namespace orcd::engine::grammar {

namespace {

using made = result<std::shared_ptr<const program>>;

/// Gives what `define` makes of a new builder, whose root it returns.
made built(const char* noun, const std::string& param,
           const std::function<rule_id(program_builder&)>& define) {
  try {
    program_builder builder(limits_for(noun));
    return builder.finish(define(builder));
  } catch (const grammar_failure& failure) {
    return error(errc::invalid_request, failure.where + ": " + failure.what, param);
  }
}

}  // namespace

made compile_json_schema(const boost::json::value& schema, const schema_options& options) {
  return built("schema", options.param, [&](program_builder& builder) {
    json_grammar shared(builder);
    const rule_id root = builder.declare("#");
    builder.define(root, schema_compiler(builder, shared, schema, options.strict).whole("#"));
    return root;
  });
}

expr compile_inner_schema(program_builder& builder, const boost::json::value& schema) {
  json_grammar shared(builder);
  return schema_compiler(builder, shared, schema, false).whole("#");
}

const std::vector<std::string>& ignored_annotations(const program& grammar) noexcept {
  return grammar.ignored;
}

made compile_text(const text_grammar& grammar, const std::string& param) {
  return built(noun_of(grammar), param,
               [&](program_builder& builder) { return define_text(builder, grammar, compile_inner_schema); });
}

made compile_regex(std::string_view pattern, const std::string& param) {
  return compile_text({text_grammar::kind::regex, std::string(pattern), {}}, param);
}

made compile_choice(std::span<const std::string> choices, const std::string& param) {
  return compile_text({text_grammar::kind::choice, {}, {choices.begin(), choices.end()}}, param);
}

made compile_grammar(std::string_view text, const std::string& param) {
  return compile_text({text_grammar::kind::grammar, std::string(text), {}}, param);
}

std::shared_ptr<const program> json_object_grammar() {
  static const std::shared_ptr<const program> made = [] {
    program_builder builder;
    json_grammar shared(builder);
    return builder.finish(builder.add("#", shared.any_object()));
  }();
  return made;
}

}  // namespace orcd::engine::grammar
