// The pod of two engines and their holder, made from the pod of one worker. Values in, values out; the
// objects are those of the Kubernetes API.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <string_view>

#include "app/pod/pod_spec.hpp"

namespace orcd::app {

/// Where the engines' folder is mounted, the number of engines, and the system port of the first one.
constexpr std::string_view shared_mount_path = "/shared";
/// Folder of the holder's socket, below that one: an emptyDir belongs to root and is open to everybody, and
/// the holder wants one of its own.
constexpr std::string_view holder_folder = "holder";
constexpr std::uint32_t engine_count = 2;
constexpr std::uint32_t system_port_base = 9'090;

/// What the generator needs beside the container that it transforms.
struct failover_plan {
  std::uint32_t port = 8'080;  ///< of the serving socket, which the holder has
  bool dra = true;
  std::string_view claim_template;  ///< name of the ResourceClaimTemplate, with `dra`
  probe_plan probes;
  bool shares_weights = true;  ///< the engines have one copy of the weights, by the holder
};

/// The pod with one container, `base_pod`'s only one being `main_container`, as a pod that fails over: two
/// engine containers and the holder as a restartable init container, a shared folder, one claim of the GPUs.
/// Without DRA, where two containers cannot have the same GPU, one container whose holder runs the engines.
[[nodiscard]] boost::json::object build_failover_pod(const boost::json::object& base_pod,
                                                     const boost::json::object& main_container,
                                                     const failover_plan& plan);

/// The holder as a restartable init container: it is there before the engines and outlives each of them.
[[nodiscard]] boost::json::object build_holder_sidecar(const boost::json::object& main_container,
                                                       const failover_plan& plan);

/// The container of engine `engine_id`: a clone that differs in name, ENGINE_ID and system port only.
[[nodiscard]] boost::json::object build_engine_container(const boost::json::object& base,
                                                         std::uint32_t engine_id, std::string_view mount_path,
                                                         const failover_plan& plan);

/// A command that succeeds when the holder's socket is there.
[[nodiscard]] boost::json::array holder_ready_check(std::string_view socket_dir);

/// A probe of the Kubernetes API: `handler` says how it asks.
[[nodiscard]] boost::json::object probe_of(boost::json::object handler, const probe_times& times);
[[nodiscard]] boost::json::object http_handler(std::string_view path, std::string_view port);

}  // namespace orcd::app
