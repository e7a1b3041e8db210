// How tokens are chosen for requests that do not say it: by the operator's options, else by what the model
// file recommends (general.sampling.*, which converters write from a model's generation_config.json), else by
// the API's own rule, which changes nothing of the model's distribution. Source: GGUF keys of gguf-py.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf/gguf_file.hpp"
#include "engine/sampling/sampling.hpp"

namespace orcd::engine {

/// What somebody has said; nullopt: nothing of it.
struct sampling_values {
  std::optional<float> temperature;
  std::optional<std::uint32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<float> presence_penalty;
  std::optional<float> frequency_penalty;
  std::optional<std::uint32_t> repeat_last_n;
  std::optional<float> dry_multiplier;
  std::optional<float> dry_base;
  std::optional<std::uint32_t> dry_allowed_length;
  std::optional<std::uint32_t> dry_last_n;
  std::optional<float> xtc_probability;
  std::optional<float> xtc_threshold;
  std::optional<float> typical_p;
  std::optional<float> top_n_sigma;
  std::optional<float> dynatemp_range;
  std::optional<float> dynatemp_exponent;
};

struct file_sampling {
  sampling_values values;
  /// Sentences for the log: keys whose value cannot be, or means what is not done here.
  std::vector<std::string> left;
};
[[nodiscard]] file_sampling read_file_sampling(const gguf_file& file);

enum class default_origin { api, file, option };
[[nodiscard]] std::string_view to_string(default_origin origin) noexcept;

struct sampling_default {
  std::string_view name;  ///< as requests call it: "temperature"
  double value = 0.0;
  default_origin origin = default_origin::api;
};

struct sampling_defaults {
  sampling_params params;
  std::vector<sampling_default> told;  ///< each of them, and where it is from
};
[[nodiscard]] sampling_defaults settle_sampling(const sampling_values& file, const sampling_values& options);

}  // namespace orcd::engine
