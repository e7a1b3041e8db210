// Fields of a SPEC that say what of a cluster a pod has, with the bounds that Kubernetes has for them.
#include <boost/test/unit_test.hpp>
#include <string>

#include "test/unit/pod/pod_texts.hpp"

using namespace orcd::app;
using orcd::test::problem_of_field;

namespace {

bool begins(const std::string& text, const std::string& with) {
  return text.substr(0, with.size()) == with;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cluster_field)

BOOST_AUTO_TEST_CASE(every_field) {
  const auto [spec, problems] = read_pod_spec(R"(
name: chat
image: i
namespace: serving
labels: {team: one, example.org/tier: ""}
imagePullSecrets: [{name: registry.one}, {name: two}]
apiKeyFile: {secret: chat-keys, key: keys.txt}
nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100}
tolerations:
- {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
- {key: a, value: b, effect: NoExecute, tolerationSeconds: 60}
- {operator: Exists}
disruptionBudget: {maxUnavailable: 0}
)");
  BOOST_TEST(problems == std::vector<std::string>{}, boost::test_tools::per_element());
  BOOST_TEST(spec.name_space == "serving");
  BOOST_TEST((spec.labels == text_pairs{{"team", "one"}, {"example.org/tier", ""}}));
  BOOST_TEST(spec.pull_secrets.at(0) == "registry.one");
  BOOST_TEST(spec.api_keys->secret == "chat-keys");
  BOOST_TEST(spec.api_keys->key == "keys.txt");
  BOOST_TEST((spec.node_selector == text_pairs{{"nvidia.com/gpu.product", "NVIDIA-H100"}}));
  BOOST_TEST(spec.tolerations.size() == 3U);
  BOOST_TEST(spec.tolerations.at(0).operation == "Exists");
  BOOST_TEST(spec.tolerations.at(1).value == "b");
  BOOST_TEST(*spec.tolerations.at(1).seconds == 60U);
  BOOST_TEST(spec.unavailable_max == 0U);
}

BOOST_AUTO_TEST_CASE(names_are_those_of_the_api) {
  for (const auto* const name : {"A", "-a", "a-", "a.b", "a_b"}) {
    BOOST_TEST(begins(problem_of_field(std::string("namespace: ") + name), "namespace: is '"), name);
  }
  BOOST_TEST(problem_of_field("namespace: " + std::string(63, 'a')).empty());
  BOOST_TEST(problem_of_field("namespace: " + std::string(64, 'a')) == "namespace: is longer than 63 bytes");
  BOOST_TEST(begins(problem_of_field("imagePullSecrets: [{name: A}]"), "imagePullSecrets[0].name: is 'A'"));
  BOOST_TEST(problem_of_field("imagePullSecrets: [{}]") == "imagePullSecrets[0].name: is missing");
  BOOST_TEST(problem_of_field("imagePullSecrets: [{secret: a}]") ==
             "imagePullSecrets[0].secret: unknown field");
  for (const auto* const key : {"\"..\"", "\".\"", "..a", "a/b", "\"a b\""}) {
    BOOST_TEST(begins(problem_of_field(std::string("apiKeyFile: {secret: s, key: ") + key + "}"),
                      "apiKeyFile.key: is '"),
               key);
  }
  BOOST_TEST(problem_of_field("apiKeyFile: {secret: s, key: .hidden}").empty());
  BOOST_TEST(problem_of_field("apiKeyFile: {secret: s}") == "apiKeyFile.key: is missing");
  BOOST_TEST(problem_of_field("apiKeyFile: {key: k}") == "apiKeyFile.secret: is missing");
  BOOST_TEST(problem_of_field("apiKeyFile: keys") == "apiKeyFile: must be a map");
  BOOST_TEST(problem_of_field("disruptionBudget: {minAvailable: 1}") ==
             "disruptionBudget.minAvailable: unknown field");
}

BOOST_AUTO_TEST_CASE(labels_have_keys_and_values_of_labels) {
  for (const auto* const key : {"-a", "a-", "a b", "/a", "a/", "A.b/c", "a/b/c", "\"\""}) {
    for (const auto* const field : {"labels", "nodeSelector"}) {
      BOOST_TEST(
          begins(problem_of_field(std::string(field) + ": {" + key + ": x}"), std::string(field) + "."), key);
    }
  }
  BOOST_TEST(problem_of_field("labels: {a.b/C_d.e: X-1}").empty());
  BOOST_TEST(
      problem_of_field("labels: {" + std::string(63, 'k') + ": " + std::string(63, 'v') + "}").empty());
  BOOST_TEST(!problem_of_field("labels: {" + std::string(64, 'k') + ": v}").empty());
  BOOST_TEST(!problem_of_field("labels: {k: " + std::string(64, 'v') + "}").empty());
  BOOST_TEST(!problem_of_field("labels: {k: a/b}").empty());
  BOOST_TEST(problem_of_field("labels: {k: 1}") ==
             "labels.k: must be a string; numbers and true or false need quotes");
  BOOST_TEST(problem_of_field("labels: {k: a, k: b}") == "labels.k: is given twice");
  std::string many = "labels: {";
  for (int i = 0; i < 33; ++i) many += "k" + std::to_string(i) + ": v, ";
  BOOST_TEST(problem_of_field(many + "}") == "labels: has more than 32 keys");
}

BOOST_AUTO_TEST_CASE(tolerations_are_ones_that_the_api_takes) {
  const auto one = [](const std::string& what) { return problem_of_field("tolerations: [{" + what + "}]"); };
  BOOST_TEST(one("operator: Equal") == "tolerations[0].key: is missing; only operator Exists needs none");
  BOOST_TEST(one("key: a, operator: Exists, value: b") ==
             "tolerations[0].value: must be empty with operator Exists");
  BOOST_TEST(one("key: a, effect: NoSchedule, tolerationSeconds: 1") ==
             "tolerations[0].tolerationSeconds: is only valid with effect NoExecute");
  BOOST_TEST(begins(one("key: a, operator: In"), "tolerations[0].operator: is 'In'"));
  BOOST_TEST(begins(one("key: a, effect: Never"), "tolerations[0].effect: is 'Never'"));
  BOOST_TEST(begins(one("key: a, effect: NoExecute, tolerationSeconds: -1"), "tolerations[0].tolerationSec"));
  BOOST_TEST(one("taint: a") == "tolerations[0].taint: unknown field");
}

BOOST_AUTO_TEST_CASE(variables_may_come_from_elsewhere) {
  const auto [spec, problems] = read_pod_spec(R"(
name: chat
image: i
env:
- {name: A, valueFrom: {secretKeyRef: {name: s, key: k, optional: true}}}
- {name: B, valueFrom: {configMapKeyRef: {name: c, key: k}}}
- {name: C, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
- {name: D, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app.kubernetes.io/name']"}}}
)");
  BOOST_TEST(problems == std::vector<std::string>{}, boost::test_tools::per_element());
  const auto& env = spec.environment;
  BOOST_TEST((env.at(0).from->of == value_source::kind::secret && env.at(0).from->optional));
  BOOST_TEST(env.at(0).from->object == "s");
  BOOST_TEST((env.at(1).from->of == value_source::kind::config_map && !env.at(1).from->optional));
  BOOST_TEST((env.at(2).from->of == value_source::kind::field && env.at(2).from->key == "status.podIP"));
  BOOST_TEST(env.at(3).from->key == "metadata.labels['app.kubernetes.io/name']");
  const auto from = [](const std::string& what) {
    return problem_of_field("env: [{name: A, " + what + "}]");
  };
  const std::string one_of = "env[0].valueFrom: needs one of secretKeyRef, configMapKeyRef and fieldRef";
  BOOST_TEST(from("valueFrom: {}") == one_of);
  BOOST_TEST(from("valueFrom: {fieldRef: {fieldPath: metadata.name}, secretKeyRef: {name: s, key: k}}") ==
             one_of);
  BOOST_TEST(from("value: x, valueFrom: {fieldRef: {fieldPath: metadata.name}}") ==
             "env[0]: cannot have both value and valueFrom");
  BOOST_TEST(from("valueFrom: {secretKeyRef: {name: s}}") == "env[0].valueFrom.secretKeyRef.key: is missing");
  BOOST_TEST(from("valueFrom: {fieldRef: {}}") == "env[0].valueFrom.fieldRef.fieldPath: is missing");
  BOOST_TEST(begins(from("valueFrom: {fieldRef: {fieldPath: spec.containers}}"),
                    "env[0].valueFrom.fieldRef.fieldPath: is 'spec.containers'"));
  BOOST_TEST(from("valueFrom: {resourceFieldRef: {}}") == "env[0].valueFrom.resourceFieldRef: unknown field");
}

BOOST_AUTO_TEST_SUITE_END()
