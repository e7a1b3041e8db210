#include "net/find_grammar.hpp"

#include <atomic>
#include <boost/asio/post.hpp>
#include <exception>
#include <utility>

#include "net/signal.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;
using engine::result;
using std::chrono::steady_clock;

/// One compilation, owned by both threads. `made` is the other thread's until it has posted.
struct errand {
  errand(const grammar_order& o, const asio::any_io_executor& executor)
      : order(o), home(executor), wake(executor) {}

  grammar_order order;
  asio::any_io_executor home;
  signal wake;
  bool done = false;
  std::atomic<bool> abandoned = false;  ///< nobody waits any more
  std::optional<result<grammar_program>> made;
};

void compile(const std::shared_ptr<errand>& work) {
  if (work->abandoned) return;
  try {
    work->made.emplace(compile_demand(work->order));
  } catch (const std::exception&) {
    // Memory, most likely; the message may hold parts of the schema.
    work->made.emplace(error(errc::internal, "the schema could not be compiled"));
  }
  asio::post(work->home, [work] {
    work->done = true;
    work->wake.raise();
  });
}

/// Counts while it lives.
class counted {
 public:
  explicit counted(std::uint32_t& count) : count_(count) { ++count_; }
  counted(const counted&) = delete;
  counted& operator=(const counted&) = delete;
  ~counted() { --count_; }

 private:
  std::uint32_t& count_;
};

}  // namespace

asio::awaitable<result<grammar_program>> find_grammar(service& s, connection& c, const grammar_order& order) {
  std::string key = key_of(order);
  if (auto found = s.grammars.find(key)) co_return found;
  if (s.grammars_in_work >= grammars_in_work_max) {
    co_return error(errc::queue_full, std::to_string(grammars_in_work_max) + " schemas are being compiled");
  }
  const counted busy(s.grammars_in_work);
  const auto work = std::make_shared<errand>(order, c.stream.get_executor());
  if (s.context.run_aside) {
    s.context.run_aside([work] { compile(work); });
  } else {
    compile(work);
  }
  const auto until = steady_clock::now() + grammar_patience;
  while (!work->done && steady_clock::now() < until) co_await work->wake.wait_until(until);
  if (!work->done) {
    work->abandoned = true;
    co_return error(errc::inference_timeout,
                    "the schema was not compiled within " + std::to_string(grammar_patience.count()) + " s");
  }
  if (*work->made) s.grammars.keep(std::move(key), **work->made);
  co_return *work->made;
}

}  // namespace orcd::net
