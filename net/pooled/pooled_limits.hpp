// What a request that embeds or ranks may ask for. Pure. Private to net/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/worker_state.hpp"
#include "net/limits.hpp"

namespace orcd::net {

/// The most inputs or documents of one request.
constexpr std::size_t pooled_inputs_max = 2'048;
/// The most bytes of text that one request has tokenized; a query counts once for each document.
constexpr std::size_t pooled_text_bytes_max = 4U << 20U;
/// The most numbers in one answer.
constexpr std::size_t pooled_values_max = 4U << 20U;

/// What becomes of an input that is too long.
struct input_cut {
  /// The most tokens that are used of it, -1 for what the context holds; nothing: it is refused.
  std::optional<std::int64_t> tokens{};
  bool keeps_last = false;  ///< its last tokens rather than its first
};

struct pooled_limits {
  const request_limits& lengths;
  const engine::worker_identity& served;  ///< see model_names.hpp
  std::uint32_t vocab = 0;                ///< token ids are below
  std::uint32_t dimensions = 0;           ///< of an embedding
  bool shorter_dimensions = false;        ///< fewer may be asked for
  bool request_template = false;          ///< a request may bring its own chat template
};

}  // namespace orcd::net
