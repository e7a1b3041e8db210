// Pages of layers with a window: taken as a job goes on, given back behind it, kept by boundaries, never too
// few. And prefixes that are shared up to a boundary.
#include "engine/schedule/window_cache.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>

#include "engine/schedule/kv_cache.hpp"

using namespace orcd::engine;

namespace {

constexpr std::uint32_t page_size = 4;
using tokens = std::vector<token_id>;

tokens count_to(token_id last, token_id first = 1) {
  tokens out;
  for (token_id t = first; t <= last; ++t) out.push_back(t);
  return out;
}

kv_geometry geometry_of(std::uint32_t pages, std::vector<kv_group> groups) {
  kv_geometry out{.page_positions = page_size, .pages = pages, .page_bytes = 0};
  for (const kv_group& group : groups) out.groups.at(out.group_count++) = group;
  return out;
}

kv_group window_of(std::uint32_t window, std::uint32_t pages, std::uint32_t for_boundaries = 4) {
  return {kv_need::window, window, pages, for_boundaries, 0};
}

using cleared = std::map<std::uint32_t, std::vector<kv_page>>;  // by group

struct window_bench {
  explicit window_bench(std::vector<kv_group> groups)
      : windows(geometry_of(8, std::move(groups)),
                [this](std::uint32_t group, std::span<const kv_page> pages) {
                  seen[group].insert(seen[group].end(), pages.begin(), pages.end());
                }) {}
  cleared seen;
  window_cache windows;
  prefix_tree tree{page_size, [this](const prefix_tree::node* at) { windows.forget(at); }};
  std::vector<std::string> added;

