// What the roles of a start decide by facts alone: room, limits, what is told.
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "app/worker/adapters_role.hpp"
#include "app/worker/connection_room.hpp"
#include "app/worker/reports.hpp"
#include "app/worker/start_up.hpp"
#include "app/worker/system_role.hpp"
#include "test/unit/app/worker/told_events.hpp"

namespace {

using namespace orcd;
using engine::lifecycle;
using net::failover_state;

std::string value_of(const net::trace_resource& resource, const std::string& key) {
  std::string out;
  for (const auto& [name, value] : resource.attributes) {
    if (name == key) out += out.empty() ? value : " and " + value;
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(start_decisions)

BOOST_AUTO_TEST_CASE(there_is_room_for_adapters_that_were_given_and_for_one_that_clients_may_load) {
  const auto room = [](std::size_t given, std::uint32_t count, std::uint32_t rank, bool may_load,
                       std::uint32_t largest) {
    app::adapter_options asked;
    asked.at_start.resize(given);
    asked.count = count;
    asked.rank = rank;
    if (may_load) asked.folder = "/adapters";
    const auto out = app::adapter_room_for(asked, largest);
    return std::to_string(out.count) + " of rank " + std::to_string(out.rank_max);
  };
  BOOST_TEST(room(2, 0, 0, false, 8) == "2 of rank 8");
  BOOST_TEST(room(0, 0, 0, true, 0) == "1 of rank 16");
  BOOST_TEST(room(3, 0, 0, true, 8) == "3 of rank 16");
  BOOST_TEST(room(1, 5, 0, true, 64) == "5 of rank 64");
  // The highest rank bounds those of the start when they are read; it is planned for what comes later alone.
  BOOST_TEST(room(1, 0, 32, true, 8) == "1 of rank 32");
  BOOST_TEST(room(1, 0, 32, false, 8) == "1 of rank 8");
}

BOOST_AUTO_TEST_CASE(descriptors_are_spared_for_whoever_else_opens_some) {
  const auto alone = app::spare_descriptors({});
  BOOST_TEST(alone > 0U);
  BOOST_TEST(app::spare_descriptors({.probes = true}) == alone + net::system_connections_max);
  BOOST_TEST(app::spare_descriptors({.holder = true}) > alone + net::frame_descriptors_max);
  BOOST_TEST(app::spare_descriptors({.opening = 96}) == alone + 96);
}

BOOST_AUTO_TEST_CASE(a_worker_that_is_alone_has_states_of_several) {
  BOOST_TEST((app::state_alone(lifecycle::starting) == failover_state::init));
  BOOST_TEST((app::state_alone(lifecycle::ready) == failover_state::active));
  BOOST_TEST((app::state_alone(lifecycle::busy) == failover_state::active));
  BOOST_TEST((app::state_alone(lifecycle::draining) == failover_state::draining));
  BOOST_TEST((app::state_alone(lifecycle::failed) == failover_state::dead));
}

BOOST_AUTO_TEST_CASE(weights_that_are_mapped_again_have_a_time_of_their_own) {
  app::failover_options opts;
  opts.waking_timeout_ms = 100;
  opts.remap_timeout_ms = 20;
  BOOST_TEST(app::waking_limit(opts).count() == 100);
  opts.standby_unmaps = true;
  BOOST_TEST(app::waking_limit(opts).count() == 100);  // they are its own
  opts.share_weights = app::holder_use::automatic;
  BOOST_TEST(app::waking_limit(opts).count() == 120);
}

BOOST_AUTO_TEST_CASE(what_an_operator_says_of_spans_goes_before_what_the_worker_knows) {
  app::options opts;
  opts.worker_id = "w1";
  auto told = app::trace_resource_of(opts);
  BOOST_TEST(value_of(told, "service.name") == "worker-orcd");
  BOOST_TEST(value_of(told, "service.instance.id") == "w1");
  opts.traces.resource = {{"service.name", "theirs"}, {"service.instance.id", "pod-7"}};
  told = app::trace_resource_of(opts);
  BOOST_TEST(value_of(told, "service.name") == "theirs");
  BOOST_TEST(value_of(told, "service.instance.id") == "pod-7");
  // The option of that name goes before the variable's attributes.
  opts.traces.service_name = "ours";
  BOOST_TEST(value_of(app::trace_resource_of(opts), "service.name") == "ours");
}

BOOST_AUTO_TEST_CASE(a_signal_ends_a_start_before_the_model_is_opened) {
  app::options opts;
  opts.backend = app::backend_kind::host;
  opts.model = "/no/such/model.gguf";
  bool signal = true;
  test::told_events log;
  app::start_up start(opts, log, {.stop_asked = [&] { return signal; }, .wait = {}});
  BOOST_TEST((start.open().value().why.code == engine::errc::cancelled));
  signal = false;
  BOOST_TEST((start.open().value().why.code == engine::errc::model_load_failed));
}

BOOST_AUTO_TEST_CASE(keys_that_cannot_be_read_fail_the_start_and_none_are_needed_without_a_file) {
  app::options opts;
  test::told_events log;
  net::current_keys keys;
  app::start_up start(opts, log, {.stop_asked = [] { return false; }, .wait = {}});
  BOOST_TEST(!start.read_first_keys(keys).has_value());
  opts.api_key_file = "/no/such/keys";
  const auto failure = start.read_first_keys(keys);
  BOOST_REQUIRE(failure.has_value());
  BOOST_TEST(failure->why.message.find("API key file '/no/such/keys'") == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
