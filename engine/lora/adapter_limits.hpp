// What an adapter's files are held to.
#pragma once

#include <cstddef>
#include <cstdint>

namespace orcd::engine {

/// An adapter that is over a limit is refused with the limit and its value.
struct adapter_limits {
  std::uint32_t rank = 512;
  std::uint64_t file_bytes = 4ULL << 30U;  ///< of the file with the values
  std::uint64_t json_bytes = 4ULL << 20U;  ///< of adapter_config.json; of the header of a safetensors file
  static constexpr std::size_t path_bytes = 4096;
};

}  // namespace orcd::engine
