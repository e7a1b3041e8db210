// The real vocabularies that the build has unpacked, each loaded once per test run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer.hpp"

namespace orcd::test {

/// The whole file; fails the test when it cannot be read.
[[nodiscard]] std::string read_vocabulary_file(std::string_view name);

/// FNV-1a, 32 bits, of the ids as little-endian 32-bit numbers: what the golden files hold.
[[nodiscard]] std::uint32_t fnv(const std::vector<engine::token_id>& values);

/// "qwen3", "gpt-oss", "gpt-2" or "phi-3".
[[nodiscard]] const engine::tokenizer& real_tokenizer(std::string_view name);

}  // namespace orcd::test
