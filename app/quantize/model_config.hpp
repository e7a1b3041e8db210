// The config.json beside a trainer's model: what a manifest does not say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "app/quantize/arguments.hpp"

namespace orcd::app {

struct model_config {
  bool scales_divide = true;  ///< a packed matrix's scale divides its codes, else it multiplies them
  std::string activation;     ///< relu2, silu; empty when the file does not say
  std::optional<std::uint32_t> bos;
  std::optional<std::uint32_t> eos;  ///< the first
  std::string kind;                  ///< model_type
  model_sizes sizes;                 ///< 0 where the file does not say; unpadded
};

struct config_limits {
  static constexpr std::uint64_t bytes = 1U << 20U;
};

/// `name` is the file's for messages. What would change the result and is not supported is refused by name.
[[nodiscard]] engine::result<model_config> parse_model_config(std::string_view text, const std::string& name);
[[nodiscard]] engine::result<model_config> read_model_config(const std::string& path);

/// A whole plain file, not empty, of at most `limit` bytes.
[[nodiscard]] engine::result<std::string> read_small_file(const std::string& path, std::uint64_t limit);

}  // namespace orcd::app
