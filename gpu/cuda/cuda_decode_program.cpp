// Plans the decode steps that are one kernel, and copies the tables to the device, when the model is loaded.
#include <cuda_fp16.h>

#include <algorithm>

#include "engine/base/ensure.hpp"
#include "gpu/cuda/cuda_forward.hpp"
#include "gpu/plan/decode_program_plan.hpp"
#include "kernels/decode_program/decode_program_launch.hpp"
#include "kernels/decode_program/program_codes.hpp"

namespace orcd::gpu {

void cuda_forward::plan_layers(decode_program_plan& plan) {
  const auto flagged = [&](std::uint64_t offset) { return at<std::uint64_t>(offset); };
  auto* const residual = flagged(layout_.flagged.residual);
  auto* const qkv = flagged(layout_.flagged.qkv);
  auto* const attended = flagged(layout_.flagged.attended);
  auto* const activated = flagged(layout_.flagged.activated);
  const auto add = [&](kernels::packed_matmul_args args, const float* norm, const std::uint64_t* in,
                       std::uint64_t* out, std::uint32_t layer = 0,
                       std::span<const lora_output> adapted = {}) {
    if (!adapted.empty())
      adapted_products_.push_back({static_cast<std::uint32_t>(plan.phases().size()),
                                   layer,
                                   args.w[0].cols,
                                   {adapted.begin(), adapted.end()}});
    if (args.experts == nullptr) args.columns = 1;
    if (norm != nullptr) args_.norm_inside(args, norm);
    plan.add_matmul(args, in, out);
  };
  plan.add_begin(args_.o_of(0), residual);
  for (std::uint32_t layer = 0; layer < spec_.layers.size(); ++layer) {
    const cuda_layer_weights& w = weights_.layers[layer];
    const lora_output o_output{engine::lora_target::attn_output, 0};
    const lora_output down_output{engine::lora_target::ffn_down, 0};
    add(args_.qkv_of(layer), w.attn_norm, residual, qkv, layer, qkv_outputs(layer));
    plan.add_attention(args_.attention_of(layer, 1), qkv, attended, flagged(layout_.flagged.page_partials));
    add(args_.o_of(layer), nullptr, attended, residual, layer, {&o_output, 1});
    if (spec_.layers[layer].ffn == engine::ffn_kind::moe) {
      auto* const logits = flagged(layout_.flagged.router_logits);
      auto* const expert_out = flagged(layout_.flagged.expert_out);
      plan.add_route(args_.route_of(layer, 1), residual, logits);
      add(args_.expert_gate_up_of(layer, spec_.experts_used), w.ffn_norm, logits, activated);
      add(args_.expert_down_of(layer, spec_.experts_used), nullptr, activated, expert_out);
      plan.add_combine(args_.combine_of(1), expert_out, residual);
    } else {
      add(args_.gate_up_of(layer), w.ffn_norm, residual, activated, layer,
          gate_up_outputs(spec_.layers[layer].ffn_size));
      add(args_.down_of(layer), nullptr, activated, residual, layer, {&down_output, 1});
    }
  }
}

void cuda_forward::write_program() {
  const std::uint32_t blocks = std::min(kernels::decode_program_blocks(), kernels::program_blocks_max);
  if (blocks == 0) return;
  decode_program_plan plan(blocks, program_sequences(spec_, extents_));
  if (spec_.integer_activations)
    plan_ternary_layers(plan);
  else
    plan_layers(plan);
  if (!plan.fits()) return;
  kernels::packed_matmul_args logits = args_.head_of();
  logits.columns = 1;
  const std::size_t body = plan.phases().size();
  args_.norm_inside(logits, weights_.output_norm);
  const bool head_has_kernel = !spec_.integer_activations || (kernels::format_bit(logits.w[0].format) &
                                                              kernels::ternary_code::has.formats) != 0;
  program_has_head_ = has_plain_head(spec_) && head_has_kernel &&
                      plan.add_head(logits, at<std::uint64_t>(layout_.flagged.residual));
  const auto& phases = plan.phases();
  const auto& shares = plan.shares();
  ORCD_ENSURE(phases.size() <= phases_max(spec_) &&
              shares.size() / blocks <= share_rows_max(spec_, program_sequences(spec_, extents_)));
  auto* const to = at<std::byte>(layout_.program);
  const std::size_t phase_bytes = phases.size() * sizeof(phases[0]);
  ORCD_CUDA(cudaMemcpy(to, phases.data(), phase_bytes, cudaMemcpyHostToDevice));
  ORCD_CUDA(
      cudaMemcpy(to + phase_bytes, shares.data(), shares.size() * sizeof(shares[0]), cudaMemcpyHostToDevice));
  kernels::decode_program program;
  program.phases = at<kernels::decode_phase>(layout_.program);
  program.shares = reinterpret_cast<const kernels::block_share*>(to + phase_bytes);
  for (std::uint32_t i = 0; i < std::min<std::size_t>(kernels::phase_slots, phases.size()); ++i)
    program.first_shares[i] = plan.row_of(i);
  program.blocks = blocks;
  program.steps = steps();
  program.width = plan.width();
  program.logits = logits.out;
  program.padded_head_width = plan.padded_head_width();
  program.experts = plan.experts();
  program.needs = plan.needs();
  program.state = at<kernels::program_state>(layout_.program_state);
  program.words = at<std::uint64_t>(layout_.flagged.residual);
  program.word_count = (layout_.flagged.end - layout_.flagged.residual) / sizeof(std::uint64_t);
  if (extents_.phase_stamps) program.stamps = at<std::uint64_t>(layout_.program_stamps);
  for (std::uint32_t sequences = 1; plan.fits(sequences); ++sequences) {
    program.sequences = sequences;
    program.work_bytes = plan.work_bytes(sequences);
    program.attention_at = sequences == 1 ? plan.attention_at() : 0;
    program.kept_bytes = plan.kept_bytes(sequences);
    program.count = static_cast<std::uint32_t>(sequences == 1 ? phases.size() : body);
    program.key = sequences == 1 && program_has_head_ ? at<unsigned long long>(layout_.key) : nullptr;
    programs_.push_back(program);
  }
}

}  // namespace orcd::gpu
