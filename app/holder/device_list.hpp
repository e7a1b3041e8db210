// The devices whose weights a holder keeps. It uses none of them: it knows their names only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orcd::app {

inline constexpr std::size_t devices_max = 16;
inline constexpr std::uint32_t device_index_max = 255;

struct held_device {
  std::string name;         ///< a GPU's UUID, "GPU-..." or "MIG-...", or net::host_device
  std::uint32_t index = 0;  ///< another name for it
  bool operator==(const held_device&) const = default;
};

/// Adds "NAME" or "NAME=INDEX"; without an index it is the place in the list. Returns what the value must be,
/// where it is not that.
[[nodiscard]] std::optional<std::string> add_device(std::vector<held_device>& to, std::string_view value);

/// The GPUs of the host in the order of their bus addresses, which is that of nvidia-smi, as the driver lists
/// them in `folder`; the host's pseudo-device where it lists none. GPUs whose UUID the driver does not tell
/// are left out.
[[nodiscard]] std::vector<held_device> find_devices(const std::string& folder = "/proc/driver/nvidia/gpus");

}  // namespace orcd::app
