// LoRA adapters in the scheduler: who holds which, what is refused, and that no page is shared across them.
// The fake accelerator checks that a sequence begins only on pages that were computed with its own adapters.
#include <array>
#include <limits>
#include <set>

#include "engine/schedule/page_ledger.hpp"
#include "test/unit/schedule/scheduler_bench.hpp"

using namespace orcd::engine;
using namespace orcd::test;

namespace {

struct adapters_bench : scheduler_bench {
  explicit adapters_bench(std::uint32_t slots = 1, std::uint32_t depth = 1, std::uint64_t bad_put = 0) {
    options.put_out_of_memory = bad_put;
    options.pages = {4, 64};
    options.slots = slots;
    options.launch_depth = depth;
    options.adapters = 4;
    cache.tokens_min = 1;
    up();
    for (const std::uint32_t index : {0U, 1U, 2U}) put(index, digest_of(index));
  }
  [[nodiscard]] static std::string digest_of(std::uint32_t number) {
    return "digest " + std::to_string(number);
  }

  void put(std::uint32_t index, const std::string& digest) {
    BOOST_REQUIRE(put_adapter(*loop, index, adapter_named(digest)));
  }
  [[nodiscard]] errc refused_put(std::uint32_t index) {
    const auto done = put_adapter(*loop, index, adapter_named("new"));
    BOOST_REQUIRE(!done);
    return done.error().code;
  }
  [[nodiscard]] job_request with(std::string id, std::vector<job_adapter> adapters,
                                 std::uint32_t max_tokens = 4) const {
    auto job = request(std::move(id), prompt_of(20), max_tokens);
    job.adapters = std::move(adapters);
    return job;
  }
  /// The adapter `number` where it was put first.
  [[nodiscard]] static job_adapter one(std::uint32_t number, float strength = 1.0F) {
    return {number, strength, digest_of(number)};
  }
  /// Runs one job by itself, which must get the tokens of `expected`; returns what it found in the cache.
  std::uint32_t cached(std::vector<job_adapter> adapters, const fake_adapters& expected) {
    const auto sink = submit(with("job" + std::to_string(++jobs_), std::move(adapters)));
    finish();
    expect_end(*sink, finish_reason::length);
    expect_tokens(*sink, device->expected(prompt_of(20), 4, expected));
    return sink->stats().tokens_cached;
  }

