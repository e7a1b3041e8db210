#include "app/pod/manifest.hpp"

#include <utility>

#include "app/pod/gpu_claim.hpp"
#include "app/pod/worker_pod.hpp"

namespace orcd::app {
namespace {

namespace json = boost::json;

/// What selects a service's pods.
json::object own_labels(const pod_spec& spec) {
  return {{"app.kubernetes.io/name", "worker-orcd"}, {"app.kubernetes.io/instance", spec.name}};
}

void add_labels(json::object& to, const pod_spec& spec) {
  for (const auto& [key, value] : spec.labels) to[key] = value;
}

json::object metadata(const pod_spec& spec, const std::string& name) {
  json::object labels = own_labels(spec);
  add_labels(labels, spec);
  json::object out{{"name", name}};
  if (!spec.name_space.empty()) out["namespace"] = spec.name_space;
  out["labels"] = std::move(labels);
  return out;
}

json::object pod_metadata(const pod_spec& spec) {
  json::object out = own_labels(spec);
  out["app.kubernetes.io/component"] = spec.component_type;
  out["inference.networking.k8s.io/engine-type"] = "worker-orcd";
  // What the admission policy of etc/kubernetes judges.
  out["worker-orcd/failover"] = spec.failover ? "enabled" : "disabled";
  add_labels(out, spec);
  return {{"labels", std::move(out)}};
}

/// New pods come when old ones have given their GPUs back.
json::object deployment(const pod_spec& spec) {
  const json::object rolling{{"maxSurge", 0}, {"maxUnavailable", 1}};
  json::object selector = own_labels(spec);
  return {
      {"apiVersion", "apps/v1"},
      {"kind", "Deployment"},
      {"metadata", metadata(spec, spec.name)},
      {"spec", json::object{
                   {"replicas", spec.replicas},
                   {"strategy", json::object{{"type", "RollingUpdate"}, {"rollingUpdate", rolling}}},
                   {"selector", json::object{{"matchLabels", std::move(selector)}}},
                   {"template", json::object{{"metadata", pod_metadata(spec)}, {"spec", build_pod(spec)}}}}}};
}

/// A number, not a name: some versions look for named ports in ordinary containers only.
json::object service(const pod_spec& spec) {
  json::object inner{
      {"selector", own_labels(spec)},
      {"ports", json::array{json::object{
                    {"name", "http"}, {"port", spec.port}, {"targetPort", spec.port}, {"protocol", "TCP"}}}}};
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata", metadata(spec, spec.name)},
          {"spec", std::move(inner)}};
}

json::object claim_template(const pod_spec& spec) {
  return {{"apiVersion", "resource.k8s.io/v1"},
          {"kind", "ResourceClaimTemplate"},
          {"metadata", metadata(spec, claim_template_name(spec))},
          {"spec", claim_of_gpus(spec.gpus)}};
}

/// Pods that do not serve may be evicted all the same: a node that is drained does not wait for them.
json::object disruption_budget(const pod_spec& spec) {
  return {{"apiVersion", "policy/v1"},
          {"kind", "PodDisruptionBudget"},
          {"metadata", metadata(spec, spec.name)},
          {"spec", json::object{{"maxUnavailable", spec.unavailable_max},
                                {"selector", json::object{{"matchLabels", own_labels(spec)}}},
                                {"unhealthyPodEvictionPolicy", "AlwaysAllow"}}}};
}

void append(const json::value& value, std::string& out, std::size_t depth);

void append_line(std::string& out, std::size_t depth) {
  out += '\n';
  out.append(2 * depth, ' ');
}

void append_object(const json::object& object, std::string& out, std::size_t depth) {
  bool first = true;
  for (const auto& [key, value] : object) {
    out += first ? "{" : ",";
    first = false;
    append_line(out, depth + 1);
    out += json::serialize(json::string(key)) + ": ";
    append(value, out, depth + 1);
  }
  append_line(out, depth);
  out += '}';
}

void append(const json::value& value, std::string& out, std::size_t depth) {
  if (value.is_object() && !value.get_object().empty()) {
    append_object(value.get_object(), out, depth);
  } else if (value.is_array() && !value.get_array().empty()) {
    bool first = true;
    for (const auto& item : value.get_array()) {
      out += first ? "[" : ",";
      first = false;
      append_line(out, depth + 1);
      append(item, out, depth + 1);
    }
    append_line(out, depth);
    out += ']';
  } else {
    out += json::serialize(value);
  }
}

}  // namespace

json::object build_manifest(const pod_spec& spec) {
  json::array items;
  if (spec.claims_gpus()) items.push_back(claim_template(spec));
  items.push_back(deployment(spec));
  items.push_back(service(spec));
  items.push_back(disruption_budget(spec));
  return {{"apiVersion", "v1"}, {"kind", "List"}, {"items", std::move(items)}};
}

std::string indented_json(const json::value& value) {
  std::string out;
  append(value, out, 0);
  return out + "\n";
}

}  // namespace orcd::app
