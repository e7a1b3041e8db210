// What worker-orcd-pod is asked for: one service of a cluster, as its SPEC file says it. Times are seconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orcd::app {

/// When a probe asks and how many failures in a row count.
struct probe_times {
  std::uint32_t period = 0;
  std::uint32_t timeout = 0;
  std::uint32_t failures = 0;
};

/// `plan` asks the container as the failover plan has it: readiness of both engines, and sockets that exist.
/// `holder` asks the holder whether somebody serves.
enum class readiness_of { holder, plan };

struct probe_plan {
  readiness_of readiness_asks = readiness_of::holder;
  probe_times startup{2, 5, 3'600};
  probe_times liveness{5, 4, 3};
  probe_times readiness{5, 4, 2};
  probe_times holder_startup{2, 5, 150};
};

/// The values of the failover plan, `probes: seed` in a SPEC.
[[nodiscard]] constexpr probe_plan planned_probes() noexcept {
  return {readiness_of::plan, {10, 5, 720}, {5, 4, 1}, {10, 4, 3}, {2, 1, 150}};
}

struct environment_entry {
  std::string name;
  std::string value;
};

/// Where the model file comes from; mounted for reading only.
struct model_volume {
  std::string claim;      ///< name of a PersistentVolumeClaim; empty: host_path
  std::string host_path;  ///< folder of the node
  std::string mount_path = "/models";
};

struct pod_spec {
  std::string name;
  std::string component_type = "worker";
  std::uint32_t replicas = 1;
  bool failover = false;
  std::optional<std::uint32_t> nodes;  ///< multinode.nodeCount, where multinode is given
  std::uint32_t gpus = 0;
  std::string cpu;     ///< a quantity of Kubernetes; empty: no limit
  std::string memory;  ///< likewise
  std::string image;
  std::vector<std::string> command{"worker-orcd"};
  std::vector<std::string> args;
  std::string working_dir;
  std::vector<environment_entry> environment;
  bool dra = true;  ///< GPUs are claimed (resource.k8s.io/v1); else they are a resource of the device plugin
  std::optional<model_volume> model;
  std::uint32_t port = 8'080;
  std::uint32_t drain_timeout = 25;
  probe_plan probes;
};

/// What became of a text: the specification, or what is wrong with it, a sentence each that names the field.
struct read_pod_result {
  pod_spec spec;
  std::vector<std::string> problems;
};

/// Longest text that is read, and the most problems that are told.
constexpr std::size_t spec_bytes_max = 64U * 1024U;
constexpr std::size_t problems_max = 20;

/// Reads a SPEC in YAML: names, types and lengths of all fields, not whether they fit together. Never throws
/// for what the text says. Any thread.
[[nodiscard]] read_pod_result read_pod_spec(std::string_view yaml);

/// What keeps a specification that could be read from becoming a pod; empty where nothing does. Pure.
[[nodiscard]] std::vector<std::string> validate_pod_spec(const pod_spec& spec);

}  // namespace orcd::app
