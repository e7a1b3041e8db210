#include "net/find_grammar.hpp"

#include <utility>

#include "net/errand.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;
using engine::result;
using std::chrono::steady_clock;

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
  const auto work = errand<grammar_program>::start(
      s.context.run_aside, c.stream.get_executor(), [order] { return compile_demand(order); },
      "the schema could not be compiled");
  if (!co_await work->done_by(steady_clock::now() + grammar_patience)) {
    co_return error(errc::inference_timeout,
                    "the schema was not compiled within " + std::to_string(grammar_patience.count()) + " s");
  }
  if (work->made()) s.grammars.keep(std::move(key), *work->made());
  co_return work->made();
}

}  // namespace orcd::net
