// The grammar that a chat request asks for: what it is compiled from, the compilation, and its key in the
// cache (net/jobs/grammar_cache.hpp). Any thread. Private to net/.
#pragma once

#include <memory>
#include <string>

#include "engine/chat/output_grammar.hpp"
#include "net/completion/output_constraints.hpp"
#include "net/jobs/grammar_cache.hpp"

namespace orcd::net {

/// What a grammar is compiled from. Owns what it names.
struct grammar_source {
  output_constraints constraints;  ///< its kind is not none
  engine::output_frame frame;
  std::shared_ptr<const engine::grammar::token_table> tokens;
};

/// Compiles a grammar. Takes a tenth of a second at most, and 32 MiB meanwhile
/// (engine/grammar/compile_budget.hpp); twice that time where parameters of the generic form are given up.
/// Errors: invalid_request, with the request's field as param and, in the message, the path of what cannot be
/// compiled in its schema.
[[nodiscard]] engine::result<grammar_program> compile_grammar(const grammar_source& source);

/// X-Schema-Ignored: the annotations that constrain nothing, as "format=uri, format=x"; short and printable.
[[nodiscard]] std::string ignored_header(const engine::grammar::program& grammar);

/// The cache's key: a digest of 64 characters, equal for sources that give the same grammar. Linear in the
/// size of the schemas, some nanoseconds a byte.
[[nodiscard]] std::string key_of(const grammar_source& source);

}  // namespace orcd::net
