// Engines that share weights by a holder which dies, comes again, refuses, or has weights of another model.
#include "app/weights/weights_share.hpp"

#include <boost/test/unit_test.hpp>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/hexadecimal.hpp"
#include "test/support/pause.hpp"
#include "test/support/wait_until.hpp"
#include "test/unit/holder/held_weights.hpp"

using namespace orcd;
using app::weights_record;
using app::weights_share;
using net::weights_link;
using net::weights_mode;
using orcd::test::wait_until;
using std::chrono::milliseconds;
using test::hash_of;
using test::held_weights;
using test::patience;

namespace {

/// An engine of a model, whose weights begin with its name.
class sharing_engine {
 public:
  sharing_engine(const held_weights& where, std::uint32_t id, std::uint8_t model, bool must_share = true)
      : model_(model),
        share_({where.path(), id, must_share, {}},
               {[this] { return others_live.load(); }, [this](const std::string& what) { add(waits_, what); },
                [this] { ++shared; }, [this](const std::string& why) { add(troubles_, why); }}) {}

  /// Claims, loads what it is to load, and gives that away. On any thread, so that it checks nothing itself.
  engine::result<weights_share::claimed> start() {
    auto from = share_.claim({"options", "", "files " + std::to_string(model_), ""},
                             [this] { return std::optional("digest " + std::to_string(model_)); });
    if (!from) return from;
    const auto hash = engine::hexadecimal(hash_of(model_));
    const engine::shared_weights own{memory_.get(), 4'096, hash, hash};
    if (const auto kept = share_.loaded(from->weights.imported ? nullptr : &own, nullptr, ""); !kept)
      return kept.error();
    if (share_.wait_for_role({}).find) share_.give("digest " + std::to_string(model_));
    return from;
  }
  [[nodiscard]] weights_share& share() { return share_; }
  [[nodiscard]] std::vector<std::string> waits() const { return copy(waits_); }
  [[nodiscard]] std::vector<std::string> troubles() const { return copy(troubles_); }

  std::atomic<bool> others_live{false};
  std::atomic<int> shared{0};

 private:
  void add(std::vector<std::string>& to, const std::string& text) {
    const std::lock_guard held(mutex_);
    to.push_back(text);
  }
  std::vector<std::string> copy(const std::vector<std::string>& from) const {
    const std::lock_guard held(mutex_);
    return from;
  }

  const std::uint8_t model_;
  const net::file_descriptor memory_ = test::memory_with("weights");
  mutable std::mutex mutex_;
  std::vector<std::string> waits_;
  std::vector<std::string> troubles_;
  weights_share share_;
};

net::weights_state_frame state_of(const held_weights& where) {
  const auto found = weights_link(where.path(), 9).state();
  BOOST_TEST_REQUIRE(found.has_value());
  return *found;
}

bool contains(const std::vector<std::string>& texts, const std::string& part) {
  return texts.size() == 1 && texts.front().find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(weights_shares)

BOOST_AUTO_TEST_CASE(an_engine_that_starts_with_the_holder_waits_for_what_another_one_has_mapped) {
  held_weights device;
  std::optional<sharing_engine> first;
  first.emplace(device, 0, 1);
  BOOST_TEST_REQUIRE(first->start().has_value());
  sharing_engine second(device, 1, 1);
  BOOST_TEST_REQUIRE(second.start()->weights.imported.has_value());
  device.stop();
  first.emplace(device, 0, 1);
  first->others_live = true;
  device.start();
  const auto again = first->start();
  BOOST_TEST_REQUIRE(again.has_value());
  BOOST_TEST(again->weights.imported.has_value());
  BOOST_TEST(!again->weights.share);
  wait_until([&] { return second.shared == 1; }, "the holder takes them from the second engine");
}

BOOST_AUTO_TEST_CASE(a_holder_that_gives_them_to_somebody_else_is_waited_for_without_a_word) {
  held_weights device;
  sharing_engine first(device, 0, 1);
  BOOST_TEST_REQUIRE(first.start().has_value());
  weights_link other(device.path(), 2);
  wait_until(
      [&] {  // the engine may be there first
        device.stop();
        device.start();
        return other.request(weights_mode::write, milliseconds(0)).has_value();
      },
      "the holder gives the weights to another");
  wait_until([&] { return state_of(device).waiting == 1; }, "the engine offers its weights");
  const auto before = device.lines();
  orcd::test::pause(milliseconds(350), "the engine would have been refused twice, after 100 and 200 ms");
  BOOST_TEST(device.lines() == before);
  other.release();
  wait_until([&] { return state_of(device).committed; }, "the engine's weights are taken");
}

BOOST_AUTO_TEST_CASE(weights_of_another_model_that_nobody_uses_are_replaced) {
  const held_weights device;
  {
    sharing_engine first(device, 0, 1);
    BOOST_TEST_REQUIRE(first.start().has_value());
  }
  wait_until([&] { return state_of(device).readers == 0; }, "nobody uses them");
  BOOST_TEST(state_of(device).committed);
  // Who only reads cannot use them, and ends.
  BOOST_TEST((sharing_engine(device, 1, 2).start().error().code == engine::errc::stale_weights));
  sharing_engine newer(device, 0, 2);
  const auto from = newer.start();
  BOOST_TEST_REQUIRE(from.has_value());
  BOOST_TEST((from->weights.share && !from->weights.imported));
  BOOST_TEST((state_of(device).layout == hash_of(2)));
  BOOST_TEST(sharing_engine(device, 1, 2).start()->weights.imported.has_value());
}

BOOST_AUTO_TEST_CASE(weights_of_another_model_that_are_in_use_are_waited_for) {
  const held_weights device;
  std::optional<sharing_engine> first;
  first.emplace(device, 0, 1);
  BOOST_TEST_REQUIRE(first->start().has_value());
  sharing_engine newer(device, 0, 2);
  std::optional<engine::result<weights_share::claimed>> from;
  std::thread starts([&] { from = newer.start(); });
  wait_until([&] { return state_of(device).waiting == 1; }, "the newer engine waits");
  BOOST_TEST(contains(newer.waits(), "1 other engine uses weights that are of another model"));
  first.reset();
  starts.join();
  BOOST_TEST_REQUIRE(from->has_value());
  BOOST_TEST((*from)->weights.share);
  BOOST_TEST((state_of(device).layout == hash_of(2)));
}

BOOST_AUTO_TEST_CASE(weights_beside_those_in_use_are_passed_on_when_nobody_uses_these) {
  const held_weights device;
  std::optional<sharing_engine> first;
  first.emplace(device, 0, 1);
  BOOST_TEST_REQUIRE(first->start().has_value());
  sharing_engine newer(device, 0, 2, false);
  const auto from = newer.start();
  BOOST_TEST_REQUIRE(from.has_value());
  BOOST_TEST(from->weights.share);
  BOOST_TEST(contains(newer.troubles(), "1 other engine uses weights that are of another model"));
  wait_until([&] { return state_of(device).waiting == 1; }, "the newer engine offers its own");
  BOOST_TEST((newer.shared == 0 && state_of(device).layout == hash_of(1)));
  first.reset();
  wait_until([&] { return newer.shared == 1; }, "the newer weights are shared");
  BOOST_TEST(sharing_engine(device, 1, 2).start()->weights.imported.has_value());
}

BOOST_AUTO_TEST_CASE(an_engine_that_sleeps_keeps_nobody_from_writing) {
  held_weights device;
  sharing_engine first(device, 0, 1);
  BOOST_TEST_REQUIRE(first.start().has_value());
  sharing_engine second(device, 1, 1);
  BOOST_TEST(!second.share().sleep());  // it has nothing
  BOOST_TEST_REQUIRE(second.start().has_value());
  BOOST_TEST_REQUIRE(second.share().sleep());
  BOOST_TEST(!second.share().sleep());
  wait_until([&] { return state_of(device).readers == 1; }, "who sleeps is no reader");
  const auto woken = second.share().wake(patience);
  BOOST_TEST_REQUIRE(woken.has_value());
  BOOST_TEST((woken->descriptor >= 0 && woken->bytes == 4'096U));
  BOOST_TEST(test::text_in(woken->descriptor) == "weights");
  BOOST_TEST(state_of(device).readers == 2U);
  // Awake it has its weights for the next holder; of one that has nothing and nobody who writes it is told.
  BOOST_TEST_REQUIRE(first.share().sleep());
  device.stop();
  BOOST_TEST((first.share().wake(patience).error().code == engine::errc::weights_lost));
  device.start();
  wait_until([&] { return state_of(device).committed; }, "the next holder has the weights");
  BOOST_TEST(first.share().wake(patience).has_value());
}

BOOST_AUTO_TEST_CASE(an_engine_that_wakes_to_other_weights_ends) {
  held_weights device;
  sharing_engine first(device, 0, 1);
  BOOST_TEST_REQUIRE(first.start().has_value());
  BOOST_TEST_REQUIRE(first.share().sleep());
  {
    weights_link writer(device.path(), 3);
    BOOST_TEST_REQUIRE(writer.request(weights_mode::write, patience).has_value());
    BOOST_TEST((first.share().wake(milliseconds(50)).error().code == engine::errc::weights_lost));
    BOOST_TEST_REQUIRE(writer.put("weights", 4'096, test::memory_with("other").get()).has_value());
    // The same shapes, other numbers.
    BOOST_TEST_REQUIRE(writer.commit({hash_of(1), hash_of(7), "of somebody"}).has_value());
    BOOST_TEST((first.share().wake(patience).error().code == engine::errc::stale_weights));
  }
  device.stop();
  device.start();
  BOOST_TEST((first.share().wake(patience).error().code == engine::errc::stale_weights));
}

BOOST_AUTO_TEST_SUITE_END()
