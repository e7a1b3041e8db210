#include "app/inspect/gpu_plan.hpp"

#include "engine/model/kv_type.hpp"
#include "gpu/plan/adapter_arena.hpp"
#include "gpu/plan/device_memory_plan.hpp"
#include "gpu/plan/draft_room.hpp"
#include "gpu/plan/latent_weights.hpp"
#include "gpu/plan/model_support.hpp"
#include "gpu/plan/work_layout.hpp"

namespace orcd::app {
namespace {

/// Saturates: what is absurd does not fit.
std::uint64_t sum(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t out = 0;
  return __builtin_add_overflow(a, b, &out) ? ~std::uint64_t{0} : out;
}
std::uint64_t product(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t out = 0;
  return __builtin_mul_overflow(a, b, &out) ? ~std::uint64_t{0} : out;
}

gpu::cuda_extents extents_of(const engine::model_spec& spec, const gpu_plan_request& request,
                             std::uint32_t context, std::uint32_t kv_pages) noexcept {
  engine::accelerator_config config;
  config.slots = request.slots;
  config.context_tokens = context;
  config.kv = request.kv;
  config.kv_pages = kv_pages;
  config.adapters = request.adapters;
  config.draft_tokens = gpu::draft_tokens_wanted;
  config.chunk_tokens = request.chunk_tokens;
  return gpu::extents_for(spec, config, gpu::choices_for(spec, config));
}

/// What a context of so many positions makes of an engine.
struct engine_bytes {
  std::uint64_t kv = 0, drafts = 0, workspace = 0;
};

engine_bytes bytes_of(const engine::model_spec& spec, const gpu_plan_request& request, std::uint32_t context,
                      std::uint32_t kv_pages) noexcept {
  const gpu::cuda_extents extents = extents_of(spec, request, context, kv_pages);
  const std::uint64_t logits = product(request.slots, product(spec.vocab, sizeof(float)));
  engine_bytes out;
  out.kv = product(extents.memory_pages(), gpu::kv_page_bytes(spec, request.kv));
  out.drafts =
      gpu::plan_drafts(spec, request.slots, extents.pages_per_slot(), gpu::draft_tokens_wanted).bytes;
  out.workspace = gpu::sampler_layout(spec, extents).end - logits - out.drafts;
  return out;
}

std::uint64_t required_of(const gpu_plan& plan, const engine_bytes& bytes) noexcept {
  const std::uint64_t work = sum(bytes.workspace, sum(plan.logits_bytes, bytes.drafts));
  const std::uint64_t engine = sum(sum(bytes.kv, work), sum(plan.adapters_bytes, plan.context_bytes));
  const std::uint64_t all = sum(product(plan.engines, engine), product(plan.copies, plan.weights_bytes));
  return sum(all, plan.reserve_bytes);
}

/// The KV cache is made of whole pages, so that contexts of whole pages are all there are to choose from.
std::uint32_t context_max(const gpu_plan& plan, const engine::model_spec& spec,
                          const gpu_plan_request& request) {
  std::uint32_t pages = spec.context_length / engine::kv_page_positions;
  std::uint32_t fit = 0;
  while (fit < pages) {
    const std::uint32_t half = fit + (pages - fit + 1) / 2;
    const std::uint32_t context = half * engine::kv_page_positions;
    if (required_of(plan, bytes_of(spec, request, context, 0)) <= *plan.vram_bytes) {
      fit = half;
    } else {
      pages = half - 1;
    }
  }
  return fit * engine::kv_page_positions;
}

/// Whatever the rest leaves.
std::uint64_t kv_tokens_max(const gpu_plan& plan, const engine::model_spec& spec,
                            const gpu_plan_request& request) {
  const std::uint64_t rest = required_of(plan, {0, plan.drafts_bytes, plan.workspace_bytes});
  if (rest >= *plan.vram_bytes) return 0;
  const std::uint64_t pages =
      (*plan.vram_bytes - rest) / request.engines / gpu::kv_page_bytes(spec, request.kv);
  return pages * engine::kv_page_positions;
}

}  // namespace

engine::result<gpu_plan> plan_gpu(const engine::model& m, const gpu_plan_request& request) {
  if (const auto taken = gpu::check_cuda_support(m.spec); !taken) return taken.error();
  gpu::device_plan_request one;
  one.slots = request.slots;
  one.context = request.context;
  one.kv_pages = request.kv_pages;
  one.kv = request.kv;
  const gpu::adapter_layout layout(m, request.adapters);
  const gpu::cuda_extents extents = extents_of(m.spec, request, request.context, request.kv_pages);
  one.adapters_bytes =
      gpu::adapter_arena(m, request.adapters, layout, request.slots, extents.adapted_columns()).bytes;
  const auto planned = gpu::plan_device_memory(gpu::with_parted_shapes(m), one);
  if (!planned) return planned.error();
  gpu_plan out;
  out.engines = request.engines;
  out.copies = request.shared_weights ? 1 : request.engines;
  out.weights_bytes = planned->weights_bytes;
  out.kv_bytes = planned->kv_bytes;
  out.logits_bytes = planned->logits_bytes;
  out.adapters_bytes = planned->adapters_bytes;
  const engine_bytes bytes = bytes_of(m.spec, request, request.context, request.kv_pages);
  out.drafts_bytes = bytes.drafts;
  out.workspace_bytes = bytes.workspace;
  out.context_bytes = cuda_context_bytes;
  out.reserve_bytes = gpu::driver_reserve_bytes;
  out.required_bytes = required_of(out, bytes);
  out.vram_bytes = request.vram_bytes;
  if (!out.vram_bytes) return out;
  out.context_max = context_max(out, m.spec, request);
  out.kv_tokens_max = kv_tokens_max(out, m.spec, request);
  return out;
}

}  // namespace orcd::app
