#include "gpu/cuda/cuda_adapters.hpp"

#include <cuda_fp16.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/base/ensure.hpp"
#include "gpu/cuda/cuda_error.hpp"
#include "kernels/attention/page_control.hpp"

namespace orcd::gpu {

static_assert(engine::active_adapters_max == kernels::lora_adapters_max);

cuda_adapters::cuda_adapters(const engine::model& m, engine::adapter_room room, const cuda_extents& extents,
                             int device, cudaStream_t stream)
    : room_(room), layout_(m, room), stream_(stream) {
  if (room.count == 0) return;
  places_ = adapter_arena(m, room, layout_, extents.slots, extents.columns());
  arena_ = vram_arena(device, places_.bytes);
  held_.resize(room.count * layout_.places().size());
  present_.resize(room.count);
  in_use_.resize(extents.slots);
  for (auto& slot : in_use_) slot.reserve(engine::active_adapters_max);
}

std::uint64_t cuda_adapters::bytes(const engine::model& m, engine::adapter_room room,
                                   const cuda_extents& extents) {
  if (room.count == 0) return 0;
  return adapter_arena(m, room, adapter_layout(m, room), extents.slots, extents.columns()).bytes;
}

/// In the stream of steps, so that those under way still find what was there.
engine::result<void> cuda_adapters::put(std::uint32_t index, const engine::lora_adapter& adapter) {
  if (const auto fits = layout_.check(index, adapter); !fits) return fits;
  drop(index);
  float* const values = arena_.at<float>(places_.values) + index * layout_.floats();
  const auto copy = [&](float* to, const float* from, std::uint64_t count) {
    ORCD_CUDA(cudaMemcpyAsync(to, from, count * sizeof(float), cudaMemcpyHostToDevice, stream_));
  };
  for (const engine::lora_pair& pair : adapter.pairs) {
    const std::int32_t at = layout_.find(pair.target, pair.layer);
    const adapter_place& place = layout_.places()[static_cast<std::size_t>(at)];
    copy(values + place.a_at, adapter.a(pair), std::uint64_t{pair.rank} * pair.in);
    copy(values + place.b_at, adapter.b(pair), std::uint64_t{pair.rank} * pair.out);
    held_[index * layout_.places().size() + static_cast<std::size_t>(at)] = {
        static_cast<std::int32_t>(pair.rank), pair.scale};
  }
  write_held(index);
  ORCD_CUDA(cudaStreamSynchronize(stream_));
  present_[index] = true;
  return {};
}

void cuda_adapters::write_held(std::uint32_t index) {
  const std::size_t each = layout_.places().size();
  ORCD_CUDA(cudaMemcpyAsync(arena_.at<kernels::lora_held>(places_.held) + index * each, &held_[index * each],
                            each * sizeof(kernels::lora_held), cudaMemcpyHostToDevice, stream_));
}

/// What the device has stays there until the next put(); no slot names it.
void cuda_adapters::drop(std::uint32_t index) noexcept {
  if (index >= room_.count) return;
  for (const auto& slot : in_use_) {
    ORCD_ENSURE(std::none_of(slot.begin(), slot.end(), [&](const auto& one) { return one.index == index; }));
  }
  present_[index] = false;
  const std::size_t each = layout_.places().size();
  std::fill_n(held_.begin() + static_cast<std::ptrdiff_t>(index * each), each, kernels::lora_held{});
}

void cuda_adapters::use(engine::slot_id slot, std::span<const engine::active_adapter> adapters) {
  ORCD_ENSURE(adapters.size() <= (room_.count == 0 ? 0 : engine::active_adapters_max));
  if (room_.count == 0) return;
  auto& now = in_use_[static_cast<std::size_t>(slot)];
  if (now.empty() && adapters.empty()) return;
  kernels::write_words_args args;
  args.to =
      arena_.at<std::int32_t>(places_.slots + static_cast<std::size_t>(slot) * sizeof(kernels::lora_slot));
  args.count = 1 + 2 * static_cast<std::uint32_t>(adapters.size());
  args.words[0] = static_cast<std::int32_t>(adapters.size());
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    ORCD_ENSURE(adapters[i].index < room_.count && present_[adapters[i].index] &&
                std::isfinite(adapters[i].strength));
    args.words[1 + 2 * i] = static_cast<std::int32_t>(adapters[i].index);
    args.words[2 + 2 * i] = std::bit_cast<std::int32_t>(adapters[i].strength);
  }
  now.assign(adapters.begin(), adapters.end());
  ORCD_CUDA(kernels::launch_write_words(args, stream_));
}

void cuda_adapters::begin_step(std::span<const engine::slot_id> slots) noexcept {
  most_ = 0;
  all_ = room_.count > 0;
  if (room_.count == 0) return;
  for (const engine::slot_id slot : slots) {
    const auto count = static_cast<std::uint32_t>(in_use_[static_cast<std::size_t>(slot)].size());
    most_ = std::max(most_, count);
    all_ = all_ && count > 0;
  }
}

kernels::lora_columns cuda_adapters::columns_of(std::uint32_t columns, const kernels::step_token* steps,
                                                const std::int32_t* rows) const noexcept {
  return {steps, rows, arena_.at<kernels::lora_slot>(places_.slots), columns, most_};
}

void cuda_adapters::add(engine::lora_target target, std::uint32_t layer, const input& x, float* y,
                        std::uint32_t y_stride, std::uint32_t columns, const kernels::step_token* steps,
                        const std::int32_t* rows) {
  const std::int32_t at = most_ == 0 ? -1 : layout_.find(target, layer);
  if (at < 0) return;
  const adapter_place& place = layout_.places()[static_cast<std::size_t>(at)];
  kernels::lora_args args;
  args.of = columns_of(columns, steps, rows);
  args.held = arena_.at<kernels::lora_held>(places_.held);
  args.places = static_cast<std::uint32_t>(layout_.places().size());
  args.place = static_cast<std::uint32_t>(at);
  args.values = arena_.at<float>(places_.values);
  args.room = layout_.floats();
  args.a_at = place.a_at;
  args.b_at = place.b_at;
  args.in = place.in;
  args.out = place.out;
  args.rank_max = room_.rank_max;
  args.halves = x.halves;
  args.floats = x.floats;
  args.x_stride = x.stride;
  args.inner = arena_.at<float>(places_.inner);
  args.y = y;
  args.y_stride = y_stride;
  ORCD_CUDA(kernels::launch_lora(args, stream_));
}

void cuda_adapters::activate(std::uint32_t width, bool clamped, __half* act, std::uint32_t act_stride,
                             std::uint32_t columns, const kernels::step_token* steps) {
  kernels::lora_activate_args args;
  args.of = columns_of(columns, steps, nullptr);
  args.gate_up = gate_up();
  args.width = width;
  args.clamped = clamped;
  args.act = act;
  args.act_stride = act_stride;
  ORCD_CUDA(kernels::launch_lora_activate(args, stream_));
}

}  // namespace orcd::gpu
