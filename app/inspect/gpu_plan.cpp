#include "app/inspect/gpu_plan.hpp"

#include <algorithm>

#include "engine/model/kv_type.hpp"
#include "gpu/plan/adapter_arena.hpp"
#include "gpu/plan/device_memory_plan.hpp"
#include "gpu/plan/draft_room.hpp"
#include "gpu/plan/latent_weights.hpp"
#include "gpu/plan/model_support.hpp"

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

std::uint64_t required_of(const gpu_plan& plan, std::uint64_t kv_bytes, std::uint64_t drafts_bytes) noexcept {
  const std::uint64_t logits = sum(plan.logits_bytes, drafts_bytes);
  const std::uint64_t engine = sum(sum(kv_bytes, logits), sum(plan.adapters_bytes, plan.beside_bytes));
  const std::uint64_t all = sum(product(plan.engines, engine), product(plan.copies, plan.weights_bytes));
  return sum(all, plan.reserve_bytes);
}

std::uint64_t drafts_of(const engine::model_spec& spec, const gpu_plan_request& request,
                        std::uint32_t context) noexcept {
  const std::uint32_t page = engine::kv_page_positions;
  const std::uint32_t pages = context / page + (context % page == 0 ? 0 : 1);
  return gpu::plan_drafts(spec, request.slots, pages, gpu::draft_tokens_wanted).bytes;
}

/// The KV cache is made of whole pages, so that contexts of whole pages are all there are to choose from.
std::uint32_t context_max(const gpu_plan& plan, const engine::model_spec& spec,
                          const gpu_plan_request& request) {
  std::uint32_t pages = spec.context_length / engine::kv_page_positions;
  std::uint32_t fit = 0;
  while (fit < pages) {
    const std::uint32_t half = fit + (pages - fit + 1) / 2;
    const std::uint32_t context = half * engine::kv_page_positions;
    const auto kv = gpu::planned_kv_bytes(spec, request.slots, context, request.kv);
    if (required_of(plan, kv, drafts_of(spec, request, context)) <= *plan.vram_bytes) {
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
  const std::uint64_t rest = required_of(plan, 0, plan.drafts_bytes);
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
  const std::uint32_t columns = std::max(gpu::device_chunk_tokens, request.slots);
  one.adapters_bytes = gpu::adapter_arena(m, request.adapters, layout, request.slots, columns).bytes;
  const auto planned = gpu::plan_device_memory(gpu::with_parted_shapes(m), one);
  if (!planned) return planned.error();
  gpu_plan out;
  out.engines = request.engines;
  out.copies = request.shared_weights ? 1 : request.engines;
  out.weights_bytes = planned->weights_bytes;
  out.kv_bytes = planned->kv_bytes;
  out.logits_bytes = planned->logits_bytes;
  out.adapters_bytes = planned->adapters_bytes;
  out.drafts_bytes = drafts_of(m.spec, request, request.context);
  out.beside_bytes = engine_beside_bytes;
  out.reserve_bytes = gpu::driver_reserve_bytes;
  out.required_bytes = required_of(out, out.kv_bytes, out.drafts_bytes);
  out.vram_bytes = request.vram_bytes;
  if (!out.vram_bytes) return out;
  out.context_max = context_max(out, m.spec, request);
  out.kv_tokens_max = kv_tokens_max(out, m.spec, request);
  return out;
}

}  // namespace orcd::app
