#include "net/completion/find_grammar.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "net/jobs/run_in_background.hpp"

namespace orcd::net {

using engine::result;
using std::chrono::steady_clock;

namespace {

/// A grammar without a schema of the request's own always takes about the same, short time.
task_length compile_length(const grammar_source& source) {
  const auto& constraints = source.constraints;
  const bool plain =
      constraints.kind == constraint_kind::json && constraints.schema.is_null() && constraints.tools.empty();
  return plain ? task_length::brief : task_length::lengthy;
}

/// Lets those that wait for the grammar go on, whatever came of it.
class work_on_grammar {
 public:
  work_on_grammar(grammar_cache& cache, std::string key) : cache_(cache), key_(std::move(key)) {}
  ~work_on_grammar() { cache_.end_work(key_); }
  work_on_grammar(const work_on_grammar&) = delete;
  work_on_grammar& operator=(const work_on_grammar&) = delete;

 private:
  grammar_cache& cache_;
  std::string key_;
};

/// As long as a compilation may take, with its wait in the queue.
constexpr std::chrono::seconds patience{30};

/// Until somebody else's work is over, `until` or the client's end.
asio::awaitable<void> await_work(connection& c, std::shared_ptr<grammar_cache::work> work,
                                 steady_clock::time_point until) {
  constexpr std::chrono::milliseconds look_interval{250};  // for a client that goes
  const auto ended = std::make_shared<signal>(c.stream.get_executor());
  work->waiting.push_back(ended);
  while (!work->over && !is_lost(c) && steady_clock::now() < until) {
    co_await ended->wait_until(std::min(until, steady_clock::now() + look_interval));
  }
}

asio::awaitable<result<grammar_program>> compile(service& s, connection& c, const http_request& request,
                                                 std::string key, grammar_source source,
                                                 std::shared_ptr<grammar_cache::work> work) {
  const work_on_grammar others_wait(s.grammars, key);
  background_plan plan(compile_length(source), "the schema could not be compiled",
                       "the schema was not compiled within 30 s");
  // Shared, because a std::function is copied and the schema should not be; freed on the thread that compiled
  // it.
  const auto shared = std::make_shared<const grammar_source>(std::move(source));
  std::function<result<grammar_program>()> compile = [shared] { return compile_grammar(*shared); };
  auto made = co_await run_in_background<grammar_program>(s, c, request.owner.tenant, std::move(plan),
                                                          std::move(compile));
  s.grammars.keep(std::move(key), made);
  if (!is_lost(c)) work->made = made;
  co_return made;
}

}  // namespace

/// Requests of one grammar come together, most of all when an engine takes them over from another: one
/// compiles it, the others wait for what comes of that.
asio::awaitable<result<grammar_program>> find_grammar(service& s, connection& c, const http_request& request,
                                                      std::string key, grammar_source source) {
  const auto until = steady_clock::now() + patience;
  for (;;) {
    if (auto found = s.grammars.find(key)) co_return *found;
    auto joined = s.grammars.join_work(key);
    if (joined.begun) {
      co_return co_await compile(s, c, request, std::move(key), std::move(source), std::move(joined.what));
    }
    co_await await_work(c, joined.what, until);
    if (joined.what->made) co_return *joined.what->made;
    if (is_lost(c)) co_return engine::error(engine::errc::cancelled, "the client has gone");
    if (!joined.what->over) {
      co_return engine::error(engine::errc::inference_timeout, "the schema was not compiled within 30 s");
    }
  }
}

}  // namespace orcd::net
