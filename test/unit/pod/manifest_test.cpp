#include "app/pod/manifest.hpp"

#include <boost/test/unit_test.hpp>
#include <string>

#include "test/unit/pod/pod_texts.hpp"

using namespace orcd::app;
namespace json = boost::json;
using orcd::test::text;

namespace {

pod_spec worker() {
  pod_spec spec;
  spec.name = "w";
  spec.image = "i";
  spec.gpus = 1;
  spec.args = {"--model", "m"};
  return spec;
}

json::value of_kind(const pod_spec& spec, std::string_view kind) {
  const auto made = build_manifest(spec);
  for (const auto& item : made.at("items").as_array()) {
    if (item.at("kind").as_string() == kind) return item;
  }
  return nullptr;
}

json::value pod_of(const pod_spec& spec) {
  return of_kind(spec, "Deployment").at("spec").at("template").at("spec");
}

std::string variable(const json::value& container, std::string_view name) {
  for (const auto& entry : container.at("env").as_array()) {
    if (entry.at("name").as_string() == name) return text(entry);
  }
  return "(none)";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(manifests)

BOOST_AUTO_TEST_CASE(a_worker_without_keys_is_told_the_names_of_its_service) {
  const auto names_in = [](const pod_spec& spec) {
    return variable(pod_of(spec).at("containers").at(0), "WORKER_ORCD_ALLOW_HOST");
  };
  auto spec = worker();
  BOOST_TEST(names_in(spec) == R"({"name":"WORKER_ORCD_ALLOW_HOST","value":"w,w.$(ORCD_POD_NAMESPACE),)"
                               R"(w.$(ORCD_POD_NAMESPACE).svc,w.$(ORCD_POD_NAMESPACE).svc.cluster.local"})");
  BOOST_TEST(variable(pod_of(spec).at("containers").at(0), "ORCD_POD_NAMESPACE") != "(none)");
  spec.name_space = "chat";
  BOOST_TEST(names_in(spec) ==
             R"({"name":"WORKER_ORCD_ALLOW_HOST","value":"w,w.chat,w.chat.svc,w.chat.svc.cluster.local"})");
  BOOST_TEST(variable(pod_of(spec).at("containers").at(0), "ORCD_POD_NAMESPACE") == "(none)");
  auto other = spec;
  other.environment = {{"WORKER_ORCD_ALLOW_HOST", "llm.example"}};
  BOOST_TEST(names_in(other) == R"({"name":"WORKER_ORCD_ALLOW_HOST","value":"llm.example"})");
  other = spec;
  other.args.emplace_back("--allow-host=llm.example");
  BOOST_TEST(names_in(other) == "(none)");
  other = spec;
  other.api_keys = secret_file{"s", "k"};
  BOOST_TEST(names_in(other) == "(none)", "with keys any name will do");
}

BOOST_AUTO_TEST_CASE(a_worker_alone_claims_its_gpu_where_that_is_asked_for) {
  auto spec = worker();
  spec.memory = "16Gi";
  BOOST_TEST(of_kind(spec, "ResourceClaimTemplate").is_null());
  BOOST_TEST(text(pod_of(spec).at("containers").at(0).at("resources")) ==
             R"({"limits":{"nvidia.com/gpu":"1","memory":"16Gi"}})");
  spec.dra = true;
  const auto pod = pod_of(spec);
  BOOST_TEST(text(pod.at("containers").at(0).at("resources")) ==
             R"({"limits":{"memory":"16Gi"},"claims":[{"name":"shared-gpu"}]})");
  BOOST_TEST(text(pod.at("resourceClaims")) ==
             R"([{"name":"shared-gpu","resourceClaimTemplateName":"w-gpu"}])");
  BOOST_TEST(of_kind(spec, "ResourceClaimTemplate").at("metadata").at("name").as_string() == "w-gpu");
}

BOOST_AUTO_TEST_CASE(pods_have_no_rights_and_no_token) {
  const auto pod = pod_of(worker());
  BOOST_TEST(!pod.at("automountServiceAccountToken").as_bool());
  const auto& container = pod.at("containers").at(0);
  BOOST_TEST(container.at("securityContext").at("readOnlyRootFilesystem").as_bool());
  BOOST_TEST(text(container.at("volumeMounts")) == R"([{"name":"tmp","mountPath":"/tmp"}])");
  BOOST_TEST(text(pod.at("volumes")) == R"([{"name":"tmp","emptyDir":{}}])");
  auto pair = worker();
  pair.failover = true;
  const auto both = pod_of(pair);
  const auto& holder = both.at("initContainers").at(0);
  BOOST_TEST(holder.at("securityContext").at("readOnlyRootFilesystem").as_bool());
  BOOST_TEST(text(holder.at("volumeMounts")) == R"([{"name":"failover-shared","mountPath":"/shared"}])");
}

