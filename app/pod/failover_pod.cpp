#include "app/pod/failover_pod.hpp"

#include <string>
#include <utility>

#include "app/pod/gpu_claim.hpp"
#include "app/pod/quantity.hpp"

namespace orcd::app {
namespace {

namespace json = boost::json;

constexpr std::string_view shared_volume = "failover-shared";

json::object variable(std::string_view name, std::string_view value) {
  return {{"name", name}, {"value", value}};
}

/// The list at `key`, made where there is none.
json::array& list_at(json::object& object, std::string_view key) {
  auto& value = object[key];
  if (!value.is_array()) value.emplace_array();
  return value.get_array();
}

void mount_shared(json::object& container, std::string_view path) {
  list_at(container, "volumeMounts").push_back(json::object{{"name", shared_volume}, {"mountPath", path}});
}

std::string in(std::string_view folder, std::string_view name) {
  return std::string(folder) + "/" + std::string(name);
}

/// The variables of the failover plan that all engines have alike.
void add_shared_variables(json::array& variables, std::string_view mount_path, bool shares_weights) {
  variables.push_back(variable("GMS_SOCKET_DIR", in(mount_path, holder_folder)));
  variables.push_back(variable("FAILOVER_LOCK_PATH", in(mount_path, "failover.lock")));
  variables.push_back(variable("DYN_SYSTEM_STARTING_HEALTH_STATUS", "notready"));
  variables.push_back(variable("DYN_SYSTEM_ENABLED", "true"));
  if (shares_weights) variables.push_back(variable("WORKER_ORCD_SHARE_WEIGHTS", "auto"));
}

/// What an engine may have, for all that the one container starts. They use the same GPUs.
void allow_for_all_engines(json::object& container) {
  auto* const resources = container.if_contains("resources");
  auto* const limits = resources == nullptr ? nullptr : resources->as_object().if_contains("limits");
  if (limits == nullptr) return;
  for (const auto* const name : {"cpu", "memory"}) {
    auto* const limit = limits->as_object().if_contains(name);
    if (limit != nullptr) *limit = times_quantity(limit->as_string(), engine_count);
  }
}

std::string holder_dir() {
  return in(shared_mount_path, holder_folder);
}

/// The holder's own options. Clients come from outside of the pod.
json::array holder_options(const failover_plan& plan) {
  return {"--failover-dir", holder_dir(), "--host", "0.0.0.0", "--port", std::to_string(plan.port)};
}

json::array holder_check(std::string_view kind) {
  return {"worker-orcd-holder", "--failover-dir", holder_dir(), "--check", kind};
}

json::object exec_handler(json::array command) {
  return {{"exec", json::object{{"command", std::move(command)}}}};
}

json::array serving_port(std::uint32_t port) {
  return {json::object{{"name", "http"}, {"containerPort", port}, {"protocol", "TCP"}}};
}

/// The one container of a pod without DRA: what the worker is started with follows the holder's own options.
json::object build_single_container(const json::object& main_container, const failover_plan& plan) {
  json::object out = main_container;
  out["name"] = "engines";
  out["command"] = json::array{"worker-orcd-holder"};
  json::array args = holder_options(plan);
  for (const auto& word : {std::string("--run"), std::to_string(engine_count), std::string("--")}) {
    args.push_back(json::string(word));
  }
  if (const auto* given = main_container.if_contains("args"); given != nullptr) {
    for (const auto& arg : given->as_array()) args.push_back(arg);
  }
  out["args"] = std::move(args);
  json::array ports = serving_port(plan.port);
  for (std::uint32_t id = 0; id < engine_count; ++id) {
    ports.push_back(json::object{{"name", "system-" + std::to_string(id)},
                                 {"containerPort", system_port_base + id},
                                 {"protocol", "TCP"}});
  }
  out["ports"] = std::move(ports);
  add_shared_variables(list_at(out, "env"), shared_mount_path, plan.shares_weights);
  allow_for_all_engines(out);
  mount_shared(out, shared_mount_path);
  out["startupProbe"] = probe_of(exec_handler(holder_check("ready")), plan.probes.startup);
  out["livenessProbe"] = probe_of(exec_handler(holder_check("startup")), plan.probes.liveness);
  out["readinessProbe"] = probe_of(exec_handler(holder_check("ready")), plan.probes.readiness);
  return out;
}

}  // namespace

json::object http_handler(std::string_view path, std::string_view port) {
  return {{"httpGet", json::object{{"path", path}, {"port", port}}}};
}

json::object probe_of(json::object handler, const probe_times& times) {
  handler["periodSeconds"] = times.period;
  handler["timeoutSeconds"] = times.timeout;
  handler["failureThreshold"] = times.failures;
  return handler;
}

json::array holder_ready_check(std::string_view socket_dir) {
  return {"test", "-S", in(socket_dir, "connections.sock")};
}

json::object build_holder_sidecar(const json::object& main_container, const failover_plan& plan) {
  json::object out{{"name", "holder"},
                   {"image", main_container.at("image")},
                   {"restartPolicy", "Always"},
                   {"command", json::array{"worker-orcd-holder"}},
                   {"args", holder_options(plan)},
                   {"ports", serving_port(plan.port)}};
  if (const auto* context = main_container.if_contains("securityContext"); context != nullptr) {
    out["securityContext"] = *context;
  }
  mount_shared(out, shared_mount_path);
  const bool asks_holder = plan.probes.readiness_asks == readiness_of::holder;
  auto started = asks_holder ? holder_check("startup") : holder_ready_check(holder_dir());
  out["startupProbe"] = probe_of(exec_handler(std::move(started)), plan.probes.holder_startup);
  if (asks_holder) {
    out["readinessProbe"] = probe_of(exec_handler(holder_check("ready")), plan.probes.readiness);
  }
  use_claimed_gpu(out);
  return out;
}

json::object build_engine_container(const json::object& base, std::uint32_t engine_id,
                                    std::string_view mount_path, const failover_plan& plan) {
  const auto& probes = plan.probes;
  json::object out = base;
  const std::string id = std::to_string(engine_id);
  const std::string port_name = "system-" + id;
  const std::uint32_t port = system_port_base + engine_id;
  out["name"] = "engine-" + id;
  out["ports"] = json::array{json::object{{"name", port_name}, {"containerPort", port}, {"protocol", "TCP"}}};
  auto& variables = list_at(out, "env");
  variables.push_back(variable("ENGINE_ID", id));
  add_shared_variables(variables, mount_path, plan.shares_weights);
  variables.push_back(variable("DYN_SYSTEM_PORT", std::to_string(port)));
  variables.push_back(variable("WORKER_ORCD_FAILOVER_DIR", in(mount_path, holder_folder)));
  mount_shared(out, mount_path);
  out["startupProbe"] = probe_of(http_handler("/live", port_name), probes.startup);
  auto alive = probe_of(http_handler("/live", port_name), probes.liveness);
  out.erase("readinessProbe");
  if (probes.readiness_asks == readiness_of::holder) {
    // An engine that does not move cannot drain, and keeps the lock from the other one until it is gone.
    alive["terminationGracePeriodSeconds"] = 1;
  } else {
    out["readinessProbe"] = probe_of(http_handler("/health", port_name), probes.readiness);
  }
  out["livenessProbe"] = std::move(alive);
  use_claimed_gpu(out);
  return out;
}

json::object build_failover_pod(const json::object& base_pod, const json::object& main_container,
                                const failover_plan& plan) {
  json::object out = base_pod;
  json::array containers;
  if (plan.dra) {
    list_at(out, "initContainers").push_back(build_holder_sidecar(main_container, plan));
    for (std::uint32_t id = 0; id < engine_count; ++id) {
      containers.push_back(build_engine_container(main_container, id, shared_mount_path, plan));
    }
    // A process of another namespace of them cannot be ended by the holder when it hangs.
    out["shareProcessNamespace"] = true;
    claim_gpus(out, plan.claim_template);
  } else {
    containers.push_back(build_single_container(main_container, plan));
  }
  out["containers"] = std::move(containers);
  list_at(out, "volumes").push_back(json::object{{"name", shared_volume}, {"emptyDir", json::object{}}});
  return out;
}

}  // namespace orcd::app
