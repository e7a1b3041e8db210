#include "app/quantize/rope_cache.hpp"

#include <cstring>

namespace orcd::app {

std::array<std::byte, 68> rope_cache_image(const model_sizes& sizes) noexcept {
  std::array<std::byte, 68> out{};
  const std::uint32_t version = 1;
  const std::uint32_t dims = sizes.rope_dim;
  std::memcpy(out.data(), "TRRC", 4);
  std::memcpy(out.data() + 4, &version, 4);
  std::memcpy(out.data() + 12, &sizes.context, 4);
  std::memcpy(out.data() + 16, &dims, 4);
  std::memcpy(out.data() + 20, &sizes.theta, 8);
  // No factor at 28: models with scaled positions are not converted.
  std::memcpy(out.data() + 36, &sizes.context, 4);
  return out;
}

}  // namespace orcd::app
