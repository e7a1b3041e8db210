#include <array>
#include <utility>

#include "app/options/option_table.hpp"

namespace orcd::app {
namespace {

using text_view = std::string_view;

constexpr std::size_t path_max = 4'096;

/// An integer of the failover options.
option_row number(std::string name, std::uint32_t failover_options::*member, std::uint32_t low,
                  std::uint32_t high, std::string help) {
  const auto range = std::to_string(low) + " to " + std::to_string(high);
  return {"", std::move(name), "N",
          std::move(help) + " (" + range + ", default " + std::to_string(failover_options{}.*member) + ")",
          [=](text_view value, options& out) -> requirement {
            const auto given = parse_unsigned(value);
            if (!given || *given < low || *given > high) return "must be an integer, " + range;
            out.failover.*member = static_cast<std::uint32_t>(*given);
            return std::nullopt;
          }};
}

option_row path(std::string name, std::string failover_options::*member, std::string help) {
  return {"", std::move(name), "PATH", std::move(help), [=](text_view value, options& out) -> requirement {
            if (value.empty() || value.size() > path_max || value.find('\0') != text_view::npos) {
              return "must be a path of 1 to 4096 bytes";
            }
            out.failover.*member = value;
            return std::nullopt;
          }};
}

requirement assign_system_port(text_view value, options& out) {
  return assign_port_to(out.failover.port.emplace(), value);
}

requirement assign_system_enabled(text_view value, options& out) {
  if (value != "true" && value != "false" && value != "1" && value != "0") return "must be true or false";
  if (value == "false" || value == "0") out.failover.port = 0;
  return std::nullopt;
}

requirement assign_starting_health(text_view value, options& out) {
  if (value != "ready" && value != "notready") return "must be ready or notready";
  out.failover.starts_healthy = value == "ready";
  return std::nullopt;
}

option_row use_of_holder(std::string name, holder_use failover_options::*member, std::string help) {
  return {
      "", std::move(name), "auto|off|require", std::move(help),
      [=](text_view value, options& out) -> requirement {
        using use = holder_use;
        if (value != "auto" && value != "off" && value != "require") return "must be auto, off or require";
        out.failover.*member = value == "auto" ? use::automatic : value == "off" ? use::off : use::require;
        return std::nullopt;
      }};
}

requirement assign_standby_weights(text_view value, options& out) {
  if (value != "mapped" && value != "unmapped") return "must be mapped or unmapped";
  out.failover.standby_unmaps = value == "unmapped";
  return std::nullopt;
}

/// The names of endpoints as a JSON list; there is one endpoint here, whatever it is called.
requirement assign_endpoint_health(text_view value, options& out) {
  constexpr std::size_t bytes_max = 1'024;
  const bool list = value.size() >= 2 && value.front() == '[' && value.back() == ']';
  if (value.size() > bytes_max || !list) {
    return "must be a list of endpoints such as [\"generate\"], or []";
  }
  out.failover.endpoint_health = value.find('"') != text_view::npos;
  return std::nullopt;
}

}  // namespace

std::vector<option_row> failover_rows() {
  using f = failover_options;
  return {
      path("failover-dir", &f::dir,
           "Folder that the engines of one serving port share: one serves, the others wait for its end "
           "(default: none, the worker is alone)"),
      path("failover-lock-path", &f::lock_path, "File of the lock (default: failover.lock in that folder)"),
      number("engine-id", &f::engine_id, 0, 63, "Which of the engines this is"),
      number("failover-lock-poll-ms", &f::lock_poll_ms, 0, 10'000,
             "Try for the lock this often instead of waiting in the kernel; 0 = wait"),
      use_of_holder("holder", &f::holder,
                    "Whether connections come from worker-orcd-holder: if its socket is in the folder at the "
                    "start, never, or always (default auto)"),
      use_of_holder(
          "share-weights", &f::share_weights,
          "Whether the engines of a device have one copy of the weights, by worker-orcd-holder: if its "
          "socket of the device is in the folder at the start, never, or always (default off)"),
      path("weights-dir", &f::weights_dir,
           "Folder of the holder's sockets for shared weights (default: --failover-dir)"),
      {"", "standby-weights", "mapped|unmapped",
       "Whether a waiting engine maps the weights that are shared, or again when it has the lock (default "
       "mapped)",
       assign_standby_weights},
      number("remap-timeout-ms", &f::remap_timeout_ms, 1, 600'000,
             "Longest time to be granted unmapped weights again; then the engine ends with exit code 72"),
      number("standby-kv-tokens", &f::spared_kv_tokens, 0, 1'048'576,
             "Positions of the KV cache that engines with shared weights leave to the one that takes over, "
             "beside what is configured"),
      number("failover-replays", &f::replays, 0, 16,
             "Engines that may end while a request runs before it is given up; 0 = none that ran goes on"),
      {"", "system-port", "PORT",
       "Port of an engine's own /live, /health, /ready, /metrics and operator's orders (0 = none, 1024 to "
       "65535, default with --failover-dir 9090 + engine-id or the next free one, else none)",
       assign_system_port},
      {"", "system-enabled", "true|false", "Whether there is a system port (default true)",
       assign_system_enabled},
      number("waking-timeout-ms", &f::waking_timeout_ms, 100, 600'000,
             "Longest time from the lock to serving; then the engine ends with exit code 70"),
      {"", "starting-health", "ready|notready",
       "What /health of the system port says while the model loads (default notready)",
       assign_starting_health},
      {"", "endpoint-health", "LIST",
       "Endpoints that /health of the system port follows alone: any makes a waiting engine unhealthy "
       "(default [])",
       assign_endpoint_health},
  };
}

const char* failover_option_of(text_view variable) noexcept {
  constexpr std::array<std::pair<text_view, const char*>, 8> names{
      {{"ENGINE_ID", "engine-id"},
       {"FAILOVER_LOCK_PATH", "failover-lock-path"},
       {"GMS_SOCKET_DIR", "weights-dir"},
       {"GMS_REMAP_TIMEOUT_MS", "remap-timeout-ms"},
       {"DYN_SYSTEM_PORT", "system-port"},
       {"DYN_SYSTEM_ENABLED", "system-enabled"},
       {"DYN_SYSTEM_STARTING_HEALTH_STATUS", "starting-health"},
       {"DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS", "endpoint-health"}}};
  for (const auto& [name, option] : names) {
    if (name == variable) return option;
  }
  return nullptr;
}

}  // namespace orcd::app
