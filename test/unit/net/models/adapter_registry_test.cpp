// The owner of the adapters: names, rooms, loading and unloading, one thing at a time.
#include "net/models/adapter_registry.hpp"

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "test/support/wait_until.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::result;

struct silent_narrator final : engine::narrator {
  void narrate(engine::severity, std::string_view event, std::string_view,
               std::initializer_list<engine::narration_field>) noexcept override {
    events += std::string(event) + " ";
  }
  std::string events;
};

struct rig {
  boost::asio::io_context io{1};
  silent_narrator narrator;
  engine::worker_identity identity;
  std::vector<std::string> device;    // by index, what is there
  bool busy = false;                  // a dropped adapter is still used
  std::atomic<bool> endless = false;  // reading takes until it is given up
  bool throws = false;
  std::optional<engine::error> unreadable, unfit;
  std::string param;  // of the last refusal
  std::unique_ptr<adapter_registry> registry;

  explicit rig(adapter_config config = {.rooms = 2, .may_load = true}) : device(config.rooms) {
    identity.model_name = "base";
    adapter_hooks hooks;
    hooks.read = [this](const std::string& path, const std::stop_token& stop) -> result<adapter_values> {
      if (endless)
        orcd::test::wait_until([&] { return !endless || stop.stop_requested(); }, "it is given up");
      if (throws) throw std::length_error("too long");
      if (unreadable) return *unreadable;
      const auto values = std::make_shared<engine::lora_adapter>();
      values->digest = "digest of " + path;
      values->values.resize(3);
      return adapter_values(values);
    };
    hooks.put = [this](std::uint32_t index, const adapter_values& values, const auto& done) {
      if (unfit) return done(*unfit);
      device.at(index) = values->digest;
      done(result<void>());
    };
    hooks.drop = [this](std::uint32_t index, const auto& done) {
      if (!busy) device.at(index).clear();
      done(!busy);
    };
    registry =
        std::make_unique<adapter_registry>(io.get_executor(), config, std::move(hooks), identity, narrator);
  }
  /// "ok", or the code of the refusal, once it is known.
  std::string load(const std::string& name, const std::string& path = "p") {
    std::string out;
    registry->load(name, path, [this, &out](const result<void>& how) { out = told(how); });
    run_until([&out] { return !out.empty(); });
    return out;
  }
  std::string unload(const std::string& name) {
    std::string out;
    registry->unload(name, [this, &out](const result<void>& how) { out = told(how); });
    run_until([&out] { return !out.empty(); });
    return out;
  }
  /// Within a minute, on whatever machine.
  template <class Done>
  void run_until(Done done) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!done()) {
      BOOST_REQUIRE(std::chrono::steady_clock::now() < limit);
      io.restart();
      io.run_for(std::chrono::milliseconds(50));
    }
  }
  std::string told(const result<void>& how) {
    if (!how) param = how.error().param;
    return how ? "ok" : std::string(engine::code_name(how.error().code));
  }
  [[nodiscard]] std::string names() const {
    std::string out;
    for (const auto& one : *registry->list()) out += one.name + std::to_string(one.id);
    return out;
  }
};

BOOST_FIXTURE_TEST_SUITE(adapter_registries, rig)

BOOST_AUTO_TEST_CASE(adapters_come_and_go_and_ids_are_never_given_again) {
  BOOST_TEST(load("a", "x") == "ok");
  BOOST_TEST(load("b", "y") == "ok");
  BOOST_TEST(names() == "a0b1");
  BOOST_TEST(device[0] == "digest of x");
  BOOST_TEST(load("c") == "INVALID_REQUEST");  // no room
  BOOST_TEST(unload("a") == "ok");
  BOOST_TEST(unload("a") == "NOT_FOUND");
  BOOST_TEST(device[0].empty());
  BOOST_TEST(load("c", "z") == "ok");
  BOOST_TEST(names() == "b1c2");
  BOOST_TEST(device[0] == "digest of z");
  BOOST_TEST(registry->list()->back().scale == 0.0F);
  BOOST_TEST(
      narrator.events ==
      "adapter_loaded adapter_loaded adapter_refused adapter_unloaded adapter_refused adapter_loaded ");
}

BOOST_AUTO_TEST_CASE(names_are_checked) {
  BOOST_TEST(load("a") == "ok");
  for (const std::string& name : {std::string("a"), std::string("base"), std::string("x/BASE.gguf"),
                                  std::string(), std::string("a,b"), std::string("a=b"), std::string("\n")}) {
    BOOST_TEST(load(name) == "INVALID_REQUEST", name);
  }
}

BOOST_AUTO_TEST_CASE(one_is_loaded_at_a_time) {
  std::string first;
  registry->load("a", "p", [&](const result<void>& how) { first = told(how); });
  BOOST_TEST(load("b") == "CONFLICT");
  BOOST_TEST(load("a") == "INVALID_REQUEST");
  run_until([&first] { return !first.empty(); });
  BOOST_TEST(first == "ok");
  BOOST_TEST(load("b") == "ok");
}

