// GPUs that a pod claims (resource.k8s.io/v1), which several of its containers can have at once.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <string>
#include <string_view>

namespace orcd::app {

/// What the device plugin calls a GPU among the limits of a container that does not claim it.
constexpr const char* device_plugin_gpu = "nvidia.com/gpu";

/// The container has what its pod claims, instead of GPUs of the device plugin.
void use_claimed_gpu(boost::json::object& container);
/// The pod claims what the ResourceClaimTemplate of that name says.
void claim_gpus(boost::json::object& pod, std::string_view template_name);
/// What such a template says of so many GPUs.
[[nodiscard]] boost::json::object claim_of_gpus(std::uint32_t count);

}  // namespace orcd::app
