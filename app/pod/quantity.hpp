// Arithmetic of the Kubernetes API's quantities, whose digits may be more than a number here has.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace orcd::app {

/// `quantity`, such as 500m or 1.5Gi, `factor` times (1 to 9), in the same unit.
[[nodiscard]] std::string times_quantity(std::string_view quantity, std::uint32_t factor);

}  // namespace orcd::app
