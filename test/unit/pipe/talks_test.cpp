// Talks of both SDKs, turn by turn, with a model that is a function: whatever ended an answer, the next one
// is what a fresh process gives for the whole talk.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <numeric>
#include <tuple>

#include "app/pipe/conversation.hpp"

using namespace orcd;
using namespace orcd::app;
using ids = std::vector<engine::token_id>;

namespace {

// The template begins a text with `first`, ends each turn with `turn_end` and asks for an answer with `asks`.
constexpr engine::token_id first = 1, asks = 5, other_end = 8, turn_end = 9;
const ids eos{other_end, turn_end};  // a trainer's file names the end of a text first

ids joined(const ids& a, const ids& b) {
  ids out = a;
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

/// Every token counts for the next one; now and then it ends the turn.
engine::token_id next_of(const ids& context) {
  const auto hash = std::accumulate(context.begin(), context.end(), std::uint32_t{7},
                                    [](std::uint32_t sum, auto id) { return sum * 31U + std::uint32_t(id); });
  return hash % 13U == 0 ? turn_end : static_cast<engine::token_id>(20U + hash % 50U);
}

struct reply {
  ids lines;
  std::size_t kv = 0;
};

/// As the process answers.
class pipe {
 public:
  explicit pipe(std::uint32_t context) : context_(context, limit_style::end_token) {}

  reply ask(const ids& tokens, std::optional<std::uint64_t> keep, std::uint32_t limit) {
    pipe_request request;
    request.keep = keep;
    request.tokens = {tokens, tokens.size()};
    request.max_tokens = limit;
    auto plan = context_.plan(request).value();
    answer given(limit, end_of_turn(plan.prompt, eos), limit_style::end_token, plan.prompt.size());
    reply out;
    if (!plan.fits) {
      context_.cut(plan.keep);
      out.lines = {given.over().value()};
      out.kv = context_.size();
      return out;
    }
    ids seen = plan.prompt;
    for (std::uint32_t i = 0; i < plan.tokens_max && (i == 0 || seen.back() != turn_end); ++i) {
      seen.push_back(next_of(seen));
      out.lines.push_back(seen.back() == turn_end ? given.generated_end(turn_end)
                                                  : given.generated(seen.back()));
    }
    if (const auto end = given.over()) out.lines.push_back(*end);
    out.kv = given.kv_position();
    context_.become(std::move(plan.prompt), given);
    return out;
  }

 private:
  conversation context_;
};

/// What the template makes of an answer's text, which is all that a client has of it: the template ends the
/// turn, whatever ended the answer.
ids rendered(const ids& asked, const reply& given) {
  return joined(joined(asked, {given.lines.begin(), given.lines.end() - 1}), {turn_end});
}

/// 0.1: of a talk that goes on it sends what follows the last answer's end.
struct first_sdk {
  ids said;  ///< the talk's text after the last answer
  reply ask(pipe& process, const ids& talk, std::uint32_t limit) {
    const bool goes_on = !said.empty() && std::equal(said.begin(), said.end(), talk.begin());
    const auto from = static_cast<std::ptrdiff_t>(goes_on ? said.size() : 0);
    return process.ask({talk.begin() + from, talk.end()}, goes_on ? std::nullopt : std::optional(0UL), limit);
  }
  /// The talk with that answer in it.
  ids answered(const ids& asked, const reply& given) { return said = rendered(asked, given); }
};

/// 0.5 and later: it says how much of what it takes for the context is that of the talk.
struct later_sdk {
  ids cached;
  reply ask(pipe& process, const ids& talk, std::uint32_t limit) {
    const auto [mine, theirs] = std::mismatch(cached.begin(), cached.end(), talk.begin(), talk.end());
    return process.ask({theirs, talk.end()}, static_cast<std::uint64_t>(mine - cached.begin()), limit);
  }
  ids answered(const ids& asked, const reply& given) {
    cached = joined(asked, given.lines);
    BOOST_TEST_REQUIRE(given.kv <= cached.size());  // or the SDK ends the process
    cached.resize(given.kv);
    return rendered(asked, given);
  }
};

/// Its sessions, which take the ids that they were given for the talk.
struct later_session : later_sdk {
  ids answered(const ids& asked, const reply& given) {
    later_sdk::answered(asked, given);
    return joined(asked, given.lines);
  }
};

struct turn {
  std::size_t length;   ///< of what the user says
  std::uint32_t limit;  ///< max_tokens
};

/// One talk with one process; each answer must be a fresh one's.
template <class Sdk>
void talk(std::uint32_t context, const std::vector<turn>& turns) {
  pipe process(context);
  Sdk sdk;
  ids text{first};
  engine::token_id word = 100;
  for (const turn& one : turns) {
    ids user(one.length);
    std::iota(user.begin(), user.end(), word);
    word += 100;
    text = joined(joined(text, user), {turn_end});
    const ids asked = joined(text, {asks});
    const reply given = sdk.ask(process, asked, one.limit);
    BOOST_TEST_CONTEXT("context " << context << ", turn of " << one.length << ", max_tokens " << one.limit) {
      BOOST_TEST((given.lines == pipe(context).ask(asked, 0, one.limit).lines));
    }
    text = sdk.answered(asked, given);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pipe_talks)

using sdks = std::tuple<first_sdk, later_sdk, later_session>;

BOOST_AUTO_TEST_CASE_TEMPLATE(an_answer_that_a_limit_cut_is_ended_for_the_next_turn, Sdk, sdks) {
  for (const std::uint32_t limit : {0U, 1U, 2U, 5U, 17U}) {
    for (const std::uint32_t later : {0U, 1U, 4U})
      talk<Sdk>(4'000, {{6, limit}, {3, later}, {4, limit}, {2, 3}});
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_full_context_answers_nothing_more, Sdk, sdks) {
  for (const std::uint32_t context : {9U, 10U, 11U, 12U, 16U, 30U}) {
    for (const std::uint32_t limit : {0U, 1U, 3U, 900U}) talk<Sdk>(context, {{6, limit}, {1, limit}, {1, 2}});
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_turn_that_does_not_fit_is_not_left_out_of_later_ones, Sdk, sdks) {
  for (const std::uint32_t limit : {0U, 1U, 3U}) {
    talk<Sdk>(40, {{6, 3}, {60, limit}, {2, limit}, {1, 3}});
    talk<Sdk>(40, {{60, limit}, {2, limit}, {1, 3}});
    talk<Sdk>(40, {{6, 3}, {25, limit}, {2, limit}, {1, 3}});
  }
}

BOOST_AUTO_TEST_SUITE_END()
