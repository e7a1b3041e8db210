// The values that the settings of sampling_params may have, for requests, options and model files alike.
// Source: M0-W-1302, WORK-3120.
#pragma once

#include <cstdint>

namespace orcd::engine {

struct real_range {
  double low;
  double high;
  bool above_low = false;  ///< the low end itself is not allowed

  [[nodiscard]] constexpr bool has(double value) const noexcept {
    return value <= high && (above_low ? value > low : value >= low);
  }
};
inline constexpr real_range temperature_range{0.0, 2.0};
inline constexpr real_range top_p_range{0.0, 1.0, true};
inline constexpr real_range min_p_range{0.0, 1.0};
inline constexpr real_range repetition_penalty_range{0.0, 2.0, true};
inline constexpr real_range penalty_range{-2.0, 2.0};  ///< presence and frequency

inline constexpr real_range dry_multiplier_range{0.0, 100.0};
/// What is below 1 would reward repetitions: requests get the default then, as llama-server's do.
inline constexpr real_range dry_base_range{1.0, 100.0};
inline constexpr real_range share_range{0.0, 1.0};         ///< XTC's numbers, typical_p
inline constexpr real_range top_n_sigma_range{-1e6, 1e6};  ///< 0 and less: off
inline constexpr real_range dynatemp_exponent_range{0.0, 100.0};

inline constexpr std::uint32_t dry_allowed_length_max = 1'000'000;
inline constexpr std::uint32_t top_k_max = 1'000'000;
inline constexpr std::uint32_t repeat_last_n_max = 4'096;

}  // namespace orcd::engine
