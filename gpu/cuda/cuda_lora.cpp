// What LoRA adapters add to the products of a step; nothing where no sequence of the step has one.
#include <cuda_fp16.h>

#include "gpu/cuda/cuda_adapters.hpp"
#include "gpu/cuda/cuda_forward.hpp"
#include "kernels/decode_program/program_codes.hpp"

namespace orcd::gpu {

using engine::lora_target;

bool cuda_forward::adapts() const noexcept {
  return adapters_ != nullptr && adapters_->some();
}

/// Before the layers of a pass.
void cuda_forward::prepare_adapters(std::uint32_t columns) {
  if (adapts()) adapters_->prepare_pass(columns, steps());
}

/// What products leave to the kernels that run beside them.
std::uint32_t cuda_forward::shared_bytes_left() const noexcept {
  return adapts() ? kernels::lora_shared_bytes : 0;
}

void cuda_forward::use_adapters(cuda_adapters& adapters) {
  adapters_ = &adapters;
  if (!adapters.places_fit_program()) return;
  if (programs_.empty() || !adapters.has_room() || !kernels::has_adapted_kernel(programs_.front().needs))
    return;
  adapted_program_ = programs_.front();
  adapted_program_->stamps = nullptr;
  adapted_program_->adapters = adapters.write_program(adapted_products_, programs_.front().count,
                                                      at<std::uint64_t>(layout_.flagged.inner));
}

bool cuda_forward::is_one_kernel(std::uint32_t sequences) const noexcept {
  if (sequences > programs_.size()) return false;
  return !adapts() || (sequences == 1 && adapted_program_ && adapters_->program_takes());
}

const kernels::decode_program& cuda_forward::program_of_step(std::uint32_t sequences) {
  if (!adapts()) return programs_[sequences - 1];
  adapters_->describe_to_program();
  return *adapted_program_;
}

unsigned long long* cuda_forward::keys(std::uint32_t sequences) const noexcept {
  const bool has_key = sequences == 1 && program_has_head_ && is_one_kernel(sequences);
  return has_key ? at<unsigned long long>(layout_.key) : nullptr;
}

void cuda_forward::add_lora(std::span<const lora_output> outputs, std::uint32_t layer, const lora_input& x,
                            float* y, std::uint32_t y_stride, std::uint32_t columns,
                            const std::int32_t* rows) {
  if (!adapts()) return;
  adapters_->add(outputs, layer, x, y, y_stride, columns, steps(), rows);
}

std::array<lora_output, 4> cuda_forward::qkv_outputs(std::uint32_t layer) const noexcept {
  const engine::layer_spec& spec = spec_.layers[layer];
  const std::uint32_t q = spec.q_rows();
  const std::uint32_t k = spec.k_rows();
  return {{{lora_target::attn_qkv, 0},
           {lora_target::attn_q, 0},
           {lora_target::attn_k, q},
           {lora_target::attn_v, q + k}}};
}

void cuda_forward::add_qkv_lora(std::uint32_t layer, const lora_input& x, std::uint32_t columns) {
  const engine::layer_spec& spec = spec_.layers[layer];
  add_lora(qkv_outputs(layer), layer, x, at<float>(layout_.qkv), spec.qkv_rows(), columns);
}

void cuda_forward::add_gate_up_lora(std::uint32_t layer, const lora_input& x, float* out,
                                    std::uint32_t columns) {
  const std::uint32_t ffn = spec_.layers[layer].ffn_size;
  add_lora(gate_up_outputs(ffn), layer, x, out, 2 * ffn, columns);
}

void cuda_forward::add_residual_lora(lora_target target, std::uint32_t layer, const lora_input& x,
                                     std::uint32_t columns) {
  const lora_output output{target, 0};
  add_lora({&output, 1}, layer, x, at<float>(layout_.residual), spec_.embedding, columns);
}

/// `norm` is that of the residual stream, or null where it has been computed.
/// If adapters of the step change gate or up, those of all columns stay in f32 until that has been added; the
/// activation has the product's own bits. `order` is that of the norm and of the activation.
void cuda_forward::gate_up(std::uint32_t layer, const float* norm, std::uint32_t columns,
                           kernels::half_order order) {
  kernels::packed_matmul_args args = args_.gate_up_of(layer);
  args.x_order = order;
  if (norm == nullptr) args_.norm_outside(args);
  if (!adapts() || !adapters_->changes_gate_up(layer)) return multiply(args, norm, columns);
  const bool clamped = args.output == kernels::matmul_output::swiglu_clamped;
  const std::uint32_t ffn = spec_.layers[layer].ffn_size;
  args.output = kernels::matmul_output::store;
  args.out = adapters_->gate_up();
  args.out_stride = 2 * ffn;
  multiply(args, norm, columns);
  adapters_->add_gate_up(layer, {args.x, nullptr, args.x_stride}, ffn, clamped, args.act, args.act_stride,
                         columns, steps());
}

/// Makes a norm leave its values in f32 as well, if adapters need them.
lora_input cuda_forward::keep_floats(kernels::norm_to_int8_args& norm) const {
  if (!adapts()) return {};
  norm.floats = adapters_->floats();
  return {nullptr, norm.floats, norm.width};
}

}  // namespace orcd::gpu
