#include <algorithm>
#include <array>

#include "app/pod/failover_pod.hpp"
#include "app/pod/pod_spec.hpp"
#include "app/pod/worker_pod.hpp"

namespace orcd::app {
namespace {

using text_view = std::string_view;

/// Options that the generator says itself, for each engine another value or for all the same one.
constexpr std::array<text_view, 10> own_options{"--failover-dir", "--failover-lock-path", "--engine-id",
                                                "--system-port",  "--system-enabled",     "--port",
                                                "--host",         "--starting-health",    "--drain-timeout",
                                                "--weights-dir"};

constexpr std::array<text_view, 11> own_variables{"ENGINE_ID",
                                                  "GMS_SOCKET_DIR",
                                                  "FAILOVER_LOCK_PATH",
                                                  "DYN_SYSTEM_STARTING_HEALTH_STATUS",
                                                  "DYN_SYSTEM_ENABLED",
                                                  "DYN_SYSTEM_PORT",
                                                  "WORKER_ORCD_PORT",
                                                  "WORKER_ORCD_DRAIN_TIMEOUT",
                                                  "WORKER_ORCD_FAILOVER_DIR",
                                                  "WORKER_ORCD_WEIGHTS_DIR",
                                                  "WORKER_ORCD_SHARE_WEIGHTS"};

constexpr std::array<text_view, 5> reserved_labels{
    "app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component",
    "inference.networking.k8s.io/engine-type", "worker-orcd/failover"};

template <class List>
bool has(const List& list, text_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

void check_failover(const pod_spec& spec, std::vector<std::string>& problems) {
  if (spec.component_type != "worker")
    problems.emplace_back("failover is only valid on componentType worker");
  if (spec.nodes) problems.emplace_back("failover is not supported with multinode deployments");
  if (spec.gpus < 1) problems.emplace_back("failover requires resources.limits.gpu >= 1");
  if (!spec.claims_gpus() && spec.command != pod_spec{}.command) {
    problems.emplace_back(
        "command: cannot be given with failover and dra: false, where worker-orcd-holder starts the engines");
  }
  if (spec.port == system_port_base || spec.port == system_port_base + 1) {
    problems.emplace_back("port: 9090 and 9091 are the system ports of the engines");
  }
}

void check_alone(const pod_spec& spec, std::vector<std::string>& problems) {
  if (spec.component_type != "worker") {
    problems.emplace_back("componentType: only pods of workers are generated");
  } else if (spec.nodes) {
    problems.emplace_back("multinode: a worker is one process on one node");
  }
  if (spec.weights) problems.emplace_back("weights: only engines of a pod that fails over can share them");
  if (spec.claims_gpus() && spec.gpus < 1) {
    problems.emplace_back("dra: there is nothing to claim without resources.limits.gpu >= 1");
  }
}

void check_weights(const pod_spec& spec, std::vector<std::string>& problems) {
  if (spec.weights == weights_of::own && spec.has_option("--share-weights")) {
    problems.emplace_back("weights: is own, and args say --share-weights");
  }
}

/// What another program is told is its own business.
void check_model(const pod_spec& spec, std::vector<std::string>& problems) {
  if (spec.command != pod_spec{}.command) return;
  const bool named = spec.has_option("--model") || spec.has_option("--config") ||
                     spec.has_variable("WORKER_ORCD_MODEL") || spec.has_variable("WORKER_ORCD_CONFIG");
  if (!named) problems.emplace_back("args: no --model says what is served");
}

/// Whether one of two folders is the other or is in it.
bool overlap(text_view a, text_view b) {
  const auto is_in = [](text_view inner, text_view outer) {
    return inner.substr(0, outer.size()) == outer &&
           (inner.size() == outer.size() || inner[outer.size()] == '/');
  };
  return is_in(a, b) || is_in(b, a);
}

void check_mounts(const pod_spec& spec, std::vector<std::string>& problems) {
  if (!spec.model) return;
  text_view path = spec.model->mount_path;
  while (!path.empty() && path.back() == '/') path.remove_suffix(1);
  const bool taken = path.empty() || overlap(path, temporary_folder) ||
                     (spec.failover && overlap(path, shared_mount_path)) ||
                     (spec.api_keys && overlap(path, api_keys_folder));
  if (taken) problems.emplace_back("model.mountPath: something else of the pod is mounted there");
}

void check_options(const pod_spec& spec, std::vector<std::string>& problems) {
  for (std::size_t i = 0; i < spec.args.size(); ++i) {
    const auto name = option_of(spec.args[i]);
    if (has(own_options, name) || (spec.api_keys && name == "--api-key-file")) {
      problems.push_back("args[" + std::to_string(i) + "]: " + std::string(name) +
                         " is set by the generator");
    }
  }
  for (std::size_t i = 0; i < spec.environment.size(); ++i) {
    const auto& name = spec.environment[i].name;
    const auto at = "env[" + std::to_string(i) + "].name: ";
    if (has(own_variables, name) || (spec.api_keys && name == "WORKER_ORCD_API_KEY_FILE")) {
      problems.push_back(at + name + " is set by the generator");
    }
    const auto same = [&](const environment_entry& e) { return e.name == name; };
    const auto before = spec.environment.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find_if(spec.environment.begin(), before, same) != before) {
      problems.push_back(at + name + " is given twice");
    }
  }
  for (const auto& [key, value] : spec.labels) {
    if (has(reserved_labels, key)) problems.push_back("labels." + key + ": is set by the generator");
  }
}

}  // namespace

std::vector<std::string> validate_pod_spec(const pod_spec& spec) {
  std::vector<std::string> problems;
  if (spec.failover) {
    check_failover(spec, problems);
  } else {
    check_alone(spec, problems);
  }
  check_weights(spec, problems);
  check_model(spec, problems);
  check_mounts(spec, problems);
  check_options(spec, problems);
  if (problems.size() > problems_max) problems.resize(problems_max);
  return problems;
}

}  // namespace orcd::app