BOOST_AUTO_TEST_CASE(the_api_keys_are_a_file_of_a_secret) {
  auto spec = worker();
  spec.api_keys = {"chat-keys", "all"};
  const auto pod = pod_of(spec);
  BOOST_TEST(variable(pod.at("containers").at(0), "WORKER_ORCD_API_KEY_FILE") ==
             R"({"name":"WORKER_ORCD_API_KEY_FILE","value":"/run/secrets/worker-orcd/keys"})");
  BOOST_TEST(text(pod.at("containers").at(0).at("volumeMounts").at(0)) ==
             R"({"name":"api-keys","mountPath":"/run/secrets/worker-orcd","readOnly":true})");
  // 288 is 0440.
  BOOST_TEST(text(pod.at("volumes").at(0)) ==
             R"({"name":"api-keys","secret":{"secretName":"chat-keys","defaultMode":288,)"
             R"("items":[{"key":"all","path":"keys"}]}})");
}

BOOST_AUTO_TEST_CASE(variables_come_from_where_they_are_said_to) {
  auto spec = worker();
  spec.environment = {{"A", "", value_source{value_source::kind::secret, "s", "k", true}},
                      {"B", "", value_source{value_source::kind::config_map, "c", "k"}},
                      {"WORKER_ORCD_HOST", "", value_source{value_source::kind::field, "", "status.podIP"}}};
  const auto container = pod_of(spec).at("containers").at(0);
  BOOST_TEST(variable(container, "A") ==
             R"({"name":"A","valueFrom":{"secretKeyRef":{"name":"s","key":"k","optional":true}}})");
  BOOST_TEST(variable(container, "B") ==
             R"({"name":"B","valueFrom":{"configMapKeyRef":{"name":"c","key":"k"}}})");
  BOOST_TEST(variable(container, "WORKER_ORCD_HOST") ==
             R"({"name":"WORKER_ORCD_HOST","valueFrom":{"fieldRef":{"fieldPath":"status.podIP"}}})");
}

BOOST_AUTO_TEST_CASE(what_of_the_cluster_is_used_is_written) {
  auto spec = worker();
  spec.name_space = "serving";
  spec.labels = {{"team", "one"}};
  spec.pull_secrets = {"registry"};
  spec.node_selector = {{"a/b", "c"}};
  spec.tolerations = {{"k", "", "v", "NoExecute", 60U}, {"", "Exists", "", ""}};
  const auto pod = pod_of(spec);
  BOOST_TEST(text(pod.at("imagePullSecrets")) == R"([{"name":"registry"}])");
  BOOST_TEST(text(pod.at("nodeSelector")) == R"({"a/b":"c"})");
  BOOST_TEST(
      text(pod.at("tolerations")) ==
      R"([{"key":"k","value":"v","effect":"NoExecute","tolerationSeconds":60},{"operator":"Exists"}])");
  const auto made = build_manifest(spec);
  for (const auto& item : made.at("items").as_array()) {
    BOOST_TEST(item.at("metadata").at("namespace").as_string() == "serving");
    BOOST_TEST(item.at("metadata").at("labels").at("team").as_string() == "one");
  }
  const auto deployment = of_kind(spec, "Deployment");
  BOOST_TEST(deployment.at("spec").at("template").at("metadata").at("labels").at("team").as_string() ==
             "one");
  BOOST_TEST(!deployment.at("spec").at("selector").at("matchLabels").as_object().contains("team"));
}

BOOST_AUTO_TEST_CASE(a_budget_says_how_many_pods_may_be_evicted) {
  auto spec = worker();
  BOOST_TEST(text(of_kind(spec, "PodDisruptionBudget").at("spec")) ==
             R"({"maxUnavailable":1,"selector":{"matchLabels":{"app.kubernetes.io/name":"worker-orcd",)"
             R"("app.kubernetes.io/instance":"w"}},"unhealthyPodEvictionPolicy":"AlwaysAllow"})");
  spec.unavailable_max = 3;
  BOOST_TEST(of_kind(spec, "PodDisruptionBudget").at("spec").at("maxUnavailable").to_number<int>() == 3);
}

BOOST_AUTO_TEST_SUITE_END()
