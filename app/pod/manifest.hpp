// All objects that a SPEC becomes, and their text.
#pragma once

#include <boost/json.hpp>
#include <string>

#include "app/pod/pod_spec.hpp"

namespace orcd::app {

/// A List of the Kubernetes API: the Deployment, its Service and PodDisruptionBudget, and the
/// ResourceClaimTemplate where GPUs are claimed. `spec` has no problems (validate_pod_spec).
[[nodiscard]] boost::json::object build_manifest(const pod_spec& spec);

/// The same value with line ends and two spaces a level; ends with a line end.
[[nodiscard]] std::string indented_json(const boost::json::value& value);

}  // namespace orcd::app
