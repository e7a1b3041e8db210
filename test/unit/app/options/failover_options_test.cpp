// The options of an engine that another one can take over from, by their own names and by those of the pods.
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "test/unit/app/options/parsed_options.hpp"

namespace {

using namespace orcd;

using test::contains;
using test::refused;

app::failover_options taken(const std::vector<std::string>& args, const app::environment& env = {}) {
  return test::taken_options(args, env).failover;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(failover_options)

BOOST_AUTO_TEST_CASE(a_folder_turns_it_on) {
  const auto alone = taken({});
  BOOST_TEST(alone.dir.empty());
  BOOST_TEST(!alone.port.has_value());
  const auto one = taken({"--failover-dir", "/run/orcd"});
  BOOST_TEST(one.lock_path == "/run/orcd/failover.lock");
  BOOST_TEST(one.engine_id == 0U);
  BOOST_TEST(one.port.value() == 9'090U);
  // The next free one does as well, and is another one than clients use.
  BOOST_TEST(!one.port_given);
  BOOST_TEST(!taken({"--failover-dir", "/run/orcd", "--port", "9090"}).port_given);
  BOOST_TEST(taken({"--failover-dir", "/run/orcd", "--system-port", "9090"}).port_given);
  BOOST_TEST(taken({"--failover-dir", "/run/orcd"}, {{"DYN_SYSTEM_PORT", "9090"}}).port_given);
  BOOST_TEST(taken({"--failover-dir", "/run/orcd", "--engine-id", "1"}).port.value() == 9'091U);
  BOOST_TEST(taken({"--failover-lock-path", "/pod/f.lock"}).dir == "/pod");
  BOOST_TEST(taken({"--failover-lock-path", "/f.lock"}).dir == "/");
  BOOST_TEST(taken({"--failover-lock-path", "f.lock"}).dir == ".");
}

BOOST_AUTO_TEST_CASE(the_names_of_the_pods) {
  const app::environment pod{{"ENGINE_ID", "1"},
                             {"FAILOVER_LOCK_PATH", "/pod/failover.lock"},
                             {"DYN_SYSTEM_PORT", "9099"},
                             {"DYN_SYSTEM_ENABLED", "true"},
                             {"DYN_SYSTEM_STARTING_HEALTH_STATUS", "ready"},
                             {"DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS", "[\"generate\"]"}};
  const auto engine = taken({}, pod);
  BOOST_TEST(engine.engine_id == 1U);
  BOOST_TEST(engine.dir == "/pod");
  BOOST_TEST(engine.port.value() == 9'099U);
  BOOST_TEST(engine.starts_healthy);
  BOOST_TEST(engine.endpoint_health);
  auto own = pod;
  own.emplace_back("WORKER_ORCD_ENGINE_ID", "2");
  BOOST_TEST(taken({}, own).engine_id == 2U);
  BOOST_TEST(taken({"--engine-id", "3"}, own).engine_id == 3U);
  own.emplace_back("WORKER_ORCD_SYSTEM_ENABLED", "false");
  BOOST_TEST(taken({}, own).port.value() == 0U);
  BOOST_TEST(!taken({"--endpoint-health", "[]"}, pod).endpoint_health);
}

BOOST_AUTO_TEST_CASE(the_use_of_a_holder) {
  using app::holder_use;
  const std::vector<std::string> on{"--failover-dir", "/run/orcd"};
  BOOST_TEST((taken(on).holder == holder_use::automatic));
  BOOST_TEST((taken({"--failover-dir", "/run/orcd", "--holder", "off"}).holder == holder_use::off));
  BOOST_TEST((taken({"--failover-dir", "/run/orcd", "--holder", "require"}).holder == holder_use::require));
  BOOST_TEST((taken(on).share_weights == holder_use::off));
  BOOST_TEST((taken({"--failover-dir", "/run/orcd", "--share-weights", "auto"}).share_weights ==
              holder_use::automatic));
  BOOST_TEST(taken(on).weights_dir == "/run/orcd");
  BOOST_TEST(taken(on, {{"GMS_SOCKET_DIR", "/pod"}}).weights_dir == "/pod");
  BOOST_TEST(taken({"--failover-dir", "/run/orcd", "--weights-dir", "/w"}, {{"GMS_SOCKET_DIR", "/pod"}})
                 .weights_dir == "/w");
  BOOST_TEST((!taken(on).standby_unmaps && taken(on).remap_timeout_ms == 30'000U));
  const auto unmapped =
      taken({"--failover-dir", "/run/orcd", "--standby-weights", "unmapped", "--remap-timeout-ms", "500"});
  BOOST_TEST((unmapped.standby_unmaps && unmapped.remap_timeout_ms == 500U));
  BOOST_TEST(taken(on, {{"GMS_REMAP_TIMEOUT_MS", "700"}}).remap_timeout_ms == 700U);
  BOOST_TEST(taken(on).replays == 2U);
  BOOST_TEST(taken({"--failover-dir", "/run/orcd", "--failover-replays", "0"}).replays == 0U);
}

BOOST_AUTO_TEST_CASE(without_it_the_names_of_the_pods_mean_nothing) {
  const app::environment other{{"ENGINE_ID", "not a number"}, {"DYN_SYSTEM_PORT", "-1"}};
  BOOST_TEST(taken({}, other).dir.empty());
  BOOST_TEST(contains(refused({"--failover-dir", "/run/orcd"}, other), "environment variable"));
}

BOOST_AUTO_TEST_CASE(a_worker_that_is_alone_may_have_a_system_port) {
  const auto one = taken({"--system-port", "9090", "--starting-health", "ready"});
  BOOST_TEST(one.dir.empty());
  BOOST_TEST(one.port.value() == 9'090U);
  BOOST_TEST(one.starts_healthy);
  BOOST_TEST(taken({"--system-port", "9090", "--system-enabled", "false"}).port.value() == 0U);
  BOOST_TEST(!taken({}, {{"DYN_SYSTEM_PORT", "9090"}}).port.has_value());
}

BOOST_AUTO_TEST_CASE(values_that_are_none) {
  const std::vector<std::string> on{"--failover-dir", "/run/orcd"};
  const std::vector<std::vector<std::string>> cases{{"--engine-id", "x"},
                                                    {"--engine-id", "-1"},
                                                    {"--engine-id", "64"},
                                                    {"--engine-id", ""},
                                                    {"--system-port", "80"},
                                                    {"--system-port", "65536"},
                                                    {"--waking-timeout-ms", "99"},
                                                    {"--failover-lock-poll-ms", "-1"},
                                                    {"--starting-health", "maybe"},
                                                    {"--endpoint-health", "yes"},
                                                    {"--system-enabled", "on"},
                                                    {"--failover-lock-path", ""},
                                                    {"--holder", "yes"},
                                                    {"--share-weights", "on"},
                                                    {"--standby-weights", "off"},
                                                    {"--weights-dir", ""},
                                                    {"--remap-timeout-ms", "0"},
                                                    {"--remap-timeout-ms", "600001"},
                                                    {"--failover-replays", "17"},
                                                    {"--port", "0"}};
  for (const auto& one : cases) {
    auto args = on;
    args.insert(args.end(), one.begin(), one.end());
    BOOST_TEST(contains(refused(args), one.front()), one.front() << " " << one.back());
  }
  BOOST_TEST(contains(refused({}, {{"ENGINE_ID", "-1"}, {"FAILOVER_LOCK_PATH", "/s/l"}}), "ENGINE_ID"));
  BOOST_TEST(contains(refused({"--engine-id", "1"}), "needs --failover-dir"));
  BOOST_TEST(contains(refused({"--port", "9090", "--system-port", "9090"}), "must differ"));
  BOOST_TEST(contains(refused({"--failover-dir", "/run/orcd", "--port", "9090", "--system-port", "9090"}),
                      "must differ"));
}

BOOST_AUTO_TEST_SUITE_END()
