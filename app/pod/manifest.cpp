#include "app/pod/manifest.hpp"

#include <utility>

#include "app/pod/failover_pod.hpp"

namespace orcd::app {
namespace {

namespace json = boost::json;

/// Seconds in which routers take note that a pod ends, before it refuses new requests; those in which streams
/// end and the memory is given back; and some for a busy node.
constexpr std::uint32_t notice_seconds = 5;
constexpr std::uint32_t end_seconds = 10;
/// Any account but root; the image needs no entry for it.
constexpr std::uint32_t user_id = 10'001;

std::string template_name(const pod_spec& spec) {
  return spec.name + "-gpu";
}

json::object labels(const pod_spec& spec) {
  return {{"app.kubernetes.io/name", "worker-orcd"}, {"app.kubernetes.io/instance", spec.name}};
}

json::object metadata(const pod_spec& spec, const std::string& name) {
  return {{"name", name}, {"labels", labels(spec)}};
}

json::object pod_metadata(const pod_spec& spec) {
  json::object out = labels(spec);
  out["app.kubernetes.io/component"] = spec.component_type;
  out["inference.networking.k8s.io/engine-type"] = "worker-orcd";
  // What the admission policy of etc/kubernetes judges.
  out["worker-orcd/failover"] = spec.failover ? "enabled" : "disabled";
  return {{"labels", std::move(out)}};
}

json::object limits(const pod_spec& spec) {
  json::object out;
  if (spec.gpus > 0) out["nvidia.com/gpu"] = std::to_string(spec.gpus);
  if (!spec.cpu.empty()) out["cpu"] = spec.cpu;
  if (!spec.memory.empty()) out["memory"] = spec.memory;
  return out;
}

json::array environment(const pod_spec& spec) {
  json::array out;
  bool has_host = false;
  for (const auto& [name, value] : spec.environment) {
    out.push_back(json::object{{"name", name}, {"value", value}});
    has_host = has_host || name == "WORKER_ORCD_HOST";
  }
  // Probes and clients come from outside of the pod.
  if (!has_host) out.push_back(json::object{{"name", "WORKER_ORCD_HOST"}, {"value", "0.0.0.0"}});
  out.push_back(json::object{{"name", "WORKER_ORCD_PORT"}, {"value", std::to_string(spec.port)}});
  out.push_back(
      json::object{{"name", "WORKER_ORCD_DRAIN_TIMEOUT"}, {"value", std::to_string(spec.drain_timeout)}});
  return out;
}

json::array texts(const std::vector<std::string>& list) {
  return json::array(list.begin(), list.end());
}

json::object main_container(const pod_spec& spec) {
  json::object out{{"name", "worker"}, {"image", spec.image}, {"command", texts(spec.command)}};
  if (!spec.args.empty()) out["args"] = texts(spec.args);
  if (!spec.working_dir.empty()) out["workingDir"] = spec.working_dir;
  out["env"] = environment(spec);
  out["ports"] =
      json::array{json::object{{"name", "http"}, {"containerPort", spec.port}, {"protocol", "TCP"}}};
  if (auto given = limits(spec); !given.empty())
    out["resources"] = json::object{{"limits", std::move(given)}};
  out["securityContext"] = json::object{{"allowPrivilegeEscalation", false},
                                        {"capabilities", json::object{{"drop", json::array{"ALL"}}}}};
  if (spec.model) {
    out["volumeMounts"] = json::array{
        json::object{{"name", "model"}, {"mountPath", spec.model->mount_path}, {"readOnly", true}}};
  }
  out["lifecycle"] =
      json::object{{"preStop", json::object{{"sleep", json::object{{"seconds", notice_seconds}}}}}};
  out["startupProbe"] = probe_of(http_handler("/live", "http"), spec.probes.startup);
  out["livenessProbe"] = probe_of(http_handler("/live", "http"), spec.probes.liveness);
  out["readinessProbe"] = probe_of(http_handler("/ready", "http"), spec.probes.readiness);
  return out;
}

json::object base_pod(const pod_spec& spec, const json::object& container) {
  json::object out{
      {"terminationGracePeriodSeconds", notice_seconds + spec.drain_timeout + end_seconds},
      {"securityContext", json::object{{"runAsNonRoot", true},
                                       {"runAsUser", user_id},
                                       {"runAsGroup", user_id},
                                       {"fsGroup", user_id},
                                       {"seccompProfile", json::object{{"type", "RuntimeDefault"}}}}},
      {"containers", json::array{container}}};
  if (spec.model) {
    json::object volume{{"name", "model"}};
    if (spec.model->claim.empty()) {
      volume["hostPath"] = json::object{{"path", spec.model->host_path}, {"type", "Directory"}};
    } else {
      volume["persistentVolumeClaim"] = json::object{{"claimName", spec.model->claim}, {"readOnly", true}};
    }
    out["volumes"] = json::array{std::move(volume)};
  }
  return out;
}

json::object pod(const pod_spec& spec) {
  const auto container = main_container(spec);
  auto out = base_pod(spec, container);
  if (!spec.failover) return out;
  const std::string claim_template = template_name(spec);
  return build_failover_pod(out, container, {spec.port, spec.dra, claim_template, spec.probes});
}

/// New pods come when old ones have given their GPUs back.
json::object deployment(const pod_spec& spec) {
  const json::object rolling{{"maxSurge", 0}, {"maxUnavailable", 1}};
  json::object selector = labels(spec);
  return {{"apiVersion", "apps/v1"},
          {"kind", "Deployment"},
          {"metadata", metadata(spec, spec.name)},
          {"spec",
           json::object{{"replicas", spec.replicas},
                        {"strategy", json::object{{"type", "RollingUpdate"}, {"rollingUpdate", rolling}}},
                        {"selector", json::object{{"matchLabels", std::move(selector)}}},
                        {"template", json::object{{"metadata", pod_metadata(spec)}, {"spec", pod(spec)}}}}}};
}

/// A number, not a name: some versions look for named ports in ordinary containers only.
json::object service(const pod_spec& spec) {
  json::object inner{
      {"selector", labels(spec)},
      {"ports", json::array{json::object{
                    {"name", "http"}, {"port", spec.port}, {"targetPort", spec.port}, {"protocol", "TCP"}}}}};
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata", metadata(spec, spec.name)},
          {"spec", std::move(inner)}};
}

json::object claim_template(const pod_spec& spec) {
  json::object request{{"name", "gpu"},
                       {"exactly", json::object{{"deviceClassName", "gpu.nvidia.com"},
                                                {"allocationMode", "ExactCount"},
                                                {"count", spec.gpus}}}};
  json::object devices{{"requests", json::array{std::move(request)}}};
  return {{"apiVersion", "resource.k8s.io/v1"},
          {"kind", "ResourceClaimTemplate"},
          {"metadata", metadata(spec, template_name(spec))},
          {"spec", json::object{{"spec", json::object{{"devices", std::move(devices)}}}}}};
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
  if (spec.failover && spec.dra) items.push_back(claim_template(spec));
  items.push_back(deployment(spec));
  items.push_back(service(spec));
  return {{"apiVersion", "v1"}, {"kind", "List"}, {"items", std::move(items)}};
}

std::string indented_json(const json::value& value) {
  std::string out;
  append(value, out, 0);
  return out + "\n";
}

}  // namespace orcd::app
