#include "app/pod/worker_pod.hpp"

#include <utility>

#include "app/pod/failover_pod.hpp"
#include "app/pod/gpu_claim.hpp"

namespace orcd::app {
namespace {

namespace json = boost::json;

/// Seconds in which routers take note that a pod ends, before it refuses new requests; those in which streams
/// end and the memory is given back; and some for a busy node.
constexpr std::uint32_t notice_seconds = 5;
constexpr std::uint32_t end_seconds = 10;
/// Any account but root; the image needs no entry for it.
constexpr std::uint32_t user_id = 10'001;
constexpr std::string_view api_keys_file = "keys";
/// The variable that has the pod's own name space, where the SPEC does not say it.
constexpr std::string_view pod_namespace = "ORCD_POD_NAMESPACE";
/// For the owner, root, and for the pod's group, which the worker is in.
constexpr std::uint32_t secret_mode = 0440;

json::object limits(const pod_spec& spec) {
  json::object out;
  if (spec.gpus > 0) out[device_plugin_gpu] = std::to_string(spec.gpus);
  if (!spec.cpu.empty()) out["cpu"] = spec.cpu;
  if (!spec.memory.empty()) out["memory"] = spec.memory;
  return out;
}

json::object source_of(const value_source& from) {
  if (from.of == value_source::kind::field) {
    return {{"fieldRef", json::object{{"fieldPath", from.key}}}};
  }
  json::object key{{"name", from.object}, {"key", from.key}};
  if (from.optional) key["optional"] = true;
  const bool secret = from.of == value_source::kind::secret;
  return {{secret ? "secretKeyRef" : "configMapKeyRef", std::move(key)}};
}

/// The names that a cluster has for the Service, of which a worker without API keys serves no others.
std::string names_of_service(const pod_spec& spec) {
  const std::string space =
      spec.name_space.empty() ? "$(" + std::string(pod_namespace) + ")" : spec.name_space;
  const std::string in_space = spec.name + "." + space;
  return spec.name + "," + in_space + "," + in_space + ".svc," + in_space + ".svc.cluster.local";
}

void add_names(const pod_spec& spec, json::array& out) {
  const bool has_keys = spec.api_keys || spec.has_option("--api-key-file");
  if (has_keys || spec.has_option("--allow-host") || spec.has_variable("WORKER_ORCD_ALLOW_HOST")) return;
  if (spec.name_space.empty()) {
    out.push_back(json::object{
        {"name", pod_namespace},
        {"valueFrom", json::object{{"fieldRef", json::object{{"fieldPath", "metadata.namespace"}}}}}});
  }
  out.push_back(json::object{{"name", "WORKER_ORCD_ALLOW_HOST"}, {"value", names_of_service(spec)}});
}

json::array environment(const pod_spec& spec) {
  json::array out;
  const auto add = [&out](std::string_view name, const std::string& value) {
    out.push_back(json::object{{"name", name}, {"value", value}});
  };
  for (const auto& one : spec.environment) {
    if (one.from) {
      out.push_back(json::object{{"name", one.name}, {"valueFrom", source_of(*one.from)}});
    } else {
      add(one.name, one.value);
    }
  }
  // Probes and clients come from outside of the pod.
  if (!spec.has_variable("WORKER_ORCD_HOST")) add("WORKER_ORCD_HOST", "0.0.0.0");
  add_names(spec, out);
  add("WORKER_ORCD_PORT", std::to_string(spec.port));
  add("WORKER_ORCD_DRAIN_TIMEOUT", std::to_string(spec.drain_timeout));
  if (spec.api_keys) {
    add("WORKER_ORCD_API_KEY_FILE", std::string(api_keys_folder) + "/" + std::string(api_keys_file));
  }
  return out;
}

json::array texts(const std::vector<std::string>& list) {
  return json::array(list.begin(), list.end());
}

json::object mount(std::string_view volume, std::string_view path, bool read_only) {
  json::object out{{"name", volume}, {"mountPath", path}};
  if (read_only) out["readOnly"] = true;
  return out;
}

json::array mounts(const pod_spec& spec) {
  json::array out;
  if (spec.model) out.push_back(mount("model", spec.model->mount_path, true));
  if (spec.api_keys) out.push_back(mount("api-keys", api_keys_folder, true));
  out.push_back(mount("tmp", temporary_folder, false));
  return out;
}

json::array volumes(const pod_spec& spec) {
  json::array out;
  if (spec.model && spec.model->claim.empty()) {
    out.push_back(
        json::object{{"name", "model"},
                     {"hostPath", json::object{{"path", spec.model->host_path}, {"type", "Directory"}}}});
  } else if (spec.model) {
    out.push_back(json::object{
        {"name", "model"},
        {"persistentVolumeClaim", json::object{{"claimName", spec.model->claim}, {"readOnly", true}}}});
  }
  if (spec.api_keys) {
    json::array items{json::object{{"key", spec.api_keys->key}, {"path", api_keys_file}}};
    out.push_back(json::object{{"name", "api-keys"},
                               {"secret", json::object{{"secretName", spec.api_keys->secret},
                                                       {"defaultMode", secret_mode},
                                                       {"items", std::move(items)}}}});
  }
  out.push_back(json::object{{"name", "tmp"}, {"emptyDir", json::object{}}});
  return out;
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
                                        {"readOnlyRootFilesystem", true},
                                        {"capabilities", json::object{{"drop", json::array{"ALL"}}}}};
  out["volumeMounts"] = mounts(spec);
  out["lifecycle"] =
      json::object{{"preStop", json::object{{"sleep", json::object{{"seconds", notice_seconds}}}}}};
  out["startupProbe"] = probe_of(http_handler("/live", "http"), spec.probes.startup);
  out["livenessProbe"] = probe_of(http_handler("/live", "http"), spec.probes.liveness);
  out["readinessProbe"] = probe_of(http_handler("/ready", "http"), spec.probes.readiness);
  return out;
}

json::object toleration_object(const toleration& one) {
  json::object out;
  const auto add = [&out](const char* name, const std::string& text) {
    if (!text.empty()) out[name] = text;
  };
  add("key", one.key);
  add("operator", one.operation);
  add("value", one.value);
  add("effect", one.effect);
  if (one.seconds) out["tolerationSeconds"] = *one.seconds;
  return out;
}

void add_placement(json::object& pod, const pod_spec& spec) {
  if (!spec.pull_secrets.empty()) {
    json::array names;
    for (const auto& name : spec.pull_secrets) names.push_back(json::object{{"name", name}});
    pod["imagePullSecrets"] = std::move(names);
  }
  if (!spec.node_selector.empty()) {
    json::object labels;
    for (const auto& [key, value] : spec.node_selector) labels[key] = value;
    pod["nodeSelector"] = std::move(labels);
  }
  if (!spec.tolerations.empty()) {
    json::array all;
    for (const auto& one : spec.tolerations) all.push_back(toleration_object(one));
    pod["tolerations"] = std::move(all);
  }
}

json::object base_pod(const pod_spec& spec, const json::object& container) {
  json::object out{
      {"terminationGracePeriodSeconds", notice_seconds + spec.drain_timeout + end_seconds},
      {"automountServiceAccountToken", false},
      {"securityContext", json::object{{"runAsNonRoot", true},
                                       {"runAsUser", user_id},
                                       {"runAsGroup", user_id},
                                       {"fsGroup", user_id},
                                       {"seccompProfile", json::object{{"type", "RuntimeDefault"}}}}},
      {"containers", json::array{container}},
      {"volumes", volumes(spec)}};
  add_placement(out, spec);
  return out;
}

}  // namespace

std::string claim_template_name(const pod_spec& spec) {
  return spec.name + "-gpu";
}

json::object build_pod(const pod_spec& spec) {
  auto container = main_container(spec);
  const std::string claim_template = claim_template_name(spec);
  if (spec.failover) {
    return build_failover_pod(
        base_pod(spec, container), container,
        {spec.port, spec.claims_gpus(), claim_template, spec.probes, spec.shares_weights()});
  }
  if (spec.claims_gpus()) use_claimed_gpu(container);
  auto out = base_pod(spec, container);
  if (spec.claims_gpus()) claim_gpus(out, claim_template);
  return out;
}

}  // namespace orcd::app
