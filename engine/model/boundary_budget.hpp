// How much memory keeps prefixes sharable where layers have a sliding window. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace orcd::engine {

/// Memory of layers with a sliding window that have pages of their own, beside what jobs need, for positions
/// at which prefixes can be shared (boundaries); never so much that the cache gets larger than if all layers
/// kept everything.
struct boundary_budget {
  /// So many bytes; less than one boundary takes: none are shared.
  std::optional<std::uint64_t> bytes = {};
  /// Without: of what the cache would take if all layers kept everything, at least one boundary's; 0: none
  /// are shared.
  std::uint32_t thousandths = 125;
};

inline constexpr std::string_view boundary_budget_rule =
    "must be a share of up to 100%, such as 12.5%, or MiB, 0 to 16777216";

/// A share in percent with one decimal at most, or MiB; nullopt where the rule is broken.
[[nodiscard]] std::optional<boundary_budget> parse_boundary_budget(std::string_view text) noexcept;

}  // namespace orcd::engine
