#include "app/pod/failover_pod.hpp"

#include <boost/test/unit_test.hpp>
#include <string>

#include "test/unit/pod/pod_texts.hpp"

using namespace orcd::app;
namespace json = boost::json;
using orcd::test::text;

namespace {

json::object container() {
  return {{"name", "worker"},
          {"image", "example/worker:1"},
          {"command", json::array{"worker-orcd"}},
          {"args", json::array{"--model", "/m.gguf"}},
          {"env", json::array{json::object{{"name", "MINE"}, {"value", "kept"}}}},
          {"resources", json::object{{"limits", json::object{{"nvidia.com/gpu", "1"}, {"cpu", "2"}}}}},
          {"readinessProbe", json::object{}}};
}

json::object pod(const failover_plan& plan) {
  const auto main = container();
  return build_failover_pod({{"containers", json::array{main}}, {"terminationGracePeriodSeconds", 40}}, main,
                            plan);
}

failover_plan planned() {
  failover_plan plan;
  plan.claim_template = "w-gpu";
  return plan;
}

std::string value_of(const json::value& engine, std::string_view name) {
  for (const auto& entry : engine.at("env").as_array()) {
    if (entry.at("name").as_string() == name) return std::string(entry.at("value").as_string());
  }
  return "(none)";
}

/// The holder's own.
std::string shared_folder() {
  return std::string(shared_mount_path) + "/" + std::string(holder_folder);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(build_failover_pod_tests)

BOOST_AUTO_TEST_CASE(build_failover_pod_has_two_engines_a_holder_and_what_they_share) {
  const json::value made = pod(planned());
  BOOST_TEST(made.at("containers").as_array().size() == 2U);
  BOOST_TEST(made.at("initContainers").as_array().size() == 1U);
  BOOST_TEST(made.at("terminationGracePeriodSeconds").to_number<int>() == 40);
  BOOST_TEST(text(made.at("volumes")) == R"([{"name":"failover-shared","emptyDir":{}}])");
  BOOST_TEST(made.at("shareProcessNamespace").as_bool());
  BOOST_TEST(text(made.at("resourceClaims")) ==
             R"([{"name":"shared-gpu","resourceClaimTemplateName":"w-gpu"}])");
  const auto shares = [](const json::value& one) {
    BOOST_TEST(text(one.at("resources").at("claims")) == R"([{"name":"shared-gpu"}])");
    BOOST_TEST(text(one.at("volumeMounts")) == R"([{"name":"failover-shared","mountPath":"/shared"}])");
    BOOST_TEST(one.at("image").as_string() == "example/worker:1");
  };
  shares(made.at("initContainers").at(0));
  for (const auto& engine : made.at("containers").as_array()) {
    shares(engine);
    BOOST_TEST(text(engine.at("resources").at("limits")) == R"({"cpu":"2"})");
    BOOST_TEST(text(engine.at("command")) == R"(["worker-orcd"])");
    BOOST_TEST(text(engine.at("args")) == R"(["--model","/m.gguf"])");
  }
}

BOOST_AUTO_TEST_CASE(build_engine_container_sets_the_plans_variables) {
  for (const std::uint32_t id : {0U, 1U}) {
    const json::value engine = build_engine_container(container(), id, "/pod", {});
    const auto number = std::to_string(id);
    BOOST_TEST(engine.at("name").as_string() == "engine-" + number);
    BOOST_TEST(value_of(engine, "ENGINE_ID") == number);
    BOOST_TEST(value_of(engine, "DYN_SYSTEM_PORT") == "909" + number);
    BOOST_TEST(value_of(engine, "GMS_SOCKET_DIR") == "/pod/holder");
    BOOST_TEST(value_of(engine, "WORKER_ORCD_SHARE_WEIGHTS") == "auto");
    BOOST_TEST(value_of(engine, "FAILOVER_LOCK_PATH") == "/pod/failover.lock");
    BOOST_TEST(value_of(engine, "DYN_SYSTEM_STARTING_HEALTH_STATUS") == "notready");
    BOOST_TEST(value_of(engine, "DYN_SYSTEM_ENABLED") == "true");
    BOOST_TEST(value_of(engine, "WORKER_ORCD_FAILOVER_DIR") == "/pod/holder");
    BOOST_TEST(value_of(engine, "DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS") == "(none)");
    BOOST_TEST(value_of(engine, "MINE") == "kept");
    BOOST_TEST(text(engine.at("ports")) == R"([{"name":"system-)" + number + R"(","containerPort":909)" +
                                               number + R"(,"protocol":"TCP"}])");
  }
}

/// They differ in name, ENGINE_ID and port: nothing else tells them apart.
BOOST_AUTO_TEST_CASE(engines_are_equal_but_for_id_and_port) {
  auto plan = planned();
  plan.probes = planned_probes();
  auto zero = text(build_engine_container(container(), 0, "/shared", plan));
  const auto one = text(build_engine_container(container(), 1, "/shared", plan));
  const auto replace = [&](const std::string& from, const std::string& to) {
    std::size_t count = 0;
    for (std::size_t at = zero.find(from); at != std::string::npos; at = zero.find(from, at + to.size())) {
      zero.replace(at, from.size(), to);
      ++count;
    }
    return count;
  };
  BOOST_TEST(replace("engine-0", "engine-1") == 1U);
  BOOST_TEST(replace("system-0", "system-1") == 4U);
  BOOST_TEST(replace("9090", "9091") == 2U);
  BOOST_TEST(replace(R"("ENGINE_ID","value":"0")", R"("ENGINE_ID","value":"1")") == 1U);
  BOOST_TEST(zero == one);
}

BOOST_AUTO_TEST_CASE(probes_of_the_plan) {
  auto plan = planned();
  plan.probes = planned_probes();
  const json::value made = pod(plan);
  const auto& engine = made.at("containers").at(1);
  BOOST_TEST(text(engine.at("startupProbe")) ==
             R"({"httpGet":{"path":"/live","port":"system-1"},)"
             R"("periodSeconds":10,"timeoutSeconds":5,"failureThreshold":720})");
  BOOST_TEST(text(engine.at("livenessProbe")) ==
             R"({"httpGet":{"path":"/live","port":"system-1"},)"
             R"("periodSeconds":5,"timeoutSeconds":4,"failureThreshold":1})");
  BOOST_TEST(text(engine.at("readinessProbe")) ==
             R"({"httpGet":{"path":"/health","port":"system-1"},)"
             R"("periodSeconds":10,"timeoutSeconds":4,"failureThreshold":3})");
  const auto& holder = made.at("initContainers").at(0).as_object();
  BOOST_TEST(!holder.contains("readinessProbe"));
  BOOST_TEST(text(holder.at("startupProbe").at("exec")) ==
             text(json::object{{"command", holder_ready_check(shared_folder())}}));
  BOOST_TEST(holder.at("startupProbe").at("periodSeconds").to_number<int>() == 2);
  BOOST_TEST(holder.at("startupProbe").at("failureThreshold").to_number<int>() == 150);
}

BOOST_AUTO_TEST_CASE(by_default_the_holder_says_who_is_ready) {
  const json::value made = pod(planned());
  const auto& holder = made.at("initContainers").at(0);
  BOOST_TEST(holder.at("restartPolicy").as_string() == "Always");
  BOOST_TEST(
      text(holder.at("startupProbe").at("exec").at("command")) ==
      text(json::array{"worker-orcd-holder", "--failover-dir", shared_folder(), "--check", "startup"}));
  BOOST_TEST(text(holder.at("readinessProbe").at("exec").at("command")) ==
             text(json::array{"worker-orcd-holder", "--failover-dir", shared_folder(), "--check", "ready"}));
  for (const auto& engine : made.at("containers").as_array()) {
    BOOST_TEST(!engine.as_object().contains("readinessProbe"));
    BOOST_TEST(engine.at("livenessProbe").at("failureThreshold").to_number<int>() == 3);
    BOOST_TEST(engine.at("livenessProbe").at("terminationGracePeriodSeconds").to_number<int>() == 1);
  }
}

BOOST_AUTO_TEST_CASE(build_holder_sidecar_has_the_serving_port) {
  auto plan = planned();
  plan.port = 8'000;
  const json::value holder = build_holder_sidecar(container(), plan);
  BOOST_TEST(text(holder.at("args")) ==
             text(json::array{"--failover-dir", shared_folder(), "--host", "0.0.0.0", "--port", "8000"}));
  BOOST_TEST(holder.at("ports").at(0).at("containerPort").to_number<int>() == 8'000);
}

BOOST_AUTO_TEST_CASE(holder_ready_check_asks_for_the_socket) {
  BOOST_TEST(text(holder_ready_check("/s")) == R"(["test","-S","/s/connections.sock"])");
}

BOOST_AUTO_TEST_CASE(without_dra_one_container_has_the_gpu) {
  auto plan = planned();
  plan.dra = false;
  const json::value made = pod(plan);
  BOOST_TEST(!made.as_object().contains("initContainers"));
  BOOST_TEST(!made.as_object().contains("resourceClaims"));
  BOOST_REQUIRE(made.at("containers").as_array().size() == 1U);
  const auto& only = made.at("containers").at(0);
  BOOST_TEST(text(only.at("command")) == R"(["worker-orcd-holder"])");
  BOOST_TEST(text(only.at("args")) ==
             text(json::array{"--failover-dir", shared_folder(), "--host", "0.0.0.0", "--port", "8080",
                              "--run", "2", "--", "--model", "/m.gguf"}));
  // Two engines run in it, of which each may have what is asked for; the GPU is one.
  BOOST_TEST(text(only.at("resources")) == R"({"limits":{"nvidia.com/gpu":"1","cpu":"4"}})");
  BOOST_TEST(!made.as_object().contains("shareProcessNamespace"));
  BOOST_TEST(value_of(only, "WORKER_ORCD_SHARE_WEIGHTS") == "auto");
  BOOST_TEST(value_of(only, "FAILOVER_LOCK_PATH") == std::string(shared_mount_path) + "/failover.lock");
  BOOST_TEST(value_of(only, "ENGINE_ID") == "(none)");
}

BOOST_AUTO_TEST_CASE(weights_of_their_own_are_asked_for) {
  auto plan = planned();
  plan.shares_weights = false;
  for (const bool dra : {true, false}) {
    plan.dra = dra;
    const json::value made = pod(plan);
    for (const auto& one : made.at("containers").as_array()) {
      BOOST_TEST(value_of(one, "WORKER_ORCD_SHARE_WEIGHTS") == "(none)");
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