  void reach(job_windows& of, std::uint32_t end) {
    windows.reach(of, end, [&](std::uint32_t group, std::uint32_t have) {
      added.push_back(std::to_string(group) + ":" + std::to_string(have));
    });
  }
  std::vector<prefix_tree::node*> add(const tokens& all) {
    std::vector<prefix_tree::node*> out;
    for (std::size_t i = 0; i + page_size <= all.size(); i += page_size) {
      auto* const parent = out.empty() ? nullptr : out.back();
      out.push_back(tree.insert("", parent, std::span(all).subspan(i, page_size), 0).at);
    }
    return out;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(window_caches)

BOOST_AUTO_TEST_CASE(a_job_has_the_pages_between_its_window_and_what_is_launched) {
  window_bench b({window_of(6, 4), window_of(2, 5)});
  auto job = b.windows.begin(nullptr);
  b.reach(job, 3);
  b.reach(job, 4);
  b.reach(job, 5);
  BOOST_TEST(b.added == (std::vector<std::string>{"1:0", "2:0", "1:1", "2:1"}),
             boost::test_tools::per_element());
  b.windows.trim(job, 5);
  BOOST_TEST(job.groups[0].pages.size() == 2U);
  BOOST_TEST(job.groups[1].pages.size() == 2U);  // position 4 reads position 3
  b.reach(job, 12);
  b.windows.trim(job, 11);
  BOOST_TEST(job.groups[0].first == 0U);  // position 8 reads position 3
  BOOST_TEST(job.groups[1].first == 1U);
  b.windows.trim(job, 12);
  BOOST_TEST(job.groups[0].first == 1U);
  BOOST_TEST(job.groups[0].pages.size() == 2U);
  BOOST_TEST(job.groups[1].first == 2U);
  BOOST_TEST(b.seen[1].size() == 1U);
  BOOST_TEST(b.seen[2].size() == 2U);
  const auto counts = b.windows.counts();
  BOOST_TEST(counts.pages == 9U);
  BOOST_TEST(counts.pages_used == 3U);
  BOOST_TEST(counts.pages_kept == 0U);
  b.windows.release(std::move(job), 12);
  BOOST_TEST(b.windows.counts().pages_used == 0U);
}

BOOST_AUTO_TEST_CASE(where_a_conversation_was_before_goes_before_what_others_left) {
  window_bench b({window_of(3, 12)});
  const auto others = b.add(count_to(107, 100));
  const auto path = b.add(count_to(16));
  const auto run = [&](const boundary* from, std::span<prefix_tree::node* const> nodes, std::uint32_t end) {
    auto job = b.windows.begin(from);
    b.reach(job, end);
    b.windows.keep(job, nodes, nullptr, end, true);
    b.windows.release(std::move(job), end);
  };
  const auto next = [&] {
    return b.windows.boundaries().next_to_go([](const boundary&) { return true; })->at;
  };
  run(nullptr, others, 8);
  run(nullptr, path, 8);
  BOOST_TEST(next() == others[1]);
  run(b.windows.boundaries().find(path[1], 4), path, 16);
  BOOST_TEST(next() == path[1]);
}

BOOST_AUTO_TEST_CASE(what_was_launched_and_lost_is_given_back_and_only_what_was_written_is_cleared) {
  window_bench b({window_of(6, 8)});
  auto job = b.windows.begin(nullptr);
  b.reach(job, 20);
  b.windows.set_back(job, 5, 9);
  BOOST_TEST(job.groups[0].pages.size() == 2U);
  BOOST_TEST(b.seen[1].size() == 1U);
  BOOST_TEST(b.windows.pages_of(1).free() == 6U);
  b.windows.set_back(job, 0, 9);
  BOOST_TEST(job.groups[0].pages.empty());
  BOOST_TEST(b.seen[1].size() == 3U);
  b.reach(job, 1);
  b.windows.release(std::move(job), 0);
  BOOST_TEST(b.seen[1].size() == 3U);
}

BOOST_AUTO_TEST_CASE(a_boundary_keeps_what_its_position_reads_and_the_next_job_gets_it) {
  window_bench b({window_of(6, 8)});
  const auto path = b.add(count_to(16));
  auto job = b.windows.begin(nullptr);
  b.reach(job, 16);
  job.marks = {10, 16, 0};
  b.windows.keep(job, path, nullptr, 12, false);
  BOOST_TEST(b.windows.counts().boundaries == 1U);
  const std::vector<kv_page> pages = job.groups[0].pages;
  b.windows.trim(job, 16);
  BOOST_TEST(job.groups[0].first == 2U);
  BOOST_TEST(b.windows.counts().pages_kept == 1U);  // page 1; page 2 is the job's, too
  BOOST_TEST(b.seen[1] == std::vector<kv_page>{pages[0]}, boost::test_tools::per_element());
  auto all = count_to(16);
  all[11] = 99;
  auto known = b.tree.find("", all);
  const boundary* from = b.windows.cut(known, "", all, 1);
  BOOST_REQUIRE(from != nullptr);
  BOOST_TEST(from->position == 10U);
  BOOST_TEST(known.whole.size() == 2U);
  BOOST_TEST(known.part == path[2]);
  BOOST_TEST(known.positions == 2U);
  auto next = b.windows.begin(from);
  BOOST_TEST(next.groups[0].first == 1U);
  BOOST_TEST(next.groups[0].pages.size() == 2U);
  BOOST_TEST(next.groups[0].pages[0] == pages[1]);
  BOOST_REQUIRE(next.groups[0].copy);
  BOOST_TEST(next.groups[0].copy->from == pages[2]);
  BOOST_TEST(next.groups[0].copy->to == next.groups[0].pages[1]);
  BOOST_TEST(next.groups[0].copy->positions == 2U);
  b.windows.release(std::move(job), 16);
  BOOST_TEST(!b.windows.pages_of(1).is_free(pages[2]));
  b.windows.forget(path[2]);
  BOOST_TEST(b.windows.counts().boundaries == 0U);
  BOOST_TEST(!b.windows.pages_of(1).is_free(pages[1]));
  BOOST_TEST(!b.windows.pages_of(1).is_free(pages[2]));  // until it is copied
  b.reach(next, 11);
  BOOST_TEST(b.windows.pages_of(1).is_free(pages[2]));
  b.windows.release(std::move(next), 11);
  BOOST_TEST(b.windows.pages_of(1).free() == 8U);
}

BOOST_AUTO_TEST_CASE(a_window_is_given_up_as_a_whole_and_only_for_pages_that_it_frees) {
  // Two groups: what is short in one frees the pages of both.
  window_bench b({window_of(6, 6), window_of(2, 20)});
  const auto path = b.add(count_to(24));
  auto job = b.windows.begin(nullptr);
  for (const std::uint32_t end : {8U, 16U, 24U}) {
    b.reach(job, end);
    job.marks = {end, 0, 0};
    b.windows.keep(job, path, nullptr, end, false);
    b.windows.trim(job, end);
  }
  BOOST_TEST(b.windows.counts().boundaries == 3U);
  BOOST_TEST(b.windows.pages_of(1).free() == 0U);
  BOOST_TEST(b.windows.pages_of(2).free() == 17U);
  b.reach(job, 25);
  BOOST_TEST(b.windows.counts().boundaries == 2U);
  BOOST_TEST(b.windows.counts().boundaries_given_up == 1U);
  BOOST_TEST(b.windows.pages_of(1).free() == 1U);
  BOOST_TEST(b.windows.pages_of(2).free() == 17U);
  BOOST_TEST(b.windows.boundaries().find(path[1], 4) == nullptr);
  b.reach(job, 32);
  b.reach(job, 33);
  BOOST_TEST(b.windows.counts().boundaries == 1U);  // the job's own pages are at the other one
  BOOST_TEST(b.windows.boundaries().find(path[5], 4) != nullptr);
  b.windows.release(std::move(job), 33);
}

BOOST_AUTO_TEST_CASE(without_room_for_them_and_without_their_pages_there_are_no_boundaries) {
  window_bench none({window_of(6, 6, 0)});
  auto path = none.add(count_to(8));
  auto job = none.windows.begin(nullptr);
  none.reach(job, 8);
  none.windows.keep(job, path, nullptr, 8, true);
  BOOST_TEST(none.windows.counts().boundaries == 0U);
  none.windows.release(std::move(job), 8);

  window_bench b({window_of(6, 6)});
  path = b.add(count_to(16));
  job = b.windows.begin(nullptr);
  b.reach(job, 16);
  b.windows.trim(job, 16);
  job.marks = {8, 12, 0};
  b.windows.keep(job, path, nullptr, 16, true);  // 8 would need position 3
  BOOST_TEST(b.windows.counts().boundaries == 1U);
  BOOST_TEST(b.windows.boundaries().find(path[3], 4) != nullptr);
  b.windows.keep(job, path, nullptr, 16, true);
  BOOST_TEST(b.windows.counts().boundaries == 1U);
  b.windows.release(std::move(job), 16);
}

BOOST_AUTO_TEST_CASE(closed_pages_are_cleared_before_they_are_used) {
  window_bench b({window_of(6, 6)});
  b.windows.close();
  BOOST_TEST(b.windows.pages_of(1).free() == 0U);
  b.windows.open();
  BOOST_TEST(b.windows.pages_of(1).free() == 6U);
  BOOST_TEST(b.seen[1].size() == 6U);
}

BOOST_AUTO_TEST_SUITE_END()

namespace {

/// A cache with a window, and jobs that compute all their tokens.
struct cache_bench {
  explicit cache_bench(std::uint32_t pages = 32, kv_group group = window_of(6, 16, 12),
                       kv_cache_config config = {.tokens_min = 1}, std::uint64_t page_bytes = 0)
      : cache(with_bytes(geometry_of(pages, {group}), page_bytes), config, [](auto, auto) {}) {}
  static kv_geometry with_bytes(kv_geometry geometry, std::uint64_t bytes) {
    geometry.page_bytes = geometry.groups[0].page_bytes = bytes;
    return geometry;
  }
  kv_cache cache;

  [[nodiscard]] kv_lease start(const tokens& all, std::uint32_t prompt, const cache_request& wish = {}) {
    auto lease = cache.reserve(wish, std::span(all).first(prompt), static_cast<std::uint32_t>(all.size()));
    BOOST_REQUIRE(lease);
    return std::move(*lease);
  }
  void compute(kv_lease& lease, const tokens& all, std::uint32_t from, std::uint32_t to,
               const cache_request& wish = {}) {
    for (std::uint32_t at = from + 1; at <= to; ++at) {
      cache.windows()->reach(lease.windows, at, [](auto, auto) {});
      lease.written = std::max(lease.written, at);
      cache.publish(lease, wish, all, at);
      cache.windows()->trim(lease.windows, at);
    }
  }
  /// What it did not have to compute. All its tokens but `left` are computed.
  std::uint32_t run(const tokens& all, std::uint32_t prompt, const cache_request& wish = {},
                    std::uint32_t left = 1) {
    kv_lease lease = start(all, prompt, wish);
    const std::uint32_t held = lease.held;
    const auto end = static_cast<std::uint32_t>(all.size()) - left;
    compute(lease, all, held, end, wish);
    cache.finish(std::move(lease), wish, all, end);
    return held;
  }
};

tokens with(tokens all, std::size_t first, const tokens& more) {
  all.resize(first);
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(kv_caches_with_windows)

BOOST_AUTO_TEST_CASE(prompts_that_come_again_and_the_next_turn_are_hits) {
  cache_bench b;
  BOOST_TEST(b.run(count_to(20), 13) == 0U);
  BOOST_TEST(b.run(with(count_to(20), 13, {50, 51}), 13) == 12U);      // the same prompt, another answer
  BOOST_TEST(b.run(with(count_to(19), 19, {60, 61, 62}), 22) == 19U);  // the next turn
  BOOST_TEST(b.cache.counts().hit_tokens == 31U);
  BOOST_TEST(b.cache.counts().windows.pages_used == 0U);
}

BOOST_AUTO_TEST_CASE(where_others_left_the_sequence_there_is_a_boundary_for_the_third) {
  cache_bench b;
  (void)b.run(count_to(24), 22);
  // 10 tokens are known, but none of the positions up to there is a boundary.
  BOOST_TEST(b.run(with(count_to(10), 10, {50, 51, 52, 53, 54, 55}), 16) == 0U);
  BOOST_TEST(b.run(with(count_to(10), 10, {60, 61, 62, 63, 64, 65}), 16) == 10U);
}

BOOST_AUTO_TEST_CASE(behind_a_system_prompt_there_is_one) {
  cache_bench b;
  const cache_request wish{.system_tokens = 7};
  (void)b.run(count_to(24), 22, wish);
  BOOST_TEST(b.run(with(count_to(7), 7, {50, 51, 52, 53, 54, 55}), 13, wish) == 7U);
  BOOST_TEST(b.run(with(count_to(6), 6, {50, 51, 52, 53, 54, 55}), 12, wish) == 0U);
}

BOOST_AUTO_TEST_CASE(long_prompts_have_some_on_their_way) {
  cache_bench b(32, window_of(6, 16, 12), {.tokens_min = 1}, 100);  // 2 windowed pages: every 8 pages
  (void)b.run(count_to(70), 69);
  auto known = b.cache.tree().find("", count_to(70));
  BOOST_TEST(known.whole.size() == 17U);
  BOOST_TEST(b.run(with(count_to(40), 40, {100, 101}), 42) == 32U);
}

BOOST_AUTO_TEST_CASE(a_short_prefix_is_none) {
  cache_bench b(32, window_of(6, 16, 12), {.tokens_min = 9});
  (void)b.run(count_to(16), 6, {.system_tokens = 3});
  BOOST_TEST(b.run(with(count_to(8), 8, {50, 51}), 10) == 0U);
  BOOST_TEST(b.run(with(count_to(15), 15, {50, 51}), 17) == 15U);
}

BOOST_AUTO_TEST_CASE(jobs_take_nothing_over_from_one_another_but_a_preempted_one_goes_on_where_it_was) {
  cache_bench b;
  const auto all = count_to(18);
  kv_lease first = b.start(all, 18);
  kv_lease second = b.start(all, 18);
  b.compute(first, all, 0, 11);
  BOOST_TEST(!b.cache.wants_page(second, {}, 18, 0));
  BOOST_TEST(b.cache.catch_up(second, {}, all, 0) == 0U);
  b.cache.preempt(std::move(first), {}, all, 11);
  first = b.start(all, 18);
  BOOST_TEST(first.held == 11U);
  b.cache.finish(std::move(first), {}, all, 11);
  b.cache.finish(std::move(second), {}, all, 0);
  BOOST_TEST(b.cache.counts().windows.pages_used == 0U);
}

BOOST_AUTO_TEST_CASE(boundaries_go_with_their_pages_of_group_0) {
  cache_bench b(6);
  (void)b.run(count_to(18), 10);
  BOOST_TEST(b.cache.counts().windows.boundaries == 2U);
  (void)b.run(count_to(122, 101), 10);  // takes all pages
  BOOST_TEST(b.run(count_to(18), 10) == 0U);
  BOOST_TEST(b.cache.counts().windows.boundaries == 2U);
}

BOOST_AUTO_TEST_CASE(sessions_and_system_prompts_keep_theirs_the_longest) {
  cache_bench b(64, window_of(6, 9, 6), {.tokens_min = 1, .sessions = 1, .system_prompts = 1});
  (void)b.run(count_to(12), 10, {.session = "s"});
  for (token_id other = 2; other < 8; ++other) (void)b.run(count_to(other * 100 + 12, other * 100 + 1), 10);
  BOOST_TEST(b.cache.counts().windows.boundaries_given_up > 3U);
  BOOST_TEST(b.run(with(count_to(11), 11, {50, 51, 52}), 14, {.session = "s"}) == 11U);
}

BOOST_AUTO_TEST_CASE(a_copy_that_there_is_no_room_for_costs_the_hit_and_not_the_job) {
  cache_bench b(3);
  (void)b.run(count_to(11), 11);
  BOOST_TEST(b.cache.counts().pages_cached == 3U);
  // Three pages are needed: two are shared, and the third would be both copied from and evicted.
  BOOST_TEST(b.run(with(count_to(10), 10, {50, 51}), 12) == 0U);
}

BOOST_AUTO_TEST_CASE(of_another_process_nothing_is_adopted) {
  const kv_geometry geometry = geometry_of(8, {window_of(6, 12)});
  std::vector<std::uint64_t> memory(page_ledger::bytes(geometry) / 8 + 16);
  auto* at = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 63) / 64 * 64);
  const auto ledger = [&] { return *page_ledger::of({at, page_ledger::bytes(geometry)}, geometry); };
  const auto all = count_to(10);
  kv_cache dead(
      geometry, {.tokens_min = 1}, [](auto, auto) {}, ledger());
  BOOST_TEST(!dead.has_closed_pages());
  auto lease = dead.reserve({}, all, 10).value();
  dead.windows()->reach(lease.windows, 9, [](auto, auto) {});
  lease.written = 9;
  dead.publish(lease, {}, all, 9);

  std::uint32_t clears = 0;
  kv_cache next(
      geometry, {.tokens_min = 1},
      [&](std::uint32_t group, auto pages) { clears += group == 1 ? pages.size() : 0; }, ledger());
  BOOST_TEST(next.counts().adopted == 0U);
  BOOST_TEST(next.has_closed_pages());
  BOOST_TEST(!next.reserve({}, count_to(3), 3));
  next.open_pages();
  BOOST_TEST(clears == 12U);
  BOOST_TEST(next.reserve({}, all, 10).value().held == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
