// Adapters on their way to the accelerator and away from it.
#include "engine/schedule/parts/adapters_in_use.hpp"

#include "test/unit/schedule/scheduler_bench.hpp"

using namespace orcd::engine;
using namespace orcd::test;

namespace {

struct put_bench {
  explicit put_bench(std::uint64_t out_of_memory = 0) : device(options(out_of_memory)), adapters(device) {}
  [[nodiscard]] static fake_options options(std::uint64_t out_of_memory) {
    fake_options out;
    out.pages = {4, 8};
    out.adapters = 2;
    out.adapter_parts = 2;
    out.put_out_of_memory = out_of_memory;
    return out;
  }
  [[nodiscard]] job_request request() const {
    job_request out;
    out.prompt = prompt_of(3);
    out.adapters = {{.index = 0, .digest = "one"}};
    return out;
  }
  void put() {
    BOOST_REQUIRE(adapters.begin(0, one));
    BOOST_REQUIRE(!adapters.go_on());
    BOOST_REQUIRE(adapters.go_on()->has_value());
  }
  lora_adapter one = adapter_named("one");
  fake_accelerator device;
  adapters_in_use adapters;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(schedule_adapters_in_use)

BOOST_AUTO_TEST_CASE(a_job_gets_one_when_all_of_it_is_there) {
  put_bench b;
  auto request = b.request();
  BOOST_REQUIRE(b.adapters.begin(0, b.one));
  BOOST_TEST(!b.adapters.take(request));
  BOOST_TEST(!b.adapters.go_on().has_value());
  BOOST_TEST(!b.adapters.take(request));
  const auto done = b.adapters.go_on();
  BOOST_REQUIRE(done.has_value());
  BOOST_TEST(done->has_value());
  const std::string salt = request.cache.salt;
  const auto held = b.adapters.take(request);
  BOOST_REQUIRE(held);
  BOOST_TEST((*held)->size() == 1U);
  BOOST_TEST(request.cache.salt != salt);
}

BOOST_AUTO_TEST_CASE(one_that_is_dropped_stays_until_its_last_job_ends) {
  put_bench b;
  b.put();
  auto request = b.request();
  auto held = b.adapters.take(request);
  BOOST_REQUIRE(held);
  BOOST_TEST(!b.adapters.drop(0));
  BOOST_TEST(!b.adapters.take(request));
  const auto over = b.adapters.begin(0, b.one);
  BOOST_REQUIRE(!over);
  BOOST_TEST((over.error().code == errc::not_ready));
  BOOST_TEST(b.device.put_adapters()[0] == "one");
  *held = nullptr;
  b.adapters.forget_unused();
  BOOST_TEST(b.device.put_adapters()[0] == "");
}

BOOST_AUTO_TEST_CASE(one_that_is_dropped_on_its_way_never_is_there) {
  put_bench b;
  BOOST_REQUIRE(b.adapters.begin(0, b.one));
  BOOST_TEST(!b.adapters.drop(0));
  BOOST_TEST(!b.adapters.go_on().has_value());
  const auto done = b.adapters.go_on();
  BOOST_REQUIRE(done.has_value());
  BOOST_REQUIRE(!*done);
  BOOST_TEST((done->error().code == errc::not_found));
  BOOST_TEST(b.device.put_adapters()[0] == "");
  auto request = b.request();
  BOOST_TEST(!b.adapters.take(request));
}

BOOST_AUTO_TEST_CASE(after_a_failure_nobody_gets_what_is_there) {
  put_bench b(2);
  b.put();
  BOOST_CHECK_THROW(static_cast<void>(b.adapters.begin(0, b.one)), accelerator_failure);
  auto request = b.request();
  BOOST_TEST(!b.adapters.take(request));
  b.put();
  BOOST_TEST(b.adapters.take(request).has_value());
}

BOOST_AUTO_TEST_CASE(pooled_jobs_take_none) {
  put_bench b;
  b.put();
  auto request = b.request();
  request.inputs = {{prompt_of(2)}};
  const auto held = b.adapters.take(request);
  BOOST_REQUIRE(!held);
  BOOST_TEST((held.error().code == errc::invalid_request));
}

BOOST_AUTO_TEST_SUITE_END()
