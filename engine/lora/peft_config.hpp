// adapter_config.json: what a PEFT adapter's pairs are multiplied by, and every field that would change the
// arithmetic in another way, which is refused by name. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/error.hpp"

namespace orcd::engine {

struct peft_config {
  std::uint32_t rank = 0;
  double alpha = 0.0;
  bool root_of_rank = false;         ///< alpha / sqrt(rank) instead of alpha / rank
  std::vector<std::string> modules;  ///< ends of the paths of all modules that have pairs; empty: not said
  std::vector<std::pair<std::string, std::uint32_t>> ranks;  ///< by ends of paths; the first that fits counts
  std::vector<std::pair<std::string, double>> alphas;        ///< the same

  [[nodiscard]] bool has_module(std::string_view path) const noexcept;
  [[nodiscard]] std::uint32_t rank_of(std::string_view path) const noexcept;
  [[nodiscard]] double alpha_of(std::string_view path) const noexcept;
};

/// Errors are "FILE: ..." with the field, its value and what it must be. A field that is not known is refused
/// unless it is null, false or empty.
[[nodiscard]] result<peft_config> read_peft_config(std::string_view text, std::string_view file);

}  // namespace orcd::engine
