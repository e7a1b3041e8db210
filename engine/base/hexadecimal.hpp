// Bytes as people and hashes write them. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace orcd::engine {

/// Two digits for each byte, in lower case.
[[nodiscard]] std::string hexadecimal(std::span<const std::uint8_t> bytes);

}  // namespace orcd::engine
