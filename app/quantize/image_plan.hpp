// What a file of tensors will hold: its GGUF head, and for each tensor the values that it is made of. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/quantize/arguments.hpp"
#include "app/quantize/gguf_header.hpp"
#include "app/quantize/source_model.hpp"

namespace orcd::app {

/// One tensor made of stored values.
struct conversion {
  enum class kind {
    values,     ///< to a type with a value each
    ternarize,  ///< values to codes and their scale
    repack      ///< codes stay
  };
  kind how = kind::values;
  std::string file_name;  ///< for messages
  source_matrix from;
  std::size_t tensor = 0;                   ///< its number in the head
  std::optional<std::size_t> scale_tensor;  ///< where the scale goes instead of into the blocks
  std::uint64_t rows = 0;                   ///< to be written; what the source does not have is zeros
  std::uint64_t cols = 0;
  /// Rows of a head, whose first half and second half are to alternate; 0: rows stay in their order.
  std::uint32_t regroup = 0;
  float scale = 1.0F;  ///< of `repack`
};

struct image_plan {
  std::uint64_t begin = 0;  ///< of the GGUF in its file; the bytes before it are zero but for `magic`
  std::vector<std::byte> magic;
  gguf_header header;
  std::vector<conversion> conversions;

  [[nodiscard]] std::uint64_t source_bytes() const noexcept;
};

/// Whether an f16 holds the value exactly.
[[nodiscard]] bool is_half(float value) noexcept;

/// The GGUF of a model, its codes in the type `ternary`. Errors name the tensor that is missing, too much or
/// of another shape than `sizes`.
[[nodiscard]] engine::result<image_plan> plan_model(const source_model& source, const model_sizes& sizes,
                                                    engine::ggml_type ternary);

/// The GGUF of an adapter; `rank` as the caller says, if it does. There are targets; with a model's tensors
/// beside them they must be of its layers.
[[nodiscard]] engine::result<image_plan> plan_adapter(const source_model& source, const model_sizes& sizes,
                                                      std::optional<std::uint32_t> rank);

/// Sizes that the tensors tell: heads from the rows of Q and K where they are 0.
[[nodiscard]] engine::result<model_sizes> complete_sizes(const source_model& source, model_sizes sizes);

/// The head of qmodel.tensors and qmodel.lora, which the GGUF follows at byte 256.
void put_tensors_header(image_plan& plan, model_arch arch);
void put_adapter_header(image_plan& plan);

}  // namespace orcd::app
