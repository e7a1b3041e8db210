#include "engine/base/narration.hpp"

#include "engine/base/sha256.hpp"

namespace orcd::engine {

std::string prompt_digest(std::string_view prompt) {
  return "sha256:" + sha256_of(prompt);
}

}  // namespace orcd::engine
