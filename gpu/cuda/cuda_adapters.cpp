#include "gpu/cuda/cuda_adapters.hpp"

#include <cuda_fp16.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <thread>

#include "engine/base/ensure.hpp"
#include "gpu/cuda/cuda_error.hpp"
#include "kernels/attention/page_control.hpp"

namespace orcd::gpu {

namespace {

static_assert(engine::active_adapters_max == kernels::lora_adapters_max);

using engine::lora_target;

/// Longer than any copy takes.
constexpr std::chrono::seconds upload_time_max{120};

bool is_of_attention(lora_target target) {
  return target <= lora_target::attn_output;
}
/// A layer's products in their order, by the matrices that read the same input.
constexpr lora_target of_qkv[] = {lora_target::attn_qkv, lora_target::attn_q, lora_target::attn_k,
                                  lora_target::attn_v};
constexpr lora_target of_output[] = {lora_target::attn_output};
constexpr lora_target of_gate_up[] = {lora_target::ffn_gate_up, lora_target::ffn_gate, lora_target::ffn_up};
constexpr lora_target of_down[] = {lora_target::ffn_down};
constexpr std::span<const lora_target> products[] = {of_qkv, of_output, of_gate_up, of_down};
bool is_of_products(lora_target target) {
  return target <= lora_target::ffn_down;
}

}  // namespace

cuda_adapters::cuda_adapters(const engine::model& m, engine::adapter_room room, const cuda_extents& extents,
                             int device, cudaStream_t stream)
    : room_(room), layout_(m, room), stream_(stream) {
  if (room.count == 0) return;
  places_ = adapter_arena(m, room, layout_, extents.slots, extents.adapted_columns());
  arena_ = vram_arena(device, places_.bytes);
  held_.resize(room.count * layout_.places().size());
  present_.resize(room.count);
  in_use_.resize(extents.slots);
  for (auto& slot : in_use_) slot.reserve(engine::active_adapters_max);
  step_has_.resize(layout_.places().size());
  for (const adapter_place& place : layout_.places()) {
    graph_has_[0].push_back(is_of_attention(place.target) ? 1 : 0);
    graph_has_[1].push_back(is_of_products(place.target) ? 1 : 0);
  }
  copy_stream_ = make_stream();
  sent_ = make_event();
  ORCD_CUDA(kernels::load_lora_kernels());
}

std::uint64_t cuda_adapters::bytes(const engine::model& m, engine::adapter_room room,
                                   const cuda_extents& extents) {
  if (room.count == 0) return 0;
  return adapter_arena(m, room, adapter_layout(m, room), extents.slots, extents.adapted_columns()).bytes;
}

engine::result<void> cuda_adapters::put(std::uint32_t index, const engine::lora_adapter& adapter) {
  if (auto begun = begin(index, adapter); !begun) return begun;
  while (!go_on()) std::this_thread::sleep_for(std::chrono::microseconds(20));
  return {};
}

/// The old values are overwritten when the steps that were launched so far have ended.
engine::result<void> cuda_adapters::begin(std::uint32_t index, const engine::lora_adapter& adapter) {
  upload_.reset();  // one that nobody went on with
  if (auto fits = layout_.check(index, adapter); !fits) return fits;
  drop(index);
  for (const engine::lora_pair& pair : adapter.pairs) {
    const auto at = static_cast<std::size_t>(layout_.find(pair.target, pair.layer));
    held_[index * layout_.places().size() + at] = {static_cast<std::int32_t>(pair.rank), pair.scale};
  }
  ORCD_CUDA(cudaEventRecord(sent_.get(), stream_));
  upload_.emplace(upload{index, adapter_pieces(layout_, adapter), std::chrono::steady_clock::now()});
  return {};
}

/// A copy from pageable memory blocks until what is before it in its stream has been done, so that one is
/// begun only where nothing is.
bool cuda_adapters::go_on() {
  if (!upload_) return true;
  try {
    const cudaError_t status = cudaEventQuery(sent_.get());
    if (status == cudaErrorNotReady) {
      if (std::chrono::steady_clock::now() - upload_->begin < upload_time_max) return false;
      throw engine::accelerator_failure(engine::errc::cuda_error, "a LoRA adapter was not copied in time");
    }
    ORCD_CUDA(status);
    if (upload_->all_sent) {
      present_[upload_->index] = true;
      upload_.reset();
      return true;
    }
    const auto piece = upload_->pieces.next(adapter_staged_floats);
    copy_piece(piece);
    if (piece.empty()) write_held(upload_->index);
    upload_->all_sent = piece.empty();
    ORCD_CUDA(cudaEventRecord(sent_.get(), copy_stream_.get()));
    return false;
  } catch (const engine::accelerator_failure&) {
    upload_.reset();
    throw;
  }
}

void cuda_adapters::copy_piece(std::span<const adapter_part> piece) {
  auto* to = arena_.at<float>(places_.staging);
  float* const room = arena_.at<float>(places_.values) + upload_->index * layout_.floats();
  for (const adapter_part& part : piece) {
    ORCD_CUDA(cudaMemcpyAsync(to, part.from, part.count * sizeof(float), cudaMemcpyHostToDevice,
                              copy_stream_.get()));
    to += part.count;
  }
  to = arena_.at<float>(places_.staging);
  for (const adapter_part& part : piece) {
    ORCD_CUDA(kernels::launch_lora_store(
        {to, part.first, part.count, part.width, part.row_step, part.column_step, room + part.to},
        copy_stream_.get()));
    to += part.count;
  }
}

void cuda_adapters::write_held(std::uint32_t index) {
  const std::size_t each = layout_.places().size();
  ORCD_CUDA(cudaMemcpyAsync(arena_.at<kernels::lora_held>(places_.held) + index * each, &held_[index * each],
                            each * sizeof(kernels::lora_held), cudaMemcpyHostToDevice, copy_stream_.get()));
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
    const auto same = [&](const auto& other) { return other.index == adapters[i].index; };
    ORCD_ENSURE(std::none_of(adapters.begin(), adapters.begin() + static_cast<std::ptrdiff_t>(i), same));
    args.words[1 + 2 * i] = static_cast<std::int32_t>(adapters[i].index);
    args.words[2 + 2 * i] = std::bit_cast<std::int32_t>(adapters[i].strength);
  }
  now.assign(adapters.begin(), adapters.end());
  if (described_ == slot) described_.reset();
  ORCD_CUDA(kernels::launch_write_words(args, stream_));
}

