// Models as lists of tensors and metadata: true shapes, and for every tensor the type that it has in a
// published file. The target models, gpt-oss-120b and BitNet b1.58 2B4T are checked against the tensor counts
// and sizes of the published GGUF files; others (other_shapes.hpp) have the types of a Q4_K_M file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/gguf/ggml_type.hpp"
#include "test/support/gguf_writer.hpp"

namespace orcd::bench {

/// One tensor to write: values of mean `centre` and standard deviation about `spread`.
struct planned_tensor {
  std::string name;
  std::vector<std::uint64_t> extents;  ///< fastest first
  engine::ggml_type type = engine::ggml_type::f32;
  float centre = 0.0F;  ///< F32 only
  float spread = 0.0F;

  [[nodiscard]] std::uint64_t bytes() const noexcept;
};

struct planned_model {
  test::gguf_writer header;  ///< metadata only
  std::vector<planned_tensor> tensors;

  [[nodiscard]] std::uint64_t tensor_bytes() const noexcept;
};

struct model_choice {
  std::string model;
  std::optional<std::uint32_t> layers;
  std::optional<std::uint32_t> vocab;
  std::optional<engine::ggml_type> type;  ///< of all matrices of layers, instead of the published ones
};

/// Errors (invalid_request): an unknown model, layers outside 1..512, a vocabulary too small for its
/// tokenizer, a type whose blocks do not divide a row. A model in its true size whose totals differ from the
/// published file's is `internal`.
[[nodiscard]] engine::result<planned_model> plan_model(const model_choice& choice);

}  // namespace orcd::bench