BOOST_AUTO_TEST_CASE(what_cannot_be_loaded_takes_no_room) {
  unreadable = engine::error(errc::model_load_failed, "bad");
  BOOST_TEST(load("a") == "INVALID_REQUEST");
  unreadable = engine::error(errc::not_found, "none");
  BOOST_TEST(load("a") == "NOT_FOUND");
  unreadable = engine::error(errc::forbidden, "no");
  BOOST_TEST(load("a") == "FORBIDDEN");
  unreadable.reset();
  unfit = engine::error(errc::model_load_failed, "rank");
  BOOST_TEST(load("a") == "INVALID_REQUEST");
  BOOST_TEST(param == "lora_path");
  unfit.reset();
  throws = true;
  BOOST_TEST(load("a") == "INTERNAL");
  throws = false;
  BOOST_TEST(load("a") == "ok");
  BOOST_TEST(load("b") == "ok");
}

BOOST_AUTO_TEST_CASE(what_is_wrong_with_the_device_is_not_said_to_be_the_clients) {
  for (const errc code : {errc::cuda_error, errc::vram_oom, errc::not_ready, errc::internal}) {
    unfit = engine::error(code, "the device");
    BOOST_TEST(load("a") == engine::code_name(code));
    BOOST_TEST(param.empty());
  }
}

BOOST_AUTO_TEST_CASE(what_is_in_use_stays) {
  BOOST_TEST(load("a") == "ok");
  const auto& one = registry->list()->front();
  const std::vector<engine::job_adapter> wanted{{one.index, 1.0F, one.digest}};
  {
    const adapter_use used = registry->use(wanted);
    BOOST_TEST(one.traffic->users == 1U);
    BOOST_TEST(unload("a") == "CONFLICT");
    BOOST_TEST(registry->names_of(wanted) == "a");
  }
  BOOST_TEST(one.traffic->users == 0U);
  BOOST_TEST(one.traffic->requests == 1U);
  BOOST_TEST(unload("a") == "ok");
}

BOOST_AUTO_TEST_CASE(a_room_is_free_when_the_last_job_has_left_it) {
  BOOST_TEST(load("a") == "ok");
  BOOST_TEST(load("b") == "ok");
  busy = true;
  BOOST_TEST(unload("a") == "ok");
  BOOST_TEST(load("c") == "INVALID_REQUEST");
  busy = false;
  run_until([this] { return device[0].empty(); });
  io.restart();
  io.poll();
  BOOST_TEST(load("c") == "ok");
}

BOOST_AUTO_TEST_CASE(scales_that_are_left_out_are_zero) {
  BOOST_TEST(load("a") == "ok");
  BOOST_TEST(load("b") == "ok");
  const std::vector<adapter_scale> one{{1, 0.5F}};
  BOOST_TEST(registry->set_scales(one).has_value());
  BOOST_TEST(registry->list()->at(0).scale == 0.0F);
  BOOST_TEST(registry->list()->at(1).scale == 0.5F);
  const std::vector<adapter_scale> unknown{{9, 0.5F}};
  BOOST_TEST(registry->set_scales(unknown).has_error());
  BOOST_TEST(registry->list()->at(1).scale == 0.5F);
  BOOST_TEST(registry->set_scales({}).has_value());
  BOOST_TEST(registry->list()->at(1).scale == 0.0F);
}

BOOST_AUTO_TEST_CASE(what_others_get_without_asking_is_told_and_stays) {
  BOOST_TEST(load("a") == "ok");
  const std::vector<adapter_scale> some{{0, 0.5F}};
  BOOST_TEST(registry->set_scales(some).has_value());
  BOOST_TEST(narrator.events == "adapter_loaded adapter_scales ");
  BOOST_TEST(unload("a") == "CONFLICT");
  BOOST_TEST(registry->set_scales({}).has_value());
  BOOST_TEST(unload("a") == "ok");
}

/// Else every request that does not say would be refused for a field that it does not have.
BOOST_AUTO_TEST_CASE(no_more_may_be_set_than_a_request_can_have) {
  rig many({.rooms = 9, .may_load = true});
  std::vector<adapter_scale> scales;
  for (std::uint32_t i = 0; i < 9; ++i) {
    BOOST_TEST(many.load("a" + std::to_string(i)) == "ok");
    scales.push_back({i, 1.0F});
  }
  const auto set = many.registry->set_scales(scales);
  BOOST_REQUIRE(set.has_error());
  BOOST_TEST((set.error().code == errc::invalid_request && set.error().param == "body"));
  BOOST_TEST(set.error().message.find("'body' may apply 8 adapters") == 0U, set.error().message);
  scales.back().scale = 0.0F;
  BOOST_TEST(many.registry->set_scales(scales).has_value());
  BOOST_TEST(adapters_of({}, many.registry->list())->size() == 8U);
}

BOOST_AUTO_TEST_CASE(who_may_not_load_may_not) {
  rig closed({.rooms = 1, .may_load = false, .fixed_scales = true});
  BOOST_TEST(closed.load("a") == "FORBIDDEN");
  BOOST_TEST(closed.unload("a") == "FORBIDDEN");
  const auto set = closed.registry->set_scales({});
  BOOST_TEST((set.has_error() && set.error().code == errc::forbidden));
}

BOOST_AUTO_TEST_CASE(it_may_end_while_an_adapter_is_read) {
  endless = true;
  registry->load("a", "p", [](const result<void>&) { BOOST_ERROR("answered"); });
  registry.reset();
  io.poll();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
