#include "engine/grammar/grammar.hpp"
#include "engine/grammar/program_builder.hpp"
#include "engine/grammar/schema_compiler.hpp"
#include "engine/grammar/schema_merge.hpp"

namespace orcd::engine::grammar {

result<std::shared_ptr<const program>> compile_json_schema(const boost::json::value& schema,
                                                           const schema_options& options) {
  try {
    program_builder builder;
    json_grammar shared(builder);
    const rule_id root = builder.declare("#");
    const merge_budget budget;
    builder.define(root, schema_compiler(builder, shared, schema, options.strict).whole("#"));
    return builder.finish(root);
  } catch (const grammar_failure& failure) {
    return error(errc::invalid_request, failure.where + ": " + failure.what, options.param);
  }
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
