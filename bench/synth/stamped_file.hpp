// Writes a planned model to disk at the speed of memory: a pool of random blocks for each type, from
// which every row of every tensor is a stretch that starts at a random block.
#pragma once

#include <cstdint>
#include <string>

#include "bench/synth/model_shapes.hpp"
#include "engine/base/error.hpp"

namespace orcd::bench {

struct written_totals {
  std::uint64_t file_bytes = 0;
  unsigned threads = 0;
};

/// The same bytes for the same model and seed, whatever the number of threads. Written to FILE.partials and
/// renamed when complete, so that a file of that name is always whole. Errors name the system call.
[[nodiscard]] engine::result<written_totals> write_stamped(const planned_model& model, std::uint64_t seed,
                                                           const std::string& path);

}  // namespace orcd::bench
