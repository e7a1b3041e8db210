#include "app/pipe/conversation.hpp"

#include <boost/test/unit_test.hpp>

using namespace orcd;
using namespace orcd::app;
using ids = std::vector<engine::token_id>;

namespace {

constexpr engine::token_id end_token = 9;

pipe_request request(ids tokens, std::optional<std::uint64_t> keep = std::nullopt, std::uint32_t limit = 0) {
  pipe_request out;
  out.keep = keep;
  out.tokens = {tokens, tokens.size()};
  out.max_tokens = limit;
  return out;
}

/// What is written for tokens that the model chose, of which an EOS is the last one if `ends`.
ids written(answer& a, const ids& chosen, bool ends) {
  ids out;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    out.push_back(ends && i + 1 == chosen.size() ? a.generated_end(chosen[i]) : a.generated(chosen[i]));
  }
  if (const auto more = a.over()) out.push_back(*more);
  return out;
}

/// A context of these tokens.
conversation having(std::uint32_t context, const ids& tokens, limit_style style = limit_style::end_token) {
  conversation out(context, style);
  out.become(tokens, answer(0, end_token, limit_style::end_token, tokens.size()));
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pipe_answers)

BOOST_AUTO_TEST_CASE(an_end_that_was_generated_is_part_of_the_context) {
  answer a(0, end_token, limit_style::end_token, 10);
  BOOST_TEST((written(a, {1, 2, 8}, true) == ids{1, 2, 8}));
  BOOST_TEST(a.kv_position() == 13U);
  BOOST_TEST((a.tokens() == ids{1, 2, 8}));
}

BOOST_AUTO_TEST_CASE(a_limit_puts_an_end_in_place_of_its_last_token) {
  answer a(3, end_token, limit_style::end_token, 10);
  BOOST_TEST((written(a, {1, 2, 3}, false) == ids{1, 2, end_token}));
  BOOST_TEST(a.kv_position() == 13U, "it is part of the context, as one that was generated");
  answer one(1, end_token, limit_style::end_token, 10);
  BOOST_TEST((written(one, {4}, false) == ids{end_token}));
  BOOST_TEST(one.kv_position() == 11U);
}

BOOST_AUTO_TEST_CASE(an_end_at_the_limit_was_generated) {
  answer a(3, end_token, limit_style::end_token, 10);
  BOOST_TEST((written(a, {1, 2, 8}, true) == ids{1, 2, 8}));
  BOOST_TEST(a.kv_position() == 13U);
}

BOOST_AUTO_TEST_CASE(a_full_context_adds_an_end) {
  answer a(0, end_token, limit_style::end_token, 10);
  BOOST_TEST((written(a, {1, 2}, false) == ids{1, 2, end_token}));
  BOOST_TEST(a.kv_position() == 12U);
  answer none(5, end_token, limit_style::end_token, 10);
  BOOST_TEST((written(none, {}, false) == ids{end_token}));
  BOOST_TEST(none.kv_position() == 10U);
}

BOOST_AUTO_TEST_CASE(the_literal_text_adds_nothing) {
  answer a(3, end_token, limit_style::literal, 10);
  BOOST_TEST((written(a, {1, 2, 3}, false) == ids{1, 2, 3}));
  BOOST_TEST(a.kv_position() == 13U);
  answer ended(3, end_token, limit_style::literal, 10);
  BOOST_TEST((written(ended, {1, 8}, true) == ids{1, 8}));
}

BOOST_AUTO_TEST_CASE(what_stands_in_is_the_end_of_the_prompt_s_last_turn) {
  const ids eos{8, 9};
  BOOST_TEST(end_of_turn(ids{}, eos) == 8);
  BOOST_TEST(end_of_turn(ids{1, 2}, eos) == 8);
  BOOST_TEST(end_of_turn(ids{1, 9, 2}, eos) == 9);
  BOOST_TEST(end_of_turn(ids{1, 9, 2, 8, 3}, eos) == 8);
  BOOST_TEST(end_of_turn(ids{1, 8, 2, 9}, eos) == 9);
  BOOST_TEST(end_of_turn(ids{9, 1, 2}, eos) == 8, "the first token begins the text");
}

