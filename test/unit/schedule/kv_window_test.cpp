// Which pages windows need, against the definition, position by position.
#include "engine/base/kv_window.hpp"

#include <boost/test/unit_test.hpp>
#include <random>
#include <set>
#include <vector>

using namespace orcd::engine;

namespace {

/// Pages of the positions [begin, end).
page_span touched(std::int64_t begin, std::int64_t end, std::uint32_t size) {
  std::set<std::uint32_t> pages;
  for (std::int64_t at = std::max<std::int64_t>(0, begin); at < end; ++at)
    pages.insert(static_cast<std::uint32_t>(at) / size);
  if (pages.empty()) return {};
  return {*pages.begin(), *pages.rbegin() + 1};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(kv_windows)

BOOST_AUTO_TEST_CASE(a_position_needs_the_pages_of_what_it_reads) {
  for (std::uint32_t size = 1; size <= 9; ++size) {
    for (std::uint32_t window = 2; window <= 30; ++window) {
      for (std::uint32_t position = 1; position <= 90; ++position) {
        const page_span span = pages_before(position, window, size);
        const page_span wanted = touched(std::int64_t{position} - window + 1, position, size);
        BOOST_TEST_REQUIRE((span == wanted),
                           "position " << position << ", window " << window << ", pages of " << size);
        BOOST_TEST_REQUIRE(span.count() <= pages_before_max(window, size));
      }
      BOOST_TEST_REQUIRE(pages_before(0, window, size).count() == 0U);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_kept_is_what_the_beginning_of_the_page_reads) {
  for (std::uint32_t size = 1; size <= 9; ++size) {
    for (std::uint32_t window = 2; window <= 30; ++window) {
      for (std::uint32_t computed = 0; computed <= 90; ++computed) {
        const std::uint32_t kept = first_page_kept(computed, window, size);
        // A page is given back when it lies wholly below size * floor(computed / size) - window + 1.
        const std::int64_t below = std::int64_t{computed / size} * size - window + 1;
        for (std::uint32_t page = 0; page <= computed / size; ++page)
          BOOST_TEST_REQUIRE((page < kept) == ((page + std::int64_t{1}) * size <= below));
        // So the same can be computed again from any later position of the page.
        for (std::uint32_t from = computed / size * size; from <= computed; ++from)
          if (from > 0) BOOST_TEST_REQUIRE(pages_before(from, window, size).first >= kept);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_windows_of_known_models_have_few_pages) {
  const auto most = [](std::uint32_t window, std::uint32_t ahead) {
    std::uint32_t out = 0;
    for (std::uint32_t computed = 0; computed < 8'192; ++computed)
      out = std::max(out, pages_over(computed + ahead, 256) - first_page_kept(computed, window, 256));
    return out;
  };
  const std::vector<std::array<std::uint32_t, 3>> known{{128, 2, 3}, {512, 3, 4}, {1'024, 5, 6}};
  for (const auto& [window, alone, with_drafts] : known) {
    BOOST_TEST(most(window, 1) == alone);
    BOOST_TEST(most(window, 16) == with_drafts);
    BOOST_TEST(pages_before_max(window, 256) == alone);
    BOOST_TEST(windowed_pages_max(1, window, 256, {1, 1, 15}) == with_drafts);
  }
  BOOST_TEST(windowed_pages_max(256, 128, 256, {2, 512, 0}) == 256U * 3 + 4);
}

BOOST_AUTO_TEST_CASE(no_schedule_needs_more_pages_than_are_planned) {
  std::mt19937_64 random(7);
  const auto below = [&](std::uint64_t bound) { return static_cast<std::uint32_t>(random() % bound); };
  std::uint32_t tight = 0;
  for (int run = 0; run < 200'000; ++run) {
    const std::uint32_t size = 1 + below(12);
    const std::uint32_t window = 2 + below(30);
    const std::uint32_t slots = 1 + below(5);
    const steps_ahead ahead{1 + below(3), 1 + below(30), below(16)};
    std::uint32_t prompts = ahead.depth * ahead.chunk_tokens;
    std::uint64_t pages = 0;
    for (std::uint32_t slot = 0; slot < slots; ++slot) {
      const std::uint32_t prefilled = slot + 1 == slots ? prompts : below(prompts + 1);
      prompts -= prefilled;
      const std::uint32_t computed = 100 + below(3 * size);
      const std::uint32_t end = computed + prefilled + std::max(ahead.depth, ahead.drafts + 1);
      pages += pages_over(end, size) - first_page_kept(computed, window, size);
    }
    const std::uint64_t most = windowed_pages_max(slots, window, size, ahead);
    BOOST_TEST_REQUIRE(pages <= most, "size " << size << ", window " << window << ", slots " << slots);
    tight += pages == most ? 1 : 0;
  }
  BOOST_TEST(tight > 1'000U);
}

BOOST_AUTO_TEST_CASE(periodic_boundaries_are_as_far_apart_as_they_are_large) {
  BOOST_TEST(boundary_spacing(6'291'456, 6'291'456, 256) == 1'024U);         // gpt-oss-20b
  BOOST_TEST(boundary_spacing(4 * 83'886'080, 16'777'216, 256) == 20'480U);  // Gemma-3-12B
  BOOST_TEST(boundary_spacing(1, 6'291'456, 256) == 256U);
  BOOST_TEST(boundary_spacing(1, 0, 256) == 0U);
  BOOST_TEST(boundary_spacing(~0ULL / 8, 1, 256) % 256 == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
