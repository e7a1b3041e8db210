#include "engine/narration.hpp"

#include "engine/sha256.hpp"

namespace orcd::engine {

std::string prompt_digest(std::string_view prompt) {
  sha256 hash;
  hash.update(prompt);
  return "sha256:" + hash.finish();
}

}  // namespace orcd::engine
