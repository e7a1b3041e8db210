// What a fake_accelerator makes of tokens, but for what its own header has.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/ids.hpp"

namespace orcd::test {

/// At each position: a hash of the tokens up to there. `flavour`: of the adapters (flavour_of).
[[nodiscard]] std::vector<std::uint64_t> hashes_of(std::span<const engine::token_id> tokens,
                                                   std::uint64_t flavour);

}  // namespace orcd::test
