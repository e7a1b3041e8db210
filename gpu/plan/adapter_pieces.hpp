// An adapter cut into pieces of bounded size, so that it can be copied to a device a piece at a time, and
// where the values of each piece go. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/lora/adapter.hpp"
#include "gpu/plan/adapter_layout.hpp"

namespace orcd::gpu {

/// Values of one matrix that lie one after the other, from the `first` one on. In the adapter's room value i
/// of the matrix lies at to + i / width * row_step + i % width * column_step: A by rows, and B by ranks, both
/// with rows of kernels::lora_stride() floats (kernels/layer/lora_args.hpp).
struct adapter_part {
  const float* from = nullptr;
  std::uint64_t first = 0, count = 0;
  std::uint32_t width = 0;
  std::uint64_t row_step = 0, column_step = 0;
  std::uint64_t to = 0;
};

/// What adapter_layout::check() accepts; both outlive the object.
class adapter_pieces {
 public:
  adapter_pieces(const adapter_layout& layout, const engine::lora_adapter& adapter)
      : layout_(&layout), adapter_(&adapter) {}

  /// The next parts, together at most `floats` (> 0) values; empty at the end. Valid until the next call.
  [[nodiscard]] std::span<const adapter_part> next(std::uint64_t floats);

 private:
  [[nodiscard]] adapter_part matrix() const noexcept;

  const adapter_layout* layout_;
  const engine::lora_adapter* adapter_;
  std::size_t pair_ = 0;
  bool b_ = false;           ///< B of the pair; else A
  std::uint64_t first_ = 0;  ///< of its values
  std::vector<adapter_part> parts_;
};

}  // namespace orcd::gpu
