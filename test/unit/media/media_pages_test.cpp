// Pages and media: two pictures never share what lies behind their beginnings, and blocks come and go.
#include <boost/test/unit_test.hpp>
#include <numeric>
#include <vector>

#include "engine/base/sha256.hpp"
#include "engine/schedule/kv_cache.hpp"
#include "engine/schedule/media_store.hpp"
#include "engine/schedule/page_keys.hpp"
#include "engine/schedule/sequence_media.hpp"

using namespace orcd::engine;

namespace {

constexpr std::uint32_t page = 16;

kv_cache make_cache(std::uint32_t pages = 32) {
  return {{.page_positions = page, .pages = pages}, {.tokens_min = 1}, [](auto, auto) {}};
}

/// 40 tokens with a medium of 20 positions from `at` on.
std::vector<token_id> tokens_with_medium(std::uint32_t at) {
  std::vector<token_id> out(40);
  std::iota(out.begin(), out.end(), 100);
  std::fill_n(out.begin() + at, 20, media_token);
  return out;
}

cache_request wish_with(std::uint32_t at, const std::string& digest) {
  cache_request out;
  out.media.push_back(mark_of(at, digest));
  return out;
}

void compute(kv_cache& cache, const cache_request& wish, const std::vector<token_id>& tokens) {
  auto lease = cache.reserve(wish, tokens, static_cast<std::uint32_t>(tokens.size()));
  BOOST_REQUIRE(lease.has_value());
  cache.publish(*lease, wish, tokens, static_cast<std::uint32_t>(tokens.size()));
  cache.finish(std::move(*lease), wish, tokens, static_cast<std::uint32_t>(tokens.size()));
}

std::uint32_t held(kv_cache& cache, const cache_request& wish, const std::vector<token_id>& tokens) {
  auto lease = cache.reserve(wish, tokens, static_cast<std::uint32_t>(tokens.size()));
  BOOST_REQUIRE(lease.has_value());
  const std::uint32_t out = lease->held;
  cache.finish(std::move(*lease), wish, tokens, 0);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(media_pages)

BOOST_AUTO_TEST_CASE(the_same_medium_is_found_and_another_is_not) {
  // At the beginning, inside, at the end of a page, and where one begins.
  for (const std::uint32_t at : {0U, 5U, 15U, 16U, 18U}) {
    auto cache = make_cache();
    const auto tokens = tokens_with_medium(at);
    const auto one = wish_with(at, sha256_of("one")), other = wish_with(at, sha256_of("other"));
    compute(cache, one, tokens);
    BOOST_TEST(held(cache, one, tokens) == 39U, "at " << at);
    BOOST_TEST(held(cache, other, tokens) == at, "at " << at);
    compute(cache, other, tokens);
    BOOST_TEST(held(cache, one, tokens) == 39U, "at " << at);
    BOOST_TEST(held(cache, other, tokens) == 39U, "at " << at);
    BOOST_TEST(held(cache, {}, tokens) == at, "no medium, at " << at);
  }
}

BOOST_AUTO_TEST_CASE(digests_that_begin_alike_share_nothing_of_the_medium) {
  std::string digest = sha256_of("one"), close = digest;
  close.back() = close.back() == '0' ? '1' : '0';
  auto cache = make_cache();
  const auto tokens = tokens_with_medium(3);
  compute(cache, wish_with(3, digest), tokens);
  BOOST_TEST(held(cache, wish_with(3, close), tokens) == 3U);
}

BOOST_AUTO_TEST_CASE(marks_have_all_of_a_digest_and_are_no_tokens) {
  const std::string all(64, 'f'), none(64, '0');
  BOOST_TEST((mark_of(0, all).words != mark_of(0, none).words));
  for (std::size_t i = 0; i < 64; ++i) {
    std::string one = none;
    one[i] = '1';
    BOOST_TEST((mark_of(0, one).words != mark_of(0, none).words), "digit " << i);
  }
  for (const token_id word : mark_of(0, all).words) BOOST_TEST(is_media_word(word));
  BOOST_TEST(!is_media_word(media_token));
  BOOST_TEST(!is_media_word(-1));
  BOOST_TEST(!is_media_word(0));
}

BOOST_AUTO_TEST_CASE(a_page_is_taken_over_from_a_job_with_the_same_medium_alone) {
  auto cache = make_cache();
  const auto tokens = tokens_with_medium(4);
  const auto one = wish_with(4, sha256_of("one")), other = wish_with(4, sha256_of("other"));
  auto first = cache.reserve(one, tokens, 40), same = cache.reserve(one, tokens, 40),
       different = cache.reserve(other, tokens, 40);
  cache.publish(*first, one, tokens, 32);
  BOOST_TEST(cache.catch_up(*same, one, tokens, 0) == 32U);
  BOOST_TEST(cache.catch_up(*different, other, tokens, 0) == 0U);
  BOOST_TEST(have_same_media(one, one, 40));
  BOOST_TEST(!have_same_media(one, other, 40));
  BOOST_TEST(have_same_media(one, other, 4));
}

BOOST_AUTO_TEST_CASE(media_that_nobody_holds_give_way_the_oldest_first) {
  media_store store(4);
  auto a = store.take("a", 65);
  BOOST_REQUIRE(a != nullptr);
  BOOST_TEST(a->blocks.size() == 2U);
  a->ready = true;
  auto b = store.take("b", 64);
  b->ready = true;
  BOOST_TEST((store.take("c", 128) == nullptr), "a and b are held");
  BOOST_TEST((store.take("a", 65) == a));
  b.reset();
  a.reset();
  BOOST_TEST((store.take("b", 64) != nullptr));
  const auto c = store.take("c", 128);  // a was used before b
  BOOST_REQUIRE(c != nullptr);
  BOOST_TEST(!c->ready);
  BOOST_TEST(store.counts().stored == 2U);
  BOOST_TEST(store.counts().hits == 2U);
  BOOST_TEST(!store.can_hold(4 * 64 + 1));
}

BOOST_AUTO_TEST_CASE(what_was_not_finished_is_forgotten) {
  media_store store(2);
  static_cast<void>(store.take("a", 64));
  store.drop_unfinished();
  BOOST_TEST(store.counts().stored == 0U);
  auto held = store.take("b", 128);
  store.drop_unfinished();
  BOOST_TEST(store.counts().stored == 1U);
}

BOOST_AUTO_TEST_CASE(chunks_end_where_rows_are_not_there_or_see_each_other) {
  media_store store(8);
  for (const bool see : {false, true}) {
    sequence_media media;
    std::vector<job_medium> all(2);
    all[0] = {nullptr, "a", 10, {{20, 6, 0}, {30, 4, 6}}, see};
    all[1] = {nullptr, "b", 5, {{50, 5, 0}}, see};
    media.set(all);
    BOOST_TEST(media.fit(0, 100, 100) == 20U, "a is not there");
    BOOST_TEST(media.fit(20, 5, 100) == 0U);
    const job_medium* const first = media.next(0);
    auto rows = store.take("a" + std::to_string(see), 10);
    rows->ready = true;
    media.hold(*first, rows);
    BOOST_TEST(media.fit(0, 100, 100) == 50U, "b is not there");
    BOOST_TEST(media.fit(0, 22, 100) == (see ? 20U : 22U));
    BOOST_TEST(media.fit(20, 2, 100) == (see ? 6U : 2U));
    BOOST_TEST(media.fit(20, 2, 3) == (see ? 0U : 2U));
    BOOST_TEST(media.rows(0, 40).size() == 2U);
    BOOST_TEST(media.rows(26, 4).empty());
    BOOST_TEST((media.next(33) == first));
    BOOST_TEST((media.next(34) != first));
    media.keep(media.next(34));
    BOOST_TEST((media.held() == nullptr));
    BOOST_TEST((media.next(55) == nullptr));
  }
}

BOOST_AUTO_TEST_CASE(text_behind_a_grid_goes_on_at_its_longer_side) {
  // 3 lines of 4 from position 5 on, and 2 lines of 1 from position 20 on.
  std::vector<job_medium> all(2);
  all[0] = {nullptr, "a", 12, {{5, 12, 0}}, false, 4};
  all[1] = {nullptr, "b", 2, {{20, 2, 0}}, false, 1};
  sequence_media media;
  media.set(all);
  const std::vector<media_rows> parts{{5, 12, 0, {}, false, 4}, {20, 2, 0, {}, false, 1}};
  const auto at = [&](std::uint32_t first, std::uint32_t position) {
    sequence_step step;
    step.position = first;
    std::vector<media_rows> own;
    for (const media_rows& part : parts)
      if (part.position + part.count > first) own.push_back(part);
    step.media = own;
    step.rotary_shift = media.rotary_shift(first);
    return rotary_at(step, position);
  };
  for (std::uint32_t first = 0; first < 24; ++first) {
    // The same from wherever the step begins.
    if (first <= 4) BOOST_TEST((at(first, 4) == rotary_position{4, 4, 4}), first);
    if (first <= 5) BOOST_TEST((at(first, 5) == rotary_position{5, 5, 5}), first);
    if (first <= 10) BOOST_TEST((at(first, 10) == rotary_position{5, 6, 6}), first);
    if (first <= 16) BOOST_TEST((at(first, 16) == rotary_position{5, 7, 8}), first);
    if (first <= 17) BOOST_TEST((at(first, 17) == rotary_position{9, 9, 9}), first);
    if (first <= 20) BOOST_TEST((at(first, 20) == rotary_position{12, 12, 12}), first);
    if (first <= 21) BOOST_TEST((at(first, 21) == rotary_position{12, 13, 12}), first);
    if (first <= 23) BOOST_TEST((at(first, 23) == rotary_position{15, 15, 15}), first);
  }
}

BOOST_AUTO_TEST_SUITE_END()
