#include <algorithm>
#include <array>

#include "app/pod/pod_spec.hpp"

namespace orcd::app {
namespace {

using text_view = std::string_view;

/// Options that the generator says itself, for each engine another value or for all the same one.
constexpr std::array<text_view, 9> own_options{"--failover-dir",    "--failover-lock-path", "--engine-id",
                                               "--system-port",     "--system-enabled",     "--port",
                                               "--starting-health", "--drain-timeout",      "--host"};

constexpr std::array<text_view, 9> own_variables{"ENGINE_ID",
                                                 "GMS_SOCKET_DIR",
                                                 "FAILOVER_LOCK_PATH",
                                                 "DYN_SYSTEM_STARTING_HEALTH_STATUS",
                                                 "DYN_SYSTEM_ENABLED",
                                                 "DYN_SYSTEM_PORT",
                                                 "WORKER_ORCD_PORT",
                                                 "WORKER_ORCD_DRAIN_TIMEOUT",
                                                 "WORKER_ORCD_FAILOVER_DIR"};

void check_failover(const pod_spec& spec, std::vector<std::string>& problems) {
  if (spec.component_type != "worker")
    problems.emplace_back("failover is only valid on componentType worker");
  if (spec.nodes) problems.emplace_back("failover is not supported with multinode deployments");
  if (spec.gpus < 1) problems.emplace_back("failover requires resources.limits.gpu >= 1");
  if (!spec.dra && spec.command != pod_spec{}.command) {
    problems.emplace_back(
        "command: cannot be given with failover and dra: false, where worker-orcd-holder starts the engines");
  }
}

void check_options(const pod_spec& spec, std::vector<std::string>& problems) {
  for (std::size_t i = 0; i < spec.args.size(); ++i) {
    const auto name = text_view(spec.args[i]).substr(0, spec.args[i].find('='));
    if (std::find(own_options.begin(), own_options.end(), name) != own_options.end()) {
      problems.push_back("args[" + std::to_string(i) + "]: " + std::string(name) +
                         " is set by the generator");
    }
  }
  for (std::size_t i = 0; i < spec.environment.size(); ++i) {
    const auto& name = spec.environment[i].name;
    const auto at = "env[" + std::to_string(i) + "].name: ";
    if (std::find(own_variables.begin(), own_variables.end(), name) != own_variables.end()) {
      problems.push_back(at + name + " is set by the generator");
    }
    const auto same = [&](const environment_entry& e) { return e.name == name; };
    const auto before = spec.environment.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find_if(spec.environment.begin(), before, same) != before) {
      problems.push_back(at + name + " is given twice");
    }
  }
}

}  // namespace

std::vector<std::string> validate_pod_spec(const pod_spec& spec) {
  std::vector<std::string> problems;
  if (spec.failover) {
    check_failover(spec, problems);
  } else if (spec.component_type != "worker") {
    problems.emplace_back("componentType: only pods of workers are generated");
  } else if (spec.nodes) {
    problems.emplace_back("multinode: a worker is one process on one node");
  }
  check_options(spec, problems);
  constexpr std::uint32_t first_system_port = 9'090;
  if (spec.failover && (spec.port == first_system_port || spec.port == first_system_port + 1)) {
    problems.emplace_back("port: 9090 and 9091 are the system ports of the engines");
  }
  if (problems.size() > problems_max) problems.resize(problems_max);
  return problems;
}

}  // namespace orcd::app
