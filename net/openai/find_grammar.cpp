#include "net/openai/find_grammar.hpp"

#include <utility>

#include "net/jobs/run_in_background.hpp"

namespace orcd::net {

using engine::result;

namespace {

/// A grammar without a schema of the request's own always takes about the same, short time.
task_length compile_length(const grammar_source& source) {
  const auto& constraints = source.constraints;
  const bool plain =
      constraints.kind == constraint_kind::json && constraints.schema.is_null() && constraints.tools.empty();
  return plain ? task_length::brief : task_length::lengthy;
}

}  // namespace

asio::awaitable<result<grammar_program>> find_grammar(service& s, connection& c, const http_request& request,
                                                      std::string key, grammar_source source) {
  if (auto found = s.grammars.find(key)) co_return *found;
  background_plan plan(compile_length(source), "the schema could not be compiled",
                       "the schema was not compiled within 30 s");
  // Shared, because a std::function is copied and the schema should not be; freed on the thread that compiled
  // it.
  const auto shared = std::make_shared<const grammar_source>(std::move(source));
  std::function<result<grammar_program>()> compile = [shared] { return compile_grammar(*shared); };
  auto made = co_await run_in_background<grammar_program>(s, c, request.owner.tenant, std::move(plan),
                                                          std::move(compile));
  s.grammars.keep(std::move(key), made);
  co_return made;
}

}  // namespace orcd::net
