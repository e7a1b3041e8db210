#include "net/failover/weights_frames.hpp"

#include <algorithm>

namespace orcd::net {

bool is_piece_name(std::string_view name) noexcept {
  if (name.empty() || name.size() > piece_name_bytes_max) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

std::vector<std::string> device_names_of(const std::string& device) {
  constexpr std::string_view whole = "GPU-";
  std::vector<std::string> out{device};
  if (device.compare(0, whole.size(), whole) == 0) out.push_back("MIG-" + device.substr(whole.size()));
  return out;
}

}  // namespace orcd::net
