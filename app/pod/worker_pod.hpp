// The pod of a specification: what it runs, as whom, and what of the cluster it has.
#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>

#include "app/pod/pod_spec.hpp"

namespace orcd::app {

/// Where the file of API keys is mounted, in a folder of its own, and where programs may write.
constexpr std::string_view api_keys_folder = "/run/secrets/worker-orcd";
constexpr std::string_view temporary_folder = "/tmp";

/// The ResourceClaimTemplate of a specification that claims GPUs.
[[nodiscard]] std::string claim_template_name(const pod_spec& spec);

/// A PodSpec of the Kubernetes API, of one worker or of engines that fail over.
[[nodiscard]] boost::json::object build_pod(const pod_spec& spec);

}  // namespace orcd::app
