#include "app/holder/device_list.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "app/options/option_table.hpp"
#include "engine/base/plain_file.hpp"
#include "net/failover/weights_frames.hpp"

namespace orcd::app {
namespace {

constexpr std::string_view gpu_prefix = "GPU-";
constexpr std::string_view part_prefix = "MIG-";

/// A device's name as it is in the socket's name; the hexadecimal digits of a UUID are small there.
std::optional<std::string> name_of(std::string_view text) {
  if (text == net::host_device) return std::string(text);
  const auto prefix = text.substr(0, gpu_prefix.size());
  if (prefix != gpu_prefix && prefix != part_prefix) return std::nullopt;
  const auto uuid = parse_uuid(text.substr(prefix.size()));
  if (!uuid) return std::nullopt;
  return std::string(prefix) + *uuid;
}

/// "GPU UUID: \t GPU-..." of the driver's text about one GPU.
std::optional<std::string> uuid_in(const std::filesystem::path& file) {
  constexpr std::size_t bytes_max = 8U << 10U;
  constexpr std::string_view key = "GPU UUID:";
  const auto text = engine::read_beginning(file, bytes_max);
  if (!text) return std::nullopt;
  std::istringstream in(*text);
  for (std::string line; std::getline(in, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const auto begin = line.find_first_not_of(" \t", key.size());
    if (begin == std::string::npos) return std::nullopt;
    return name_of(std::string_view(line).substr(begin, line.find_last_not_of(" \t") + 1 - begin));
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> add_device(std::vector<held_device>& to, std::string_view value) {
  const auto equals = value.find('=');
  const auto name = name_of(value.substr(0, equals));
  auto index = std::optional<std::uint64_t>(to.size());
  if (equals != std::string_view::npos) index = parse_unsigned(value.substr(equals + 1));
  if (!name || !index || *index > device_index_max) {
    return "must be host, GPU-UUID or MIG-UUID, with =INDEX of 0 to " + std::to_string(device_index_max) +
           " or without";
  }
  held_device one{*name, static_cast<std::uint32_t>(*index)};
  const bool there = std::any_of(to.begin(), to.end(), [&](const held_device& other) {
    return other.name == one.name || other.index == one.index;
  });
  if (there) return "must name each device and index once";
  if (to.size() >= devices_max) return "must be given " + std::to_string(devices_max) + " times at most";
  to.push_back(std::move(one));
  return std::nullopt;
}

std::vector<held_device> find_devices(const std::string& folder) {
  std::vector<std::filesystem::path> places;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end;
       at.increment(failed)) {
    places.push_back(at->path());
  }
  std::sort(places.begin(), places.end());
  std::vector<held_device> out;
  for (std::size_t i = 0; i < places.size() && i < devices_max; ++i) {
    // The index is the GPU's also where one before it is left out.
    if (auto name = uuid_in(places[i] / "information")) {
      out.push_back({std::move(*name), static_cast<std::uint32_t>(i)});
    }
  }
  if (out.empty()) out.push_back({net::host_device, 0});
  return out;
}

}  // namespace orcd::app
