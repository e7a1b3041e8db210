// Bounds of all frames of the holder's sockets.
#pragma once

#include <cstddef>
#include <cstdint>

namespace orcd::net {

inline constexpr std::size_t frame_bytes_max = std::size_t{1} << 20U;  ///< header and body
inline constexpr std::size_t frame_header_bytes = 16;
inline constexpr std::size_t frame_descriptors_max = 64;
inline constexpr std::uint32_t engine_ids = 64;
inline constexpr std::uint32_t no_engine = ~std::uint32_t{0};

}  // namespace orcd::net
