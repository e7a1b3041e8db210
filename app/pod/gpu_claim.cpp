#include "app/pod/gpu_claim.hpp"

#include <utility>

namespace orcd::app {
namespace {

namespace json = boost::json;

constexpr std::string_view gpu_claim = "shared-gpu";

}  // namespace

void use_claimed_gpu(json::object& container) {
  auto& resources = container["resources"];
  if (!resources.is_object()) resources.emplace_object();
  if (auto* limits = resources.get_object().if_contains("limits"); limits != nullptr) {
    limits->get_object().erase(device_plugin_gpu);
    if (limits->get_object().empty()) resources.get_object().erase("limits");
  }
  resources.get_object()["claims"] = json::array{json::object{{"name", gpu_claim}}};
}

void claim_gpus(json::object& pod, std::string_view template_name) {
  pod["resourceClaims"] =
      json::array{json::object{{"name", gpu_claim}, {"resourceClaimTemplateName", template_name}}};
}

json::object claim_of_gpus(std::uint32_t count) {
  json::object request{{"name", "gpu"},
                       {"exactly", json::object{{"deviceClassName", "gpu.nvidia.com"},
                                                {"allocationMode", "ExactCount"},
                                                {"count", count}}}};
  json::object devices{{"requests", json::array{std::move(request)}}};
  return {{"spec", json::object{{"devices", std::move(devices)}}}};
}

}  // namespace orcd::app
