// What worker-orcd-pod is asked for: one service of a cluster, as its SPEC file says it. Times are seconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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

/// Where a variable has its value from instead of the SPEC.
struct value_source {
  enum class kind { secret, config_map, field };
  kind of = kind::secret;
  std::string object;     ///< name of the Secret or the ConfigMap
  std::string key;        ///< in it; or the path of the pod's field
  bool optional = false;  ///< a pod starts without it
};

struct environment_entry {
  std::string name;
  std::string value;
  std::optional<value_source> from{};
};

/// Where the model file comes from; mounted for reading only.
struct model_volume {
  std::string claim;      ///< name of a PersistentVolumeClaim; empty: host_path
  std::string host_path;  ///< folder of the node
  std::string mount_path = "/models";
};

/// A key of a Secret that is mounted as a file.
struct secret_file {
  std::string secret;
  std::string key;
};

/// Names are those of the API; what is empty is not written.
struct toleration {
  std::string key;
  std::string operation;
  std::string value;
  std::string effect;
  std::optional<std::uint32_t> seconds{};
};

/// In the order of the file; keys are there once.
using text_pairs = std::vector<std::pair<std::string, std::string>>;

/// Whether the engines of a pod have one copy of the weights.
enum class weights_of { shared, own };

struct pod_spec {
  std::string name;
  std::string name_space;  ///< empty: that of whoever applies it
  text_pairs labels;       ///< of all objects and of the pods, beside the generator's own
  std::string component_type = "worker";
  std::uint32_t replicas = 1;
  bool failover = false;
  std::optional<weights_of> weights;   ///< nullopt: shared, where there is failover
  std::optional<std::uint32_t> nodes;  ///< multinode.nodeCount, where multinode is given
  std::uint32_t gpus = 0;
  std::string cpu;     ///< of each engine, a quantity of Kubernetes; empty: no limit
  std::string memory;  ///< likewise
  std::string image;
  std::vector<std::string> pull_secrets;
  std::vector<std::string> command{"worker-orcd"};
  std::vector<std::string> args;
  std::string working_dir;
  std::vector<environment_entry> environment;
  std::optional<bool> dra;  ///< nullopt: as `failover`
  std::optional<model_volume> model;
  std::optional<secret_file> api_keys;
  std::uint32_t port = 8'080;
  std::uint32_t drain_timeout = 25;
  probe_plan probes;
  text_pairs node_selector;
  std::vector<toleration> tolerations;
  std::uint32_t unavailable_max = 1;  ///< pods that may be evicted at a time

  /// GPUs are claimed (resource.k8s.io/v1); else they are a resource of the device plugin.
  [[nodiscard]] bool claims_gpus() const noexcept { return dra.value_or(failover); }
  [[nodiscard]] bool shares_weights() const noexcept {
    return failover && weights.value_or(weights_of::shared) == weights_of::shared;
  }
  /// Whether args give an option (`--name`, with or without its value), or env a variable.
  [[nodiscard]] bool has_option(std::string_view option) const;
  [[nodiscard]] bool has_variable(std::string_view variable) const;
};

/// An option without its value, of a word of `args`.
[[nodiscard]] constexpr std::string_view option_of(std::string_view word) noexcept {
  return word.substr(0, word.find('='));
}

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
