#include "gpu/plan/adapter_pieces.hpp"

#include <algorithm>

#include "kernels/layer/lora_args.hpp"

namespace orcd::gpu {

/// All of the matrix at hand.
adapter_part adapter_pieces::matrix() const noexcept {
  const engine::lora_pair& pair = adapter_->pairs[pair_];
  const auto place = static_cast<std::size_t>(layout_->find(pair.target, pair.layer));
  const adapter_place& at = layout_->places()[place];
  const std::uint64_t rank = pair.rank;
  if (b_)
    return {adapter_->b(pair), 0, rank * pair.out, pair.rank, 1, kernels::lora_stride(pair.out), at.b_at};
  return {adapter_->a(pair), 0, rank * pair.in, pair.in, kernels::lora_stride(pair.in), 1, at.a_at};
}

std::span<const adapter_part> adapter_pieces::next(std::uint64_t floats) {
  parts_.clear();
  while (floats > 0 && pair_ < adapter_->pairs.size()) {
    adapter_part part = matrix();
    const std::uint64_t left = part.count - first_;
    part.first = first_;
    part.from += first_;
    part.count = std::min(left, floats);
    parts_.push_back(part);
    floats -= part.count;
    first_ += part.count;
    if (part.count < left) break;
    first_ = 0;
    if (b_) ++pair_;
    b_ = !b_;
  }
  return parts_;
}

}  // namespace orcd::gpu