BOOST_AUTO_TEST_CASE(turns_go_on_from_what_is_kept) {
  const auto context = having(20, {1, 2, 3, 4});
  const auto more = context.plan(request({5})).value();
  BOOST_TEST(more.fits);
  BOOST_TEST((more.prompt == ids{1, 2, 3, 4, 5}));
  BOOST_TEST(more.tokens_max == 15U);
  BOOST_TEST((context.plan(request({5}, 0)).value().prompt == ids{5}));
  BOOST_TEST((context.plan(request({5}, 2)).value().prompt == ids{1, 2, 5}));
  BOOST_TEST((context.plan(request({}, 3)).value().prompt == ids{1, 2, 3}));
  BOOST_TEST(context.plan(request({5}, 0, 7)).value().tokens_max == 7U);
  BOOST_TEST(context.plan(request({5}, 0, 700)).value().tokens_max == 19U);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_kept_is_refused) {
  const auto context = having(20, {1, 2});
  BOOST_TEST(context.plan(request({5}, 3)).error().message ==
             "kv_position is 3; it must be at most 2, the tokens that there are");
  BOOST_TEST(context.plan(request({}, 0)).error().message ==
             "tokens is empty and kv_position 0; there must be a token to go on from");
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_not_computed) {
  const auto context = having(4, {1, 2});
  BOOST_TEST(context.plan(request({3, 4})).value().fits);
  BOOST_TEST(context.plan(request({3, 4})).value().tokens_max == 0U);
  BOOST_TEST(!context.plan(request({3, 4, 5})).value().fits);
  BOOST_TEST(!context.plan(request({3, 4, 5, 6, 7}, 0)).value().fits);
  BOOST_TEST(context.size() == 2U);
  BOOST_TEST(context.plan(request({3, 4, 5})).value().keep == 0U);
  BOOST_TEST(context.plan(request({3, 4, 5, 6}, 1)).value().keep == 1U);
  BOOST_TEST(context.plan(request({3, 4, 5, 6, 7}, 0)).value().keep == 0U);
  auto huge = request({1}, 0);
  huge.tokens.count = 2'147'483'647;
  BOOST_TEST(!context.plan(huge).value().fits);
}

BOOST_AUTO_TEST_CASE(a_talk_that_does_not_fit_is_over_until_one_begins_anew) {
  auto context = having(4, {1, 2, 3});
  context.cut(context.plan(request({4, 5})).value().keep);
  BOOST_TEST(context.size() == 0U);
  BOOST_TEST(!context.plan(request({6})).value().fits);
  auto begun = context.plan(request({6}, 0)).value();
  BOOST_TEST((begun.prompt == ids{6}));
  context.become(std::move(begun.prompt), answer(0, end_token, limit_style::end_token, 1));
  BOOST_TEST((context.plan(request({7})).value().prompt == ids{6, 7}));
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_leaves_what_was_kept) {
  auto context = having(4, {1, 2, 3}, limit_style::literal);
  context.cut(context.plan(request({4, 5})).value().keep);
  BOOST_TEST((context.plan(request({6})).value().prompt == ids{1, 2, 3, 6}));
  context.cut(context.plan(request({7, 7, 7}, 2)).value().keep);
  BOOST_TEST((context.plan(request({6})).value().prompt == ids{1, 2, 6}));
  context.cut(context.plan(request({7, 7, 7, 7, 7}, 0)).value().keep);
  BOOST_TEST(context.size() == 0U);
  BOOST_TEST((context.plan(request({6})).value().prompt == ids{6}));
}

BOOST_AUTO_TEST_CASE(the_context_becomes_prompt_and_answer) {
  auto context = having(20, {1, 2});
  answer a(3, end_token, limit_style::end_token, 3);
  BOOST_TEST((written(a, {6, 7, 8}, false) == ids{6, 7, end_token}));
  context.become({1, 2, 5}, a);
  BOOST_TEST(context.size() == a.kv_position());
  BOOST_TEST((context.plan(request({4})).value().prompt == ids{1, 2, 5, 6, 7, end_token, 4}));
}

BOOST_AUTO_TEST_SUITE_END()
