#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "app/pod/pod_spec.hpp"

using namespace orcd::app;

namespace {

pod_spec worker_with_failover() {
  pod_spec spec;
  spec.name = "w";
  spec.image = "i";
  spec.failover = true;
  spec.gpus = 1;
  spec.args = {"--model", "/models/m.gguf"};
  return spec;
}

bool tells(const pod_spec& spec, const std::string& problem) {
  const auto problems = validate_pod_spec(spec);
  return std::find(problems.begin(), problems.end(), problem) != problems.end();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(validation_webhook)

BOOST_AUTO_TEST_CASE(failover_is_accepted_on_a_worker_with_a_gpu) {
  BOOST_TEST(validate_pod_spec(worker_with_failover()).empty());
}

BOOST_AUTO_TEST_CASE(failover_is_rejected_on_a_frontend) {
  auto spec = worker_with_failover();
  spec.component_type = "frontend";
  BOOST_TEST(tells(spec, "failover is only valid on componentType worker"));
}

BOOST_AUTO_TEST_CASE(failover_is_rejected_with_multinode) {
  auto spec = worker_with_failover();
  spec.nodes = 1;
  BOOST_TEST(tells(spec, "failover is not supported with multinode deployments"));
}

BOOST_AUTO_TEST_CASE(failover_is_rejected_without_a_gpu) {
  auto spec = worker_with_failover();
  spec.gpus = 0;
  BOOST_TEST(tells(spec, "failover requires resources.limits.gpu >= 1"));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_generated_is_rejected_without_failover_too) {
  auto spec = worker_with_failover();
  spec.failover = false;
  spec.gpus = 0;
  BOOST_TEST(validate_pod_spec(spec).empty());
  spec.nodes = 2;
  BOOST_TEST(tells(spec, "multinode: a worker is one process on one node"));
  spec.component_type = "frontend";
  BOOST_TEST(tells(spec, "componentType: only pods of workers are generated"));
}

BOOST_AUTO_TEST_CASE(what_the_generator_says_itself_is_not_said_twice) {
  auto spec = worker_with_failover();
  spec.args = {"--model=m", "8", "--engine-id=3", "--system-port", "1"};
  spec.environment = {{"A", ""}, {"ENGINE_ID", "2"}, {"A", "again"}, {"WORKER_ORCD_SHARE_WEIGHTS", "off"}};
  spec.labels = {{"team", "one"}, {"app.kubernetes.io/name", "mine"}};
  const std::vector<std::string> told{"args[2]: --engine-id is set by the generator",
                                      "args[3]: --system-port is set by the generator",
                                      "env[1].name: ENGINE_ID is set by the generator",
                                      "env[2].name: A is given twice",
                                      "env[3].name: WORKER_ORCD_SHARE_WEIGHTS is set by the generator",
                                      "labels.app.kubernetes.io/name: is set by the generator"};
  BOOST_TEST(validate_pod_spec(spec) == told, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_command_of_its_own_needs_containers_of_their_own) {
  auto spec = worker_with_failover();
  spec.command = {"/bin/engine"};
  BOOST_TEST(validate_pod_spec(spec).empty());
  spec.dra = false;
  BOOST_TEST(validate_pod_spec(spec).size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_model_must_be_named) {
  auto spec = worker_with_failover();
  spec.args = {"--slots", "8"};
  const std::string none = "args: no --model says what is served";
  BOOST_TEST(tells(spec, none));
  spec.failover = false;
  spec.model.emplace().claim = "models";
  BOOST_TEST(tells(spec, none));
  for (const auto* const word : {"--model=/models/m.gguf", "--config=/c"}) {
    spec.args = {word};
    BOOST_TEST(validate_pod_spec(spec).empty());
  }
  spec.args = {};
  for (const auto* const variable : {"WORKER_ORCD_MODEL", "WORKER_ORCD_CONFIG"}) {
    spec.environment = {{variable, "x"}};
    BOOST_TEST(validate_pod_spec(spec).empty());
  }
  spec.environment = {};
  spec.command = {"/start"};
  BOOST_TEST(validate_pod_spec(spec).empty());
}

BOOST_AUTO_TEST_CASE(gpus_are_claimed_where_there_are_some) {
  auto spec = worker_with_failover();
  BOOST_TEST(spec.claims_gpus());
  spec.failover = false;
  BOOST_TEST(!spec.claims_gpus());
  spec.dra = true;
  BOOST_TEST(spec.claims_gpus());
  BOOST_TEST(validate_pod_spec(spec).empty());
  spec.gpus = 0;
  BOOST_TEST(tells(spec, "dra: there is nothing to claim without resources.limits.gpu >= 1"));
}

BOOST_AUTO_TEST_CASE(weights_are_shared_where_there_is_somebody_to_share_them_with) {
  auto spec = worker_with_failover();
  BOOST_TEST(spec.shares_weights());
  spec.args.emplace_back("--share-weights=require");
  BOOST_TEST(validate_pod_spec(spec).empty());
  spec.weights = weights_of::own;
  BOOST_TEST(!spec.shares_weights());
  BOOST_TEST(tells(spec, "weights: is own, and args say --share-weights"));
  spec.failover = false;
  BOOST_TEST(tells(spec, "weights: only engines of a pod that fails over can share them"));
}

BOOST_AUTO_TEST_CASE(a_place_has_one_volume) {
  auto spec = worker_with_failover();
  auto& model = spec.model.emplace();
  model.claim = "models";
  const std::string taken = "model.mountPath: something else of the pod is mounted there";
  for (const auto* const path : {"/shared", "/tmp/", "/tmp/models", "/", "//"}) {
    model.mount_path = path;
    BOOST_TEST(tells(spec, taken), path);
  }
  for (const auto* const path : {"/run", "/sharedmodels", "/data"}) {
    model.mount_path = path;
    BOOST_TEST(validate_pod_spec(spec).empty(), path);
  }
  model.mount_path = "/run";
  spec.api_keys = {"keys", "all"};
  BOOST_TEST(tells(spec, taken));
  model.mount_path = "/shared";
  spec.failover = false;
  BOOST_TEST(validate_pod_spec(spec).empty());
}

BOOST_AUTO_TEST_CASE(api_keys_have_one_source) {
  auto spec = worker_with_failover();
  spec.args.emplace_back("--api-key-file=/k");
  spec.environment = {{"WORKER_ORCD_API_KEY_FILE", "/k"}};
  BOOST_TEST(validate_pod_spec(spec).empty());
  spec.api_keys = {"keys", "all"};
  BOOST_TEST(tells(spec, "args[2]: --api-key-file is set by the generator"));
  BOOST_TEST(tells(spec, "env[0].name: WORKER_ORCD_API_KEY_FILE is set by the generator"));
}

BOOST_AUTO_TEST_CASE(the_serving_port_is_no_system_port) {
  auto spec = worker_with_failover();
  spec.port = 9'091;
  BOOST_TEST(tells(spec, "port: 9090 and 9091 are the system ports of the engines"));
  spec.failover = false;
  BOOST_TEST(validate_pod_spec(spec).empty());
}

BOOST_AUTO_TEST_SUITE_END()
