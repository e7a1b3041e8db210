#include "app/inspect/gpu_plan.hpp"

#include <algorithm>
#include <optional>

#include "engine/base/saturating.hpp"
#include "engine/model/kv_type.hpp"
#include "gpu/plan/adapter_arena.hpp"
#include "gpu/plan/device_memory_plan.hpp"
#include "gpu/plan/draft_room.hpp"
#include "gpu/plan/kv_layout.hpp"
#include "gpu/plan/latent_weights.hpp"
#include "gpu/plan/media/media_layout.hpp"
#include "gpu/plan/model_support.hpp"
#include "gpu/plan/work_layout.hpp"

namespace orcd::app {
namespace {

using engine::saturating_product;
using engine::saturating_sum;

/// What a worker's engine is told.
engine::accelerator_config config_of(const gpu_plan_request& request, std::uint32_t context,
                                     std::uint32_t kv_pages) noexcept {
  engine::accelerator_config config;
  config.slots = request.slots;
  config.context_tokens = context;
  config.kv = request.kv;
  config.kv_pages = kv_pages;
  config.adapters = request.adapters;
  config.draft_tokens = gpu::draft_tokens_wanted;
  config.chunk_tokens = request.chunk_tokens;
  config.boundaries = request.boundaries;
  config.media = request.media;
  config.window_groups = !request.shared_weights;  // as app/worker/weights_role.cpp has it
  return config;
}
gpu::step_choices choices_of(const engine::model_spec& spec, const gpu_plan_request& request) noexcept {
  return gpu::choices_for(spec, config_of(request, request.context, request.kv_pages));
}
/// The ones with the smallest workspace that an engine takes before it gives up.
gpu::step_choices shortest_of(const engine::model_spec& spec, const gpu_plan_request& request) noexcept {
  gpu::step_choices out = choices_of(spec, request);
  while (const auto shorter = gpu::with_shorter_steps(out)) out = *shorter;
  return out;
}

/// What a context of so many positions makes of an engine.
struct engine_bytes {
  std::uint64_t kv = 0, drafts = 0, states = 0, workspace = 0;
};

engine_bytes bytes_of(const engine::model_spec& spec, const gpu_plan_request& request, std::uint32_t context,
                      std::uint32_t kv_pages, const gpu::step_choices& choices) noexcept {
  const gpu::cuda_extents extents = gpu::extents_for(spec, config_of(request, context, kv_pages), choices);
  const std::uint64_t logits =
      saturating_product(request.slots, saturating_product(spec.vocab, sizeof(float)));
  engine_bytes out;
  out.kv = gpu::kv_layout(spec, extents).bytes;
  out.drafts =
      gpu::plan_drafts(spec, request.slots, extents.pages_per_slot(), gpu::draft_tokens_wanted).bytes;
  out.states = gpu::states_bytes(spec, extents);
  out.workspace = gpu::sampler_layout(spec, extents).end - logits - out.drafts - out.states;
  return out;
}

std::uint64_t required_of(const gpu_plan& plan, const engine_bytes& bytes) noexcept {
  const std::uint64_t work = saturating_sum(saturating_sum(bytes.workspace, bytes.states),
                                            saturating_sum(plan.logits_bytes, bytes.drafts));
  const std::uint64_t beside =
      saturating_sum(saturating_sum(plan.adapters_bytes, plan.media_bytes), plan.context_bytes);
  const std::uint64_t engine = saturating_sum(saturating_sum(bytes.kv, work), beside);
  const std::uint64_t all = saturating_sum(saturating_product(plan.engines, engine),
                                           saturating_product(plan.copies, plan.weights_bytes));
  return saturating_sum(all, plan.reserve_bytes);
}

/// The most up to `most` for which `fits` holds, as it does for all below.
template <class Condition>
std::uint32_t most_that(std::uint64_t most, const Condition& fits) {
  std::uint64_t fit = 0;
  while (fit < most) {
    const std::uint64_t half = fit + (most - fit + 1) / 2;
    if (fits(static_cast<std::uint32_t>(half))) {
      fit = half;
    } else {
      most = half - 1;
    }
  }
  return static_cast<std::uint32_t>(fit);
}

/// The KV cache is made of whole pages, so that contexts of whole pages are all there are to choose from.
std::uint32_t context_max(const gpu_plan& plan, const engine::model_spec& spec,
                          const gpu_plan_request& request) {
  const gpu::step_choices shortest = shortest_of(spec, request);
  const auto fits = [&](std::uint32_t pages) {
    const std::uint32_t context = pages * engine::kv_page_positions;
    return required_of(plan, bytes_of(spec, request, context, 0, shortest)) <= *plan.vram_bytes;
  };
  return most_that(spec.context_length / engine::kv_page_positions, fits) * engine::kv_page_positions;
}

/// Whatever the rest leaves. Groups of windows take the more the larger group 0 is, until they have all that
/// they can use.
std::uint64_t kv_tokens_max(const gpu_plan& plan, const engine::model_spec& spec,
                            const gpu_plan_request& request) {
  const gpu::step_choices shortest = shortest_of(spec, request);
  const engine_bytes least = bytes_of(spec, request, request.context, request.kv_pages, shortest);
  const std::uint64_t rest = required_of(plan, {0, plan.drafts_bytes, least.states, least.workspace});
  if (rest >= *plan.vram_bytes) return 0;
  const std::uint64_t room = (*plan.vram_bytes - rest) / request.engines;
  const auto fits = [&](std::uint32_t pages) {
    const auto extents = gpu::extents_for(spec, config_of(request, request.context, pages), shortest);
    return gpu::kv_layout(spec, extents).bytes <= room;
  };
  return std::uint64_t{most_that(std::min<std::uint64_t>(room, UINT32_MAX), fits)} *
         engine::kv_page_positions;
}

/// What depends on the length of steps: as long as an engine would have them, or as short as memory demands.
void choose_steps(const engine::model& m, const gpu_plan_request& request, gpu_plan& plan) {
  const gpu::adapter_layout layout(m, request.adapters);
  for (std::optional<gpu::step_choices> choices = choices_of(m.spec, request); choices;
       choices = gpu::with_shorter_steps(*choices)) {
    const auto config = config_of(request, request.context, request.kv_pages);
    const gpu::cuda_extents extents = gpu::extents_for(m.spec, config, *choices);
    plan.adapters_bytes =
        gpu::adapter_arena(m, request.adapters, layout, request.slots, extents.adapted_columns()).bytes;
    plan.media_bytes = gpu::media_layout(m.spec, request.media, extents).bytes;
    const engine_bytes bytes = bytes_of(m.spec, request, request.context, request.kv_pages, *choices);
    plan.kv = gpu::kv_groups_of(m.spec, extents).geometry;
    plan.kv_bytes = bytes.kv;
    plan.drafts_bytes = bytes.drafts;
    plan.states_bytes = bytes.states;
    plan.workspace_bytes = bytes.workspace;
    plan.required_bytes = required_of(plan, bytes);
    if (!plan.vram_bytes || plan.required_bytes <= *plan.vram_bytes) return;
  }
}

}  // namespace

engine::result<gpu_plan> plan_gpu(const engine::model& m, const gpu_plan_request& request) {
  if (const auto taken = gpu::check_cuda_support(m.spec); !taken) return taken.error();
  gpu::device_plan_request one;
  one.slots = request.slots;
  one.context = request.context;
  one.kv = request.kv;
  const auto planned = gpu::plan_device_memory(gpu::with_parted_shapes(m), one);
  if (!planned) return planned.error();
  const auto media = gpu::media_arena_bytes(m.spec, request.media, {});
  if (!media) return media.error();
  gpu_plan out;
  out.engines = request.engines;
  out.copies = request.shared_weights ? 1 : request.engines;
  out.weights_bytes = planned->weights_bytes;
  out.logits_bytes = planned->logits_bytes;
  out.context_bytes = cuda_context_bytes;
  out.reserve_bytes = gpu::driver_reserve_bytes;
  out.vram_bytes = request.vram_bytes;
  choose_steps(m, request, out);
  if (!out.vram_bytes) return out;
  out.context_max = context_max(out, m.spec, request);
  out.kv_tokens_max = kv_tokens_max(out, m.spec, request);
  return out;
}

}  // namespace orcd::app
