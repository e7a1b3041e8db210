// The SHA-256 of a model's file, for /health: what `sha256sum FILE` prints, with "sha256:" before it.
// Parts of a split model are hashed in order as if they were one file.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

namespace orcd::app {

/// Reads every byte once, in pieces of 4 MiB; empty when asked to stop. Runs on any thread.
[[nodiscard]] std::optional<std::string> model_digest(std::span<const std::span<const std::byte>> parts,
                                                      const std::stop_token& stop);

}  // namespace orcd::app
