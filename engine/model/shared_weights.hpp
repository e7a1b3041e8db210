// Where an accelerator has a model's weights from: the model's file, or memory that another process of this
// host has filled. One copy of them serves several processes. Likewise the memory of the KV cache, which one
// process after the other uses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace orcd::engine {

/// Weights in memory that other processes can map and nobody can write to any more.
struct shared_weights {
  int descriptor = -1;       ///< of the memory; borrowed, valid while its owner lives
  std::uint64_t bytes = 0;   ///< of the memory
  std::string layout_hash;   ///< SHA-256 of where each tensor lies and in which form, hexadecimal
  std::string content_hash;  ///< SHA-256 over those of its tiles (gpu/memory/arena_hash.hpp), hexadecimal
};

/// Neither: read from the model's file, for this process alone.
struct weight_source {
  bool share = false;  ///< read from the file into memory that others can map
  /// The weights of another process, which must be what this one would have read. The file's own are not
  /// touched.
  std::optional<shared_weights> imported{};
};

/// A KV cache in memory that other processes can map and write to.
struct shared_cache {
  int descriptor = -1;      ///< of the memory; borrowed, valid while its owner lives
  std::uint64_t bytes = 0;  ///< of the memory
};

/// Neither: memory of this process alone.
struct cache_source {
  bool share = false;  ///< in memory that others can map; all pages are clear
  /// Another process's, of the same geometry and KV types; what its pages hold stays as it is.
  std::optional<shared_cache> imported{};
};

}  // namespace orcd::engine
