#include "gpu/plan/device_memory_plan.hpp"

#include <string>

#include "engine/base/permanent.hpp"
#include "engine/base/saturating.hpp"
#include "gpu/plan/weight_layout.hpp"
#include "kernels/attention/attention_args.hpp"
#include "kernels/attention/latent_args.hpp"

namespace orcd::gpu {

using engine::errc;
using engine::error;
using engine::saturating_product;
using engine::saturating_sum;

std::uint64_t kv_half_page_bytes(engine::kv_type type, std::uint32_t kv_heads, std::uint32_t width) noexcept {
  const std::uint64_t row = engine::kv_row_bytes(type, kernels::padded_head_width(width));
  return saturating_product(saturating_product(kv_heads, row), engine::kv_page_positions);
}

std::uint64_t kv_layer_page_bytes(const engine::model_spec& spec, const engine::layer_spec& layer,
                                  engine::kv_types types) noexcept {
  if (spec.latent) return kernels::latent_page_bytes(spec.latent.rank, spec.latent.rotated);  // in f16
  return saturating_sum(kv_half_page_bytes(types.keys, layer.cached_heads(), layer.key_length),
                        kv_half_page_bytes(types.values, layer.cached_heads(), layer.value_length));
}

std::uint64_t kv_page_bytes(const engine::model_spec& spec, engine::kv_types types) noexcept {
  std::uint64_t bytes = 0;
  for (const engine::layer_spec& layer : spec.layers)
    bytes = saturating_sum(bytes, kv_layer_page_bytes(spec, layer, types));
  return bytes;
}

std::uint64_t planned_kv_bytes(const engine::model_spec& spec, std::uint32_t slots, std::uint32_t context,
                               engine::kv_types types) noexcept {
  const std::uint64_t pages =
      (std::uint64_t{context} + engine::kv_page_positions - 1) / engine::kv_page_positions;
  return saturating_product(saturating_product(slots, pages), kv_page_bytes(spec, types));
}

engine::result<engine::memory_plan> plan_device_memory(const engine::model& m,
                                                       const device_plan_request& request) {
  const bool values = !m.spec.latent && request.kv.values == engine::kv_type::f32;
  if (request.kv.keys == engine::kv_type::f32 || values)
    return engine::made_permanent({errc::worker_start_failed,
                                   "a KV cache in f32 is of the host backend alone",
                                   request.kv.keys == engine::kv_type::f32 ? "kv-type-k" : "kv-type-v"});
  if (m.spec.latent && request.kv.keys != engine::kv_type::f16)
    return engine::made_permanent({errc::worker_start_failed,
                                   "a KV cache in " + std::string(to_string(request.kv.keys)) +
                                       " of a model with latent attention is of the host backend alone",
                                   "kv-type-k"});
  const std::uint32_t widest = kernels::padded_head_width(m.spec.key_length_max());
  if (!m.spec.latent && !kernels::attention_takes(widest, request.kv.keys, request.kv.values))
    return engine::made_permanent({errc::worker_start_failed,
                                   "heads of " + std::to_string(m.spec.key_length_max()) +
                                       " values need a KV cache in f16 or in q8_0, both halves alike",
                                   "kv-type-k"});
  const auto layout = lay_out_weights(m, 0);
  if (!layout) return layout.error();
  const engine::memory_plan plan{
      .weights_bytes = layout->bytes,
      .kv_bytes = request.kv_bytes == 0 ? planned_kv_bytes(m.spec, request.slots, request.context, request.kv)
                                        : request.kv_bytes,
      .workspace_bytes = request.workspace_bytes,
      .logits_bytes = saturating_product(request.slots, saturating_product(m.spec.vocab, sizeof(float))),
      .adapters_bytes = request.adapters_bytes};
  if (request.kv_bytes_max != 0 && plan.kv_bytes > request.kv_bytes_max) {
    return engine::made_permanent(
        {errc::insufficient_vram, "the KV cache needs " + std::to_string(plan.kv_bytes) + " bytes for " +
                                      std::to_string(request.slots) + " x " +
                                      std::to_string(request.context) + " positions, the limit is " +
                                      std::to_string(request.kv_bytes_max)});
  }
  return plan;
}

engine::result<void> check_vram(const engine::memory_plan& plan, std::uint64_t staging_bytes,
                                const vram_supply& supply) {
  std::uint64_t required = saturating_sum(plan.weights_bytes, plan.kv_bytes);
  required = saturating_sum(required, saturating_sum(plan.workspace_bytes, plan.logits_bytes));
  required = saturating_sum(required, saturating_sum(plan.adapters_bytes, plan.media_bytes));
  required = saturating_sum(required, plan.states_bytes);
  required = saturating_sum(required, saturating_sum(staging_bytes, driver_reserve_bytes));
  if (required <= supply.free_bytes) return {};
  const std::string adapters =
      plan.adapters_bytes == 0 ? "" : ", LoRA adapters " + std::to_string(plan.adapters_bytes);
  const std::string states =
      plan.states_bytes == 0 ? "" : ", recurrent states " + std::to_string(plan.states_bytes);
  const std::string media = plan.media_bytes == 0 ? "" : ", media " + std::to_string(plan.media_bytes);
  return error(errc::insufficient_vram,
               "the model needs " + std::to_string(required) + " bytes of VRAM (weights " +
                   std::to_string(plan.weights_bytes) + ", KV cache " + std::to_string(plan.kv_bytes) +
                   ", workspace " + std::to_string(plan.workspace_bytes) + ", logits " +
                   std::to_string(plan.logits_bytes) + adapters + states + media +
                   ", staging while loading " + std::to_string(staging_bytes) + ", driver " +
                   std::to_string(driver_reserve_bytes) + "), available are " +
                   std::to_string(supply.free_bytes) + " of " + std::to_string(supply.total_bytes) +
                   " on GPU " + describe({&supply.gpu, 1}));
}

}  // namespace orcd::gpu