void cuda_adapters::begin_step(std::span<const engine::slot_id> slots) noexcept {
  some_ = false;
  program_takes_ = false;
  if (room_.count == 0) return;
  one_slot_ = slots.size() == 1;
  std::fill(step_has_.begin(), step_has_.end(), std::uint8_t{0});
  const std::size_t each = layout_.places().size();
  std::uint32_t adapters = 0;
  std::uint32_t ranks = 0;  // the highest of each adapter
  for (const engine::slot_id slot : slots) {
    for (const engine::active_adapter& one : in_use_[static_cast<std::size_t>(slot)]) {
      some_ = true;
      const kernels::lora_held* const held = &held_[one.index * each];
      std::int32_t highest = 0;
      for (std::size_t place = 0; place < each; ++place) {
        step_has_[place] = static_cast<std::uint8_t>(step_has_[place] | (held[place].rank > 0 ? 1 : 0));
        highest = std::max(highest, held[place].rank);
      }
      ++adapters;
      ranks += static_cast<std::uint32_t>(highest);
    }
  }
  // A phase has at most lora_matrices_max pairs of an adapter.
  program_takes_ = some_ && one_slot_ && kernels::lora_matrices_max * ranks <= kernels::program_inner_max &&
                   kernels::lora_matrices_max * adapters <= kernels::program_pairs_max &&
                   kind_of_step() < graph_kinds;
  if (program_takes_) step_slot_ = slots.front();
}

const adapter_place& cuda_adapters::place_of(std::int32_t at) const noexcept {
  return layout_.places()[static_cast<std::size_t>(at)];
}

kernels::lora_matrix cuda_adapters::matrix_of(std::int32_t at, std::uint32_t y_at) const noexcept {
  const adapter_place& place = place_of(at);
  return {static_cast<std::uint32_t>(at), place.out, y_at, place.a_at, place.b_at};
}

kernels::lora_tables cuda_adapters::tables() const noexcept {
  return {arena_.at<kernels::lora_held>(places_.held), static_cast<std::uint32_t>(layout_.places().size()),
          arena_.at<float>(places_.values), layout_.floats()};
}

kernels::program_adapters cuda_adapters::write_program(std::span<const adapted_product> products,
                                                       std::uint32_t phases, std::uint64_t* inner) {
  std::vector<kernels::phase_matrices> of(phases);
  for (const adapted_product& product : products) {
    kernels::phase_matrices& phase = of.at(product.phase);
    phase.in = product.in;
    for (const lora_output& one : product.outputs) {
      const std::int32_t at = layout_.find(one.target, product.layer);
      if (at < 0) continue;
      ORCD_ENSURE(phase.count < kernels::lora_matrices_max && place_of(at).in == product.in);
      phase.matrices[phase.count++] = matrix_of(at, one.y_at);
    }
  }
  program_phases_ = phases;
  ORCD_CUDA(cudaMemcpy(arena_.at<kernels::phase_matrices>(places_.matrices), of.data(),
                       of.size() * sizeof(of[0]), cudaMemcpyHostToDevice));
  return {arena_.at<kernels::phase_pairs>(places_.pairs), tables().values, inner};
}

