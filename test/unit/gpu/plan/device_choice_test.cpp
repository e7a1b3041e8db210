// Which GPU is taken, and how waiting for one ends. No GPU, no clock: time is a number here.
#include "gpu/plan/device_choice.hpp"

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

namespace orcd::test {
namespace {

using gpu::gpu_choice;
using gpu::gpu_info;
using std::chrono::milliseconds;

const std::vector<gpu_info> two_gpus{
    {.index = 0,
     .name = "NVIDIA H200",
     .uuid = "GPU-12345678-0000-1111-2222-333333333333",
     .capability_major = 9,
     .capability_minor = 0,
     .sm_count = 132,
     .memory_bytes = 1},
    {.index = 1,
     .name = "NVIDIA H100",
     .uuid = "GPU-12349999-0000-1111-2222-333333333333",
     .capability_major = 9,
     .capability_minor = 0,
     .sm_count = 132,
     .memory_bytes = 1},
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A clock that only sleep() moves.
struct fake_time {
  std::chrono::steady_clock::time_point now{};
  std::vector<milliseconds> pauses;
  bool told_to_end = false;
  gpu::wait_clock clock() {
    return {.now = [this] { return now; },
            .sleep =
                [this](milliseconds pause) {
                  pauses.push_back(pause);
                  now += pause;
                  return !told_to_end;
                }};
  }
};

using gpu_list = engine::result<std::vector<gpu_info>>;
const gpu::wait_policy half_a_minute{.total = milliseconds{30'000}};
const engine::error no_driver(engine::errc::worker_start_failed, "no driver");

}  // namespace

BOOST_AUTO_TEST_SUITE(device_choice)

BOOST_AUTO_TEST_CASE(an_index_or_a_uuid_or_its_unique_prefix_chooses) {
  BOOST_TEST(gpu::choose_gpu(two_gpus, {.index = 1, .uuid = {}}).value().index == 1);
  BOOST_TEST(gpu::choose_gpu(two_gpus, {.index = 7, .uuid = two_gpus[1].uuid}).value().index == 1);
  BOOST_TEST(gpu::choose_gpu(two_gpus, {.index = 0, .uuid = "gpu-12349"}).value().index == 1);
  BOOST_TEST(gpu::choose_gpu(two_gpus, {.index = 0, .uuid = "GPU-12345678"}).value().index == 0);
  BOOST_TEST(gpu::choose_gpu(two_gpus, {.index = 0, .uuid = "MIG-12345678"}).value().index == 0);
}

BOOST_AUTO_TEST_CASE(a_wrong_choice_lists_what_is_there) {
  for (const gpu_choice& choice :
       {gpu_choice{.index = 2, .uuid = {}}, gpu_choice{.index = 0, .uuid = "GPU-9"},
        gpu_choice{.index = 0, .uuid = "GPU-1234"}, gpu_choice{.index = 0, .uuid = "GPU-"}}) {
    const auto chosen = gpu::choose_gpu(two_gpus, choice);
    BOOST_REQUIRE(!chosen);
    BOOST_TEST((chosen.error().code == engine::errc::worker_start_failed));
    BOOST_TEST(contains(chosen.error().message, "NVIDIA H200"));
    BOOST_TEST(contains(chosen.error().message, two_gpus[1].uuid));
  }
  BOOST_TEST(contains(gpu::choose_gpu(two_gpus, {.index = 2, .uuid = {}}).error().message, "no GPU 2"));
  BOOST_TEST(
      contains(gpu::choose_gpu(two_gpus, {.index = 0, .uuid = "GPU-1234"}).error().message, "fits 2 GPUs"));
}

// Newer ones as well: code for sm_90a would fail there at the first kernel.
BOOST_AUTO_TEST_CASE(a_gpu_of_another_compute_capability_is_refused) {
  const std::pair<int, int> others[] = {{8, 6}, {8, 9}, {9, 1}, {10, 0}, {12, 0}};
  for (const auto& [major, minor] : others) {
    auto gpus = two_gpus;
    gpus[0].capability_major = major;
    gpus[0].capability_minor = minor;
    const auto chosen = gpu::choose_gpu(gpus, {});
    BOOST_REQUIRE(!chosen);
    BOOST_TEST(contains(chosen.error().message, std::to_string(major) + "." + std::to_string(minor)));
    BOOST_TEST(contains(chosen.error().message, "run on 9.0 alone"));
    BOOST_TEST(contains(chosen.error().message, two_gpus[0].name));
    BOOST_TEST(contains(chosen.error().message, two_gpus[1].uuid), "the others are listed");
    BOOST_TEST(chosen.error().param == "gpu-device");
  }
}

BOOST_AUTO_TEST_CASE(a_gpu_that_is_there_costs_no_waiting) {
  fake_time time;
  const auto found = gpu::wait_for_gpus([](bool) -> gpu_list { return two_gpus; }, {}, time.clock());
  BOOST_TEST(found.value().size() == 2U);
  BOOST_TEST(time.pauses.empty());
}

BOOST_AUTO_TEST_CASE(without_a_time_to_wait_there_is_one_try_and_it_asks_in_earnest) {
  fake_time time;
  std::vector<bool> tries;
  auto clock = time.clock();
  clock.notice = [](const gpu::wait_notice&) { BOOST_ERROR("nothing is waited for"); };
  const auto found = gpu::wait_for_gpus(
      [&](bool last) -> gpu_list {
        tries.push_back(last);
        return no_driver;
      },
      {}, clock);
  BOOST_REQUIRE(!found);
  BOOST_TEST(contains(found.error().message, "1 try: no driver"));
  BOOST_TEST((tries == std::vector<bool>{true}));
  BOOST_TEST(time.pauses.empty());
}

BOOST_AUTO_TEST_CASE(a_gpu_that_appears_late_is_found) {
  fake_time time;
  int tries = 0;
  const auto find = [&](bool) -> gpu_list {
    if (++tries < 4) return no_driver;
    return two_gpus;
  };
  BOOST_TEST(gpu::wait_for_gpus(find, half_a_minute, time.clock()).value().size() == 2U);
  BOOST_TEST((time.pauses == std::vector{milliseconds{250}, milliseconds{500}, milliseconds{1000}}));
}

BOOST_AUTO_TEST_CASE(waiting_ends_at_the_limit_with_what_was_found) {
  fake_time time;
  unsigned last_tries = 0;
  unsigned tries = 0;
  const auto find = [&](bool last) -> gpu_list {
    ++tries;
    if (last) ++last_tries;
    return no_driver;
  };
  const auto found = gpu::wait_for_gpus(find, half_a_minute, time.clock());
  BOOST_REQUIRE(!found);
  BOOST_TEST(contains(found.error().message, "no driver"));
  BOOST_TEST(contains(found.error().message, "30000 ms"));
  BOOST_TEST((time.now.time_since_epoch() == milliseconds{30'000}));
  BOOST_TEST(last_tries == 1U);
  BOOST_TEST(tries < 20U);
  for (const milliseconds pause : time.pauses) BOOST_TEST((pause <= milliseconds{4'000}));
}

BOOST_AUTO_TEST_CASE(waiting_is_told_at_its_start_and_every_few_seconds) {
  fake_time time;
  std::vector<gpu::wait_notice> notices;
  auto clock = time.clock();
  clock.notice = [&](const gpu::wait_notice& notice) { notices.push_back(notice); };
  BOOST_REQUIRE(!gpu::wait_for_gpus([](bool) -> gpu_list { return no_driver; }, half_a_minute, clock));
  BOOST_REQUIRE(notices.size() > 3U);
  BOOST_TEST((notices.front().waited == milliseconds{0} && notices.front().tries == 1));
  BOOST_TEST((notices.front().limit == milliseconds{30'000}));
  BOOST_TEST(contains(notices.front().found, "no driver"));
  for (std::size_t i = 1; i < notices.size(); ++i) {
    const auto gap = notices[i].waited - notices[i - 1].waited;
    BOOST_TEST((gap >= milliseconds{4'000} && gap <= milliseconds{8'000}));
  }
  BOOST_TEST((notices.back().waited < milliseconds{30'000}));
  notices.clear();
  BOOST_REQUIRE(gpu::wait_for_gpus([](bool) -> gpu_list { return two_gpus; }, half_a_minute, clock));
  BOOST_TEST(notices.empty());
}

BOOST_AUTO_TEST_CASE(an_empty_list_is_no_gpu_and_an_end_signal_ends_the_waiting) {
  fake_time time;
  time.told_to_end = true;
  const auto found = gpu::wait_for_gpus([](bool) -> gpu_list { return std::vector<gpu_info>{}; },
                                        half_a_minute, time.clock());
  BOOST_REQUIRE(!found);
  BOOST_TEST(contains(found.error().message, "CUDA lists no device"));
  BOOST_TEST(time.pauses.size() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