 private:
  int jobs_ = 0;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(adapters)

BOOST_AUTO_TEST_CASE(jobs_with_different_adapters_share_steps) {
  for (const std::uint32_t depth : {1U, 3U}) {
    adapters_bench b(4, depth);
    const auto a = b.submit(b.with("a", {b.one(0)}, 9));
    const auto c = b.submit(b.with("c", {b.one(2, 0.5F), b.one(1)}, 9));
    const auto d = b.submit(b.with("d", {}, 9));
    const auto e = b.submit(b.with("e", {b.one(0, 2.0F)}, 9));
    b.steps(8);
    b.loop->interrupt();  // what is repeated has the same adapters
    b.finish();
    expect_tokens(*a, b.device->expected(prompt_of(20), 9, {{b.digest_of(0), 1.0F}}));
    expect_tokens(*c, b.device->expected(prompt_of(20), 9, {{b.digest_of(1), 1.0F}, {b.digest_of(2), 0.5F}}));
    expect_tokens(*d, b.device->expected(prompt_of(20), 9));
    expect_tokens(*e, b.device->expected(prompt_of(20), 9, {{b.digest_of(0), 2.0F}}));
    std::set<std::uint32_t> sizes;
    std::uint64_t last = 0;
    for (const auto& record : b.device->records()) {
      sizes.insert(record.step == last ? 2 : 1);
      last = record.step;
    }
    BOOST_TEST(sizes.count(2) == 1U);
  }
}

BOOST_AUTO_TEST_CASE(a_hit_never_crosses_adapters) {
  adapters_bench b;
  const fake_adapters first{{b.digest_of(0), 1.0F}};
  BOOST_TEST(b.cached({b.one(0)}, first) == 0U);
  BOOST_TEST(b.cached({b.one(0)}, first) == 19U);
  BOOST_TEST(b.cached({}, {}) == 0U);
  BOOST_TEST(b.cached({}, {}) == 19U);
  BOOST_TEST(b.cached({b.one(0, 0.0F)}, {}) == 19U);
  BOOST_TEST(b.cached({b.one(0, 1.5F)}, {{b.digest_of(0), 1.5F}}) == 0U);
  BOOST_TEST(b.cached({b.one(1)}, {{b.digest_of(1), 1.0F}}) == 0U);
  const fake_adapters both{{b.digest_of(0), 1.0F}, {b.digest_of(1), 1.0F}};
  BOOST_TEST(b.cached({b.one(1), b.one(0), b.one(2, 0.0F)}, both) == 0U);
  BOOST_TEST(b.cached({b.one(0), b.one(1)}, both) == 19U);
  b.put(0, b.digest_of(3));
  BOOST_TEST(b.cached({{0, 1.0F, b.digest_of(3)}}, {{b.digest_of(3), 1.0F}}) == 0U);
  b.put(3, b.digest_of(0));
  BOOST_TEST(b.cached({{3, 1.0F, b.digest_of(0)}}, first) == 19U);
}

BOOST_AUTO_TEST_CASE(a_dropped_adapter_stays_with_its_jobs_and_takes_no_new_ones) {
  adapters_bench b(1, 2);
  const auto running = b.submit(b.with("a", {b.one(0)}, 12));
  const auto waiting = b.submit(b.with("b", {b.one(0)}));
  b.steps(4);
  BOOST_TEST(running->started());
  BOOST_TEST(b.loop->adapters().entries()[0].users == 2U);
  BOOST_TEST((b.refused_put(0) == errc::not_ready));
  BOOST_TEST(!b.loop->drop_adapter(0));
  const auto late = b.submit(b.with("c", {b.one(0)}));
  expect_error(*late, errc::not_found);
  BOOST_TEST(late->error()->failure.param == "lora");
  auto named = b.one(0);
  named.field = "model";  // which clients of /v1 know as model_not_found
  const auto by_name = b.submit(b.with("d", {named}));
  expect_error(*by_name, errc::not_found);
  BOOST_TEST(by_name->error()->failure.param == "model");
  BOOST_TEST((b.refused_put(0) == errc::not_ready));
  BOOST_TEST(b.device->put_adapters()[0] == b.digest_of(0));
  b.put(3, b.digest_of(3));  // beside the running stream
  b.finish();
  const fake_adapters first{{b.digest_of(0), 1.0F}};
  expect_tokens(*running, b.device->expected(prompt_of(20), 12, first));
  expect_tokens(*waiting, b.device->expected(prompt_of(20), 4, first));
  BOOST_TEST(b.loop->drop_adapter(0));
  BOOST_TEST(b.device->put_adapters()[0].empty());
  b.put(0, b.digest_of(3));
  BOOST_TEST(b.cached({{0, 1.0F, b.digest_of(3)}}, {{b.digest_of(3), 1.0F}}) == 0U);
}

BOOST_AUTO_TEST_CASE(a_put_without_memory_ends_nobody) {
  adapters_bench b(1, 2, 4);
  const auto running = b.submit(b.with("a", {b.one(0)}, 12));
  b.steps(4);
  BOOST_TEST(running->started());
  BOOST_TEST((b.refused_put(3) == errc::vram_oom));
  BOOST_TEST(b.degraded.empty());
  BOOST_TEST(b.device->put_adapters()[3].empty());
  b.finish();
  expect_end(*running, finish_reason::length);
  expect_tokens(*running, b.device->expected(prompt_of(20), 12, {{b.digest_of(0), 1.0F}}));
  b.put(3, b.digest_of(3));
  BOOST_TEST(b.cached({{3, 1.0F, b.digest_of(3)}}, {{b.digest_of(3), 1.0F}}) == 0U);
}

BOOST_AUTO_TEST_CASE(an_adapter_is_there_when_all_of_it_is) {
  adapters_bench b;
  b.options.adapter_parts = 3;
  b.up();
  b.put(0, b.digest_of(0));
  const lora_adapter next = adapter_named("next");
  BOOST_REQUIRE(b.loop->begin_adapter(0, next));
  const auto refused = [&](const std::string& digest) {
    expect_error(*b.submit(b.with("a", {{0, 1.0F, digest}})), errc::not_found);
  };
  refused(b.digest_of(0));
  for (int part = 0; part < 2; ++part) {
    BOOST_TEST(!b.loop->continue_adapter().has_value());
    refused("next");
  }
  const auto done = b.loop->continue_adapter();
  BOOST_REQUIRE((done && done->has_value()));
  BOOST_TEST(b.cached({{0, 1.0F, "next"}}, {{"next", 1.0F}}) == 0U);
  // Dropped on its way, it never is.
  BOOST_REQUIRE(b.loop->begin_adapter(1, next));
  BOOST_TEST(!b.loop->drop_adapter(1));
  std::optional<result<void>> end;
  for (int turns = 0; turns < 1'000 && !end; ++turns) end = b.loop->continue_adapter();
  BOOST_REQUIRE(end.has_value());
  BOOST_TEST(!end->has_value());
  BOOST_TEST(b.device->put_adapters()[1].empty());
  BOOST_TEST(b.loop->drop_adapter(1));
}

BOOST_AUTO_TEST_CASE(every_end_of_a_job_lets_go_of_its_adapters) {
  adapters_bench b;
  auto overdue = b.with("a", {b.one(0)}, 50);
  overdue.deadline = b.time + std::chrono::seconds(1);
  (void)b.submit(overdue);
  (void)b.submit(b.with("b", {b.one(0)}));
  auto impossible = b.with("c", {b.one(0)}, 1000);  // more than the pages
  (void)b.submit(impossible);
  BOOST_TEST(b.loop->adapters().entries()[0].users == 3U);
  b.steps(2);
  b.loop->cancel("b", cancel_reason::client_cancel);
  BOOST_TEST(b.loop->adapters().entries()[0].users == 2U);
  b.time += std::chrono::seconds(2);
  b.finish();
  BOOST_TEST(b.loop->adapters().entries()[0].users == 0U);
  BOOST_TEST(b.loop->drop_adapter(0));
}

BOOST_AUTO_TEST_CASE(what_a_job_cannot_have_is_refused) {
  adapters_bench b;
  const auto code = [&](std::vector<job_adapter> adapters) {
    const auto sink = b.submit(b.with("a", std::move(adapters)));
    BOOST_REQUIRE(sink->error());
    return code_name(sink->error()->failure.code);
  };
  BOOST_TEST(code({{3, 1.0F, "digest 3"}}) == code_name(errc::not_found));
  BOOST_TEST(code({{900, 1.0F, "digest 3"}}) == code_name(errc::not_found));
  BOOST_TEST(code({{1, 1.0F, "digest 0"}}) == code_name(errc::not_found));
  BOOST_TEST(code({{3, 1.0F, ""}}) == code_name(errc::not_found));
  BOOST_TEST(code({b.one(1), b.one(1, 2.0F)}) == code_name(errc::invalid_request));
  BOOST_TEST(code({b.one(1, std::numeric_limits<float>::quiet_NaN())}) == code_name(errc::invalid_request));
  BOOST_TEST(code(std::vector<job_adapter>(9, b.one(1))) == code_name(errc::invalid_request));
  auto pooled = b.request("p", {}, 1);
  pooled.inputs.push_back({{1, 2, 3}});
  pooled.adapters = {b.one(0)};
  expect_error(*b.submit(pooled), errc::invalid_request);
  BOOST_TEST(b.loop->idle());
  BOOST_TEST(b.cached({b.one(1)}, {{b.digest_of(1), 1.0F}}) == 0U);
}

BOOST_AUTO_TEST_CASE(a_device_without_pages_takes_none) {
  scheduler_bench b;
  b.options.adapters = 1;
  b.up();
  BOOST_TEST(!put_adapter(*b.loop, 0, adapter_named("d")).has_value());
}

BOOST_AUTO_TEST_CASE(different_salts_and_adapters_never_give_one_salt) {
  const job_adapter a{0, 1.0F, "aa"}, half{0, 0.5F, "aa"}, b{1, 1.0F, "aab"}, off{2, 0.0F, "cc"};
  const std::vector<std::vector<job_adapter>> lists{{}, {a}, {half}, {b}, {a, b}};
  std::vector<std::string> salts{"", "tenant", "aa", std::string(1, '\x01'), std::string("\x01\0\0\0\0", 5)};
  // What other jobs have as a whole, named as a salt.
  for (std::size_t i = 1; i < lists.size(); ++i) salts.push_back(salt_with_adapters("tenant", lists[i]));
  std::set<std::string> seen;
  for (const auto& salt : salts) {
    for (const auto& list : lists) seen.insert(salt_with_adapters(salt, list));
  }
  BOOST_TEST(seen.size() == salts.size() * lists.size());
  BOOST_TEST(salt_with_adapters("tenant", {}) == "tenant");
  BOOST_TEST(salt_with_adapters("", std::vector{off}).empty());
  BOOST_TEST(salt_with_adapters("t", std::vector{b, off, a}) == salt_with_adapters("t", std::vector{a, b}));
}

/// Else pages of jobs with adapters would be computed again after every takeover.
BOOST_AUTO_TEST_CASE(the_longest_salt_is_noted) {
  const std::string tenant_and_salt(7 + 64 + 1 + 256, 's');  // of a key's tenant and of cache_salt
  std::vector<job_adapter> most;
  for (std::uint32_t i = 0; i < active_adapters_max; ++i) {
    most.push_back({i, 1.0F, std::string(64, static_cast<char>('a' + i))});
  }
  const std::string salt = salt_with_adapters(tenant_and_salt, most);
  BOOST_TEST(salt.size() <= page_ledger::salt_bytes_max);
  alignas(64) std::array<std::byte, 65'536> memory{};
  auto ledger = page_ledger::of(memory, {4, 2}).value();
  ledger.take(std::vector<kv_page>{1});
  ledger.note(1, std::nullopt, salt, std::vector<token_id>{1, 2, 3, 4});
  BOOST_TEST((ledger.use_of(1) == page_ledger::use::full));
}

BOOST_AUTO_TEST_SUITE_END()
