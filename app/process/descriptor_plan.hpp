// How many connections fit into the file descriptors that the process may have. plan_descriptors() is pure;
// the other two functions ask the system.
#pragma once

#include <cstdint>
#include <optional>

namespace orcd::app {

struct descriptor_facts {
  std::uint64_t soft = 0;    ///< RLIMIT_NOFILE
  std::uint64_t hard = 0;    ///< the most that the soft limit may be raised to
  std::uint64_t in_use = 0;  ///< open now
  /// Descriptors that the worker itself has still to open, before and while it serves.
  std::uint64_t reserve = 0;
};

struct descriptor_plan {
  std::uint64_t soft = 0;         ///< the soft limit to set: what is needed, within the hard one
  std::uint32_t connections = 0;  ///< connections that may be open at a time; at most those asked for
  bool enough = false;            ///< false: too few to serve at all
  std::uint64_t own = 0;          ///< what the worker itself needs
};

/// With fewer connections than this a browser's few would leave none for probes.
inline constexpr std::uint32_t connections_min = 16;

[[nodiscard]] constexpr descriptor_plan plan_descriptors(const descriptor_facts& facts,
                                                         std::uint32_t asked) noexcept {
  const std::uint64_t own = facts.in_use + facts.reserve;
  const std::uint64_t wanted = own + asked;
  descriptor_plan out;
  out.own = own;
  out.soft = facts.soft >= wanted ? facts.soft : (wanted < facts.hard ? wanted : facts.hard);
  if (out.soft < facts.soft) out.soft = facts.soft;
  const std::uint64_t left = out.soft > own ? out.soft - own : 0;
  out.connections = left < asked ? static_cast<std::uint32_t>(left) : asked;
  out.enough = out.connections >= (asked < connections_min ? asked : connections_min);
  return out;
}

/// The facts of this process now; nullopt where the system does not tell them.
[[nodiscard]] std::optional<descriptor_facts> count_descriptors(std::uint64_t reserve);
/// Sets the soft limit; false when that is refused.
[[nodiscard]] bool raise_descriptor_limit(std::uint64_t soft) noexcept;

}  // namespace orcd::app