void cuda_adapters::describe_to_program() {
  if (described_ == step_slot_) return;
  const auto slot = static_cast<std::size_t>(step_slot_);
  ORCD_CUDA(
      kernels::launch_describe_adapters({arena_.at<kernels::phase_matrices>(places_.matrices),
                                         program_phases_, arena_.at<kernels::lora_slot>(places_.slots) + slot,
                                         tables(), arena_.at<kernels::phase_pairs>(places_.pairs)},
                                        stream_));
  described_ = step_slot_;
}

bool cuda_adapters::changes_gate_up(std::uint32_t layer) const noexcept {
  const auto outputs = gate_up_outputs(0);
  return std::any_of(outputs.begin(), outputs.end(),
                     [&](const lora_output& one) { return step_has(layout_.find(one.target, layer)); });
}

/// Columns of a graph are of any slots, also if there is one column.
void cuda_adapters::begin_graph(std::uint32_t kind) noexcept {
  step_has_ = graph_has_[kind];
  one_slot_ = false;
  some_ = true;
}

std::uint32_t cuda_adapters::kind_of_step() const noexcept {
  for (std::uint32_t kind = 0; kind < graph_kinds; ++kind) {
    bool all = true;
    for (std::size_t place = 0; place < step_has_.size(); ++place)
      all = all && step_has_[place] <= graph_has_[kind][place];
    if (all) return kind;
  }
  return graph_kinds;
}

kernels::lora_add_args cuda_adapters::args_of(std::span<const lora_output> outputs, std::uint32_t layer,
                                              const lora_input& x, std::uint32_t columns,
                                              const kernels::step_token* steps,
                                              const std::int32_t* rows) const noexcept {
  kernels::lora_add_args args;
  for (const lora_output& one : outputs) {
    const std::int32_t at = layout_.find(one.target, layer);
    if (!step_has(at)) continue;
    ORCD_ENSURE(args.count < kernels::lora_matrices_max);
    args.matrices[args.count++] = matrix_of(at, one.y_at);
    args.in = place_of(at).in;
  }
  args.of = {steps, rows, arena_.at<kernels::lora_slot>(places_.slots), columns,
             one_slot_ && rows == nullptr};
  args.tables = tables();
  args.rank_max = room_.rank_max;
  args.halves = x.halves;
  args.floats = x.floats;
  args.x_stride = x.stride;
  args.inner = arena_.at<float>(places_.inner);
  return args;
}

void cuda_adapters::prepare_pass(std::uint32_t columns, const kernels::step_token* steps) {
  found_ = nullptr;
  if (!some_ || columns > adapter_found_columns || (one_slot_ && columns > 1)) return;
  kernels::lora_find_args args;
  args.of = {steps, nullptr, arena_.at<kernels::lora_slot>(places_.slots), columns, false};
  args.tables = tables();
  args.found = arena_.at<kernels::lora_found>(places_.found);
  ORCD_CUDA(kernels::launch_lora_find(args, stream_));
  found_ = args.found;
}

kernels::lora_next cuda_adapters::next_of(lora_target target, std::uint32_t layer) const noexcept {
  kernels::lora_next next;
  if (!is_of_products(target)) return next;
  const auto is_of = [&](std::span<const lora_target> product) {
    return std::find(product.begin(), product.end(), target) != product.end();
  };
  auto product = static_cast<std::size_t>(std::find_if(std::begin(products), std::end(products), is_of) -
                                          std::begin(products));
  for (std::size_t i = 0; i < std::size(products) && next.count == 0; ++i) {
    if (++product == std::size(products)) {
      product = 0;
      ++layer;
    }
    for (const lora_target one : products[product]) {
      const std::int32_t at = layout_.find(one, layer);
      if (!step_has(at) || next.count == kernels::lora_matrices_max) continue;
      next.matrices[next.count++] = matrix_of(at, 0);
      next.in = place_of(at).in;
    }
  }
  return next;
}

void cuda_adapters::add(std::span<const lora_output> outputs, std::uint32_t layer, const lora_input& x,
                        float* y, std::uint32_t y_stride, std::uint32_t columns,
                        const kernels::step_token* steps, const std::int32_t* rows) {
  if (!some_) return;
  kernels::lora_add_args args = args_of(outputs, layer, x, columns, steps, rows);
  if (args.count == 0) return;
  args.y = y;
  args.y_stride = y_stride;
  ORCD_CUDA(kernels::launch_lora(args, stream_, {next_of(outputs.front().target, layer), found_}));
}

void cuda_adapters::add_gate_up(std::uint32_t layer, const lora_input& x, std::uint32_t width, bool clamped,
                                __half* act, std::uint32_t act_stride, std::uint32_t columns,
                                const kernels::step_token* steps) {
  kernels::lora_add_args args = args_of(gate_up_outputs(width), layer, x, columns, steps, nullptr);
  args.y = gate_up();
  args.y_stride = 2 * width;
  args.gated = {act, act_stride, width, clamped};
  ORCD_CUDA(kernels::launch_lora(args, stream_, {next_of(lora_target::ffn_gate_up, layer), found_}));
}

}  // namespace orcd::gpu
