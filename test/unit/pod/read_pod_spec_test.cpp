#include <boost/test/unit_test.hpp>
#include <string>

#include "test/unit/pod/pod_texts.hpp"

using namespace orcd::app;
using orcd::test::first_problem;
using orcd::test::problem_of_field;

namespace {

const std::string whole = R"(
name: w
image: example/worker:1
)";

}  // namespace

BOOST_AUTO_TEST_SUITE(read_spec)

BOOST_AUTO_TEST_CASE(every_field) {
  const auto [spec, problems] = read_pod_spec(R"(
name: chat
componentType: worker
replicas: 3
failover: {enabled: true}
multinode: {nodeCount: 2}
resources: {limits: {gpu: "2", cpu: 500m, memory: 16Gi}}
image: registry.example:5000/worker@sha256:00
command: [worker-orcd]
args: ["--slots", "8", ""]
workingDir: /work
env: [{name: A, value: ""}, {name: B_1, value: "true"}]
dra: false
weights: own
port: 8000
drainTimeout: 40
model: {hostPath: /srv/models, mountPath: /data}
probes: {liveness: {periodSeconds: 9, timeoutSeconds: 8, failureThreshold: 7}}
)");
  BOOST_TEST(problems == std::vector<std::string>{}, boost::test_tools::per_element());
  BOOST_TEST(spec.name == "chat");
  BOOST_TEST(spec.replicas == 3U);
  BOOST_TEST(spec.failover);
  BOOST_TEST(*spec.nodes == 2U);
  BOOST_TEST(spec.gpus == 2U);
  BOOST_TEST(spec.cpu == "500m");
  BOOST_TEST(spec.memory == "16Gi");
  BOOST_TEST(spec.image == "registry.example:5000/worker@sha256:00");
  BOOST_TEST(spec.args.size() == 3U);
  BOOST_TEST(spec.working_dir == "/work");
  BOOST_TEST(spec.environment.at(1).value == "true");
  BOOST_TEST((spec.dra == false));
  BOOST_TEST(!spec.claims_gpus());
  BOOST_TEST((spec.weights == weights_of::own));
  BOOST_TEST(spec.port == 8'000U);
  BOOST_TEST(spec.drain_timeout == 40U);
  BOOST_TEST(spec.model->host_path == "/srv/models");
  BOOST_TEST(spec.model->mount_path == "/data");
  BOOST_TEST(spec.probes.liveness.period == 9U);
  BOOST_TEST(spec.probes.liveness.timeout == 8U);
  BOOST_TEST(spec.probes.liveness.failures == 7U);
  BOOST_TEST(spec.probes.startup.period == probe_plan{}.startup.period);
}

BOOST_AUTO_TEST_CASE(what_is_not_said_has_a_default) {
  const auto [spec, problems] = read_pod_spec(whole);
  BOOST_TEST(problems.empty());
  BOOST_TEST(spec.component_type == "worker");
  BOOST_TEST(!spec.failover);
  BOOST_TEST(spec.command.front() == "worker-orcd");
  BOOST_TEST(!spec.dra.has_value());
  BOOST_TEST(!spec.claims_gpus());
  BOOST_TEST(!spec.weights.has_value());
  BOOST_TEST(spec.unavailable_max == 1U);
  BOOST_TEST(spec.port == 8'080U);
}

BOOST_AUTO_TEST_CASE(unknown_fields_are_named_with_their_path) {
  BOOST_TEST(problem_of_field("failovr: {enabled: true}") == "failovr: unknown field");
  BOOST_TEST(problem_of_field("failover: {enable: true}") == "failover.enable: unknown field");
  BOOST_TEST(problem_of_field("resources: {limits: {gpus: 1}}") == "resources.limits.gpus: unknown field");
  BOOST_TEST(problem_of_field("env: [{name: A}, {key: B}]") == "env[1].key: unknown field");
  BOOST_TEST(problem_of_field("probes: {startup: {period: 1}}") == "probes.startup.period: unknown field");
  BOOST_TEST(problem_of_field("\"a\\nb\": 1") == "a?b: unknown field");
  BOOST_TEST(problem_of_field("name: again") == "name: is given twice");
}

BOOST_AUTO_TEST_CASE(types_are_checked) {
  BOOST_TEST(problem_of_field("failover: true") == "failover: must be a map");
  BOOST_TEST(problem_of_field("failover: {enabled: 1}") == "failover.enabled: must be true or false");
  BOOST_TEST(problem_of_field("failover: {enabled: \"true\"}") == "failover.enabled: must be true or false");
  BOOST_TEST(problem_of_field("replicas: many") == "replicas: must be a whole number from 0 to 1000");
  BOOST_TEST(problem_of_field("replicas: -1") == "replicas: must be a whole number from 0 to 1000");
  BOOST_TEST(problem_of_field("resources: {limits: {gpu: 17}}") ==
             "resources.limits.gpu: must be a whole number from 0 to 16");
  BOOST_TEST(problem_of_field("args: --slots") == "args: must be a list");
  for (const auto* const value : {"8", "true", "null", "~", "1.5", "-3", "0x10", "[]", "1e3"}) {
    BOOST_TEST(problem_of_field(std::string("args: [") + value + "]") ==
                   "args[0]: must be a string; numbers and true or false need quotes",
               value);
  }
  BOOST_TEST(problem_of_field("args: [\"8\", 8a, --port]").empty());
  BOOST_TEST(problem_of_field("workingDir: here") == "workingDir: is 'here'; it must be an absolute path");
  BOOST_TEST(problem_of_field("componentType: planner").substr(0, 28) == "componentType: is 'planner';");
  BOOST_TEST(problem_of_field("resources: {limits: {memory: lots}}").substr(0, 24) ==
             "resources.limits.memory:");
  // Kubernetes knows k and Ki, and no ki; and no limit of nothing.
  for (const auto* const limit : {"16ki", "0", "0.0Gi", "1.", "Gi", "1e3", "-1", "16 Gi"}) {
    BOOST_TEST(
        problem_of_field("resources: {limits: {memory: \"" + std::string(limit) + "\"}}").substr(0, 24) ==
            "resources.limits.memory:",
        limit);
  }
  BOOST_TEST(problem_of_field("resources: {limits: {memory: 1Ei, cpu: 0.5}}").empty());
  BOOST_TEST(problem_of_field("model: {persistentVolumeClaim: a..b}").substr(0, 28) ==
             "model.persistentVolumeClaim:");
  BOOST_TEST(problem_of_field("weights: some") == "weights: is 'some'; it must be shared or own");
  BOOST_TEST(problem_of_field("model: {}") == "model: needs one of persistentVolumeClaim and hostPath");
  BOOST_TEST(problem_of_field("model: {hostPath: /a, persistentVolumeClaim: b}").substr(0, 6) == "model:");
  BOOST_TEST(problem_of_field("probes: fast") == "probes: must be default, seed, or a map of probes");
  BOOST_TEST(problem_of_field("env: [{value: x}]") == "env[0].name: is missing");
  BOOST_TEST(problem_of_field("env: [{name: 1A}]").substr(0, 12) == "env[0].name:");
  BOOST_TEST(problem_of_field("command: []") == "command: must not be empty");
}

BOOST_AUTO_TEST_CASE(lengths_and_numbers_of_items_have_bounds) {
  const std::string longest(4'096, 'x');
  BOOST_TEST(problem_of_field("args: [" + longest + "]").empty());
  BOOST_TEST(problem_of_field("args: [" + longest + "x]") == "args[0]: is longer than 4096 bytes");
  std::string items;
  for (int i = 0; i < 129; ++i) items += "x, ";
  BOOST_TEST(problem_of_field("args: [" + items + "]") == "args: has more than 128 items");
  BOOST_TEST(first_problem("name: " + std::string(53, 'x') + "\nimage: i") ==
             "name: is longer than 52 bytes");
  BOOST_TEST(first_problem(std::string(spec_bytes_max + 1, ' ')).substr(0, 18) == "the file is longer");
  std::string unknown;
  for (int i = 0; i < 100; ++i) unknown += "f" + std::to_string(i) + ": 1\n";
  BOOST_TEST(read_pod_spec(whole + unknown).problems.size() == problems_max);
}

BOOST_AUTO_TEST_CASE(what_is_no_specification) {
  BOOST_TEST(first_problem("") == "the file must have one document");
  BOOST_TEST(first_problem("a") == "the file must be a map");
  BOOST_TEST(first_problem("name: x\n---\nname: y\n") == "the file must have one document");
  BOOST_TEST(first_problem("name: [").substr(0, 24) == "the file is no YAML: lin");
  BOOST_TEST(first_problem(std::string(60'000, '[')).substr(0, 19) == "the file is no YAML");
  BOOST_TEST(first_problem("&a [*a]").substr(0, 8) == "the file");
  BOOST_TEST(first_problem("name: x") == "image: is missing");
  BOOST_TEST(first_problem("image: x") == "name: is missing");
  BOOST_TEST(first_problem("name: Upper\nimage: x").substr(0, 22) == "name: is 'Upper'; it m");
}

BOOST_AUTO_TEST_SUITE_END()
