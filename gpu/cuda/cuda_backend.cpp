#include "gpu/cuda/cuda_backend.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "engine/base/ensure.hpp"
#include "engine/base/permanent.hpp"
#include "gpu/cuda/cuda_adapters.hpp"
#include "gpu/cuda/cuda_forward.hpp"
#include "gpu/cuda/cuda_resources.hpp"
#include "gpu/cuda/cuda_steps.hpp"
#include "gpu/cuda/cuda_weights.hpp"
#include "gpu/cuda/media/cuda_media.hpp"
#include "gpu/memory/allocation_counter.hpp"
#include "gpu/memory/arena_hash.hpp"
#include "gpu/plan/device_memory_plan.hpp"
#include "gpu/plan/kv_layout.hpp"
#include "gpu/plan/latent_weights.hpp"
#include "gpu/plan/model_support.hpp"
#include "gpu/plan/step_results.hpp"
#include "gpu/plan/ternary_weights.hpp"
#include "gpu/plan/work_layout.hpp"
#include "kernels/attention/paged_attention.hpp"
#include "kernels/layer/experts.hpp"

namespace orcd::gpu {
namespace {

using engine::errc;
using engine::error;

class cuda_backend final : public engine::accelerator {
 public:
  explicit cuda_backend(const cuda_backend_options& options) : options_(options) {
    if (!options_.clock.sleep) options_.clock = real_wait_clock();
    if (!options_.probe) options_.probe = cuda_pointer_probe();
  }
  ~cuda_backend() override {
    // The destroying thread need not be the one that loaded it.
    if (device_) static_cast<void>(cudaSetDevice(device_->index()));
    if (stream_.get() != nullptr) static_cast<void>(cudaStreamSynchronize(stream_.get()));
  }

  engine::result<engine::memory_plan> load(const engine::model& m, const engine::accelerator_config& config,
                                           const std::function<void(unsigned)>& progress) override;
  const engine::shared_weights* exported_weights() const noexcept override {
    return descriptor_ ? &exported_ : nullptr;
  }
  void unmap_weights() override;
  engine::result<void> map_weights(const engine::shared_weights& from) override;
  const engine::shared_cache* exported_cache() const noexcept override {
    return cache_descriptor_ ? &exported_cache_ : nullptr;
  }
  std::uint32_t chunk_tokens() const noexcept override {
    return options_.chunk_tokens == 0 ? engine::prompt_tokens_least : options_.chunk_tokens;
  }
  std::uint32_t launch_depth() const noexcept override { return steps_ ? steps_->depth() : 1; }
  std::uint32_t draft_tokens() const noexcept override { return steps_ ? steps_->draft_tokens() : 0; }
  double step_cost(std::uint32_t tokens) const noexcept override { return steps_->step_cost(tokens); }
  void launch(std::span<const engine::sequence_step> sequences,
              const engine::interrupt_flag& interrupt) override {
    ORCD_ENSURE(steps_.has_value());
    steps_->launch(sequences, interrupt);
  }
  bool collect(const engine::interrupt_flag& interrupt,
               std::vector<engine::sampled_token>& sampled) override {
    return steps_->collect(interrupt, sampled);
  }
  engine::kv_geometry kv_pages() const noexcept override {
    return steps_ ? steps_->kv_pages() : engine::kv_geometry{};
  }
  void begin(const engine::sequence_start& start) override { steps_->begin(start); }
  void extend(engine::slot_id slot, std::uint32_t group, std::uint32_t have,
              std::span<const engine::kv_page> pages) override {
    steps_->extend(slot, group, have, pages);
  }
  engine::result<void> put_adapter(std::uint32_t index, const engine::lora_adapter& adapter) override {
    ORCD_ENSURE(steps_.has_value());
    return adapters_->put(index, adapter);
  }
  engine::result<void> begin_adapter(std::uint32_t index, const engine::lora_adapter& adapter) override {
    ORCD_ENSURE(steps_.has_value());
    return adapters_->begin(index, adapter);
  }
  bool continue_adapter() override { return adapters_->go_on(); }
  void drop_adapter(std::uint32_t index) noexcept override { adapters_->drop(index); }
  std::uint32_t media_blocks() const noexcept override { return media_ ? media_->blocks() : 0; }
  void begin_medium(const engine::prepared_medium& medium, std::span<const std::uint32_t> blocks) override {
    ORCD_ENSURE(media_.has_value());
    media_->begin(medium, blocks);
  }
  bool continue_medium() override { return media_->go_on(); }
  void clear(std::uint32_t group, std::span<const engine::kv_page> pages) noexcept override {
    steps_->clear(group, pages);
  }
  bool keep_state(engine::slot_id slot, const engine::state_copy& what) noexcept override {
    return forward_->recurrence().keep_state(static_cast<std::uint32_t>(slot), what);
  }
  void release(engine::slot_id slot) noexcept override { steps_->release(slot); }
  void wait_idle() noexcept override { static_cast<void>(cudaStreamSynchronize(stream_.get())); }
  std::span<const float> logits(engine::slot_id slot) const noexcept override { return steps_->logits(slot); }
  const char* name() const noexcept override { return "cuda"; }
  bool resident() const noexcept override { return steps_.has_value(); }
  std::uint64_t vram_bytes() const noexcept override { return steps_ ? plan_.total() : 0; }
  engine::device_facts device() const override;
  std::vector<std::string> audit() override;
  bool device_lost() const noexcept override { return is_device_lost(cudaPeekAtLastError()); }

 private:
  cuda_extents extents_of(const engine::model_spec& spec, const engine::accelerator_config& config) const {
    return extents_for(spec, config, {options_.chunk_tokens, options_.one_kernel});
  }
  engine::result<engine::memory_plan> plan(const engine::model& m,
                                           const engine::accelerator_config& config) const;
  engine::result<engine::memory_plan> fitting_plan(const engine::model& shapes,
                                                   const engine::accelerator_config& config,
                                                   step_choices choices, engine::memory_plan planned);
  void allocate(const engine::model& m, const engine::accelerator_config& config,
                const std::function<void(unsigned)>& progress);
  void place_weights(const engine::model& m, const engine::weight_source& from,
                     const std::function<void(unsigned)>& progress);
  void import_weights(const engine::model& m, const engine::shared_weights& from);
  void export_weights(const engine::model& m);
  void place_cache(const engine::cache_source& from);
  void watch_residency();

  cuda_backend_options options_;
  engine::model model_;
  engine::memory_plan plan_;
  cuda_extents extents_;
  std::optional<cuda_device> device_;  ///< ends after everything below
  owned_stream stream_;
  vram_arena weights_arena_, cache_arena_, work_arena_;
  engine::file_descriptor descriptor_;  ///< of weights_arena_, where it is shared
  engine::shared_weights exported_;
  std::string layout_hash_;                   ///< where the weights are shared; else empty
  bool weights_dropped_ = false;              ///< between unmap_weights() and map_weights()
  engine::file_descriptor cache_descriptor_;  ///< of cache_arena_, likewise
  engine::shared_cache exported_cache_;
  cuda_weights weights_;
  std::optional<cuda_adapters> adapters_;
  std::optional<cuda_media> media_;
  std::optional<cuda_forward> forward_;
  std::optional<cuda_steps> steps_;
  std::optional<residency_audit> audit_;
};

std::string refused_router(const engine::model_spec& spec) {
  return std::to_string(spec.experts_used) + " of " + std::to_string(spec.experts) +
         " experts over an embedding of " + std::to_string(spec.embedding) +
         ": the CUDA router takes up to " + std::to_string(kernels::experts_used_max) + " of " +
         std::to_string(kernels::experts_max) + ", and rows of a multiple of 4 values, " +
         std::to_string(kernels::route_bytes_max / sizeof(float) / (1 + std::min(8U, spec.experts))) +
         " at most for so many experts";
}

engine::result<engine::memory_plan> cuda_backend::plan(const engine::model& m,
                                                       const engine::accelerator_config& config) const {
  if (const auto taken = check_cuda_support(m.spec); !taken) return taken.error();
  if (m.spec.vocab > kernels::sample_vocab_max) {
    return error(errc::model_load_failed, "a vocabulary of " + std::to_string(m.spec.vocab) +
                                              " rows: the CUDA sampler takes up to " +
                                              std::to_string(kernels::sample_vocab_max));
  }
  if (m.spec.experts > 0 && !kernels::route_takes(m.spec.embedding, m.spec.experts, m.spec.experts_used)) {
    return error(errc::model_load_failed, refused_router(m.spec));
  }
  if (const auto room = check_adapter_room(m, config.adapters); !room) return room.error();
  const cuda_extents extents = extents_of(m.spec, config);
  if (extents.pages() < extents.pages_per_slot()) {
    return engine::made_permanent(
        {errc::model_load_failed,
         "the KV cache has " + std::to_string(std::uint64_t{extents.pages()} * engine::kv_page_positions) +
             " positions, a slot's context is " + std::to_string(extents.context)});
  }
  const std::uint64_t logits = std::uint64_t{extents.sampling()} * m.spec.vocab * sizeof(float);
  const std::uint64_t states = states_bytes(m.spec, extents);
  auto plan = plan_device_memory(
      m, {config.slots, config.context_tokens, sampler_layout(m.spec, extents).end - logits - states,
          options_.kv_bytes_max, config.kv, kv_layout(m.spec, extents).bytes,
          cuda_adapters::bytes(m, config.adapters, extents)});
  if (!plan) return plan;
  plan->logits_bytes = logits;
  plan->states_bytes = states;
  if (options_.pinned) plan->pinned_bytes = result_ring_bytes(extents.sampling());
  const auto media = media_arena_bytes(m.spec, config.media, extents);
  if (!media) return media.error();
  plan->media_bytes = *media;
  if (config.media.encoder != nullptr) plan->pinned_bytes += media_upload::bytes(options_.pinned);
  return plan;
}

/// `planned`, or with shorter steps what fits into the device's free memory.
engine::result<engine::memory_plan> cuda_backend::fitting_plan(const engine::model& shapes,
                                                               const engine::accelerator_config& config,
                                                               step_choices choices,
                                                               engine::memory_plan planned) {
  const device_memory memory = device_->memory();
  const bool imported = config.weights.imported.has_value();
  for (;;) {
    engine::memory_plan needed = planned;
    if (imported) needed.weights_bytes = 0;
    if (config.cache.imported) needed.kv_bytes = 0;
    const std::uint64_t staging =
        std::max(imported ? 0 : upload_staging_bytes(shapes), cuda_media::staging_bytes(config.media));
    const auto fits = check_vram(needed, staging, {memory.free_bytes, memory.total_bytes, device_->info()});
    if (fits) return planned;
    const auto shorter = with_shorter_steps(choices);
    if (!shorter) return fits.error();
    choices = *shorter;
    options_.chunk_tokens = choices.chunk_tokens;
    auto next = plan(shapes, config);
    if (!next) return next.error();
    planned = *next;
  }
}

engine::result<engine::memory_plan> cuda_backend::load(const engine::model& given,
                                                       const engine::accelerator_config& config,
                                                       const std::function<void(unsigned)>& progress) {
  if (forward_)
    return error(errc::model_load_failed, "a model is loaded already; a worker serves one for its lifetime");
  ORCD_ENSURE(config.slots > 0 && config.context_tokens > 0);
  model_ = given;
  const engine::model& m = model_;
  const engine::model shapes = with_parted_shapes(given);
  const step_choices choices = choices_for(m.spec, config, {options_.chunk_tokens, options_.one_kernel});
  options_.chunk_tokens = choices.chunk_tokens;
  options_.one_kernel = choices.one_kernel;
  if (m.spec.pooling) options_.graphs = false;  // they end with the choice of a token
  auto planned = plan(shapes, config);
  if (!planned) return planned.error();
  try {
    if (!device_) {  // not again after an import that failed: what is destroyed resets the device
      auto device = cuda_device::open(options_.gpu, options_.end, options_.wait, options_.clock);
      if (!device) return device.error();
      device_.emplace(std::move(*device));
    }
    planned = fitting_plan(shapes, config, choices, *planned);
    if (!planned) return planned.error();
    const bool imported = config.weights.imported.has_value();
    if (const auto parted = part_joined_latents(model_, 0); !parted) return parted.error();
    const auto ternary = prepare_ternary_weights(model_, 0, imported, [&] { progress(0); });
    if (!ternary) return ternary.error();
    if (const auto scales = require_code_scales(m); !scales) return scales.error();
    extents_ = extents_of(m.spec, config);
    plan_ = *planned;
    allocate(m, config, progress);
  } catch (const engine::accelerator_failure& failure) {
    steps_.reset();
    forward_.reset();
    adapters_.reset();
    media_.reset();
    weights_arena_ = vram_arena();
    cache_arena_ = vram_arena();
    work_arena_ = vram_arena();
    const errc code = failure.code == errc::vram_oom ? errc::insufficient_vram : failure.code;
    return error(code, failure.what());
  }
  watch_residency();
  if (const auto failures = audit(); !failures.empty()) {
    return error(errc::model_load_failed, "the model is not in VRAM: " + failures.front());
  }
  seal_allocations();
  return plan_;
}

void cuda_backend::allocate(const engine::model& m, const engine::accelerator_config& config,
                            const std::function<void(unsigned)>& progress) {
  const sampler_layout sampler(m.spec, extents_);
  stream_ = make_stream();
  if (!config.weights.imported) weights_arena_ = vram_arena(device_->index(), plan_.weights_bytes);
  place_cache(config.cache);
  work_arena_ = vram_arena(device_->index(), sampler.end);
  place_weights(m, config.weights, progress);
  if (config.media.encoder != nullptr) {
    upload_options upload;
    upload.pinned = options_.pinned;
    media_.emplace(m.spec, config.media, extents_, device_->index(), upload, stream_.get());
  }
  forward_.emplace(m, weights_, extents_, work_arena_, cache_arena_, stream_.get(), options_.tap,
                   media_ ? media_->given() : given_media{});
  adapters_.emplace(m, config.adapters, extents_, device_->index(), stream_.get());
  forward_->use_adapters(*adapters_);
  forward_->ban(config.banned_tokens);
  const cuda_steps_options options{options_.pinned, options_.graphs && !options_.tap, options_.keep_logits};
  steps_.emplace(*forward_, sampler, work_arena_, extents_, m.spec.vocab, config, options, stream_.get(),
                 *adapters_, media_ ? &*media_ : nullptr);
  if (m.spec.pooling) steps_->pool(m);
}

void cuda_backend::place_weights(const engine::model& m, const engine::weight_source& from,
                                 const std::function<void(unsigned)>& progress) {
  if (from.imported) {
    progress(0);  // the check of all of it takes the device some seconds at most
    import_weights(m, *from.imported);
    progress(100);
    return;
  }
  upload_options upload;
  upload.pinned = options_.pinned;
  weights_ = upload_cuda_weights(m, weights_arena_, upload, progress);
  if (from.share) export_weights(m);
}

void cuda_backend::import_weights(const engine::model& m, const engine::shared_weights& from) {
  layout_hash_ = weights_layout_hash(m);
  require_layout(from, layout_hash_);
  const auto bytes = vram_arena::size_of(device_->index(), plan_.weights_bytes);
  if (bytes != from.bytes) {
    throw engine::accelerator_failure(errc::stale_weights,
                                      "the shared weights have " + std::to_string(from.bytes) +
                                          " bytes, the model needs " + std::to_string(bytes));
  }
  weights_arena_ = vram_arena(device_->index(), from.descriptor, plan_.weights_bytes, arena_access::read);
  require_content(from, device_content_hash(weights_arena_, plan_.weights_bytes));
  weights_ = place_cuda_weights(m, weights_arena_);
}

void cuda_backend::place_cache(const engine::cache_source& from) {
  const auto bytes = vram_arena::size_of(device_->index(), plan_.kv_bytes);
  if (from.imported) {
    if (bytes != from.imported->bytes) {
      throw engine::accelerator_failure(errc::stale_weights,
                                        "the shared KV cache has " + std::to_string(from.imported->bytes) +
                                            " bytes, this one needs " + std::to_string(bytes));
    }
    cache_arena_ =
        vram_arena(device_->index(), from.imported->descriptor, plan_.kv_bytes, arena_access::read_write);
    return;
  }
  cache_arena_ = vram_arena(device_->index(), plan_.kv_bytes);
  if (!from.share) return;
  cache_descriptor_ = cache_arena_.export_fd();
  exported_cache_ = {cache_descriptor_.get(), bytes};
}

void cuda_backend::export_weights(const engine::model& m) {
  weights_arena_.freeze();
  descriptor_ = weights_arena_.export_fd();
  layout_hash_ = weights_layout_hash(m);
  exported_ = {descriptor_.get(), weights_arena_.bytes(), layout_hash_,
               device_content_hash(weights_arena_, plan_.weights_bytes)};
}

void cuda_backend::unmap_weights() {
  if (layout_hash_.empty()) return;
  weights_arena_.drop();
  descriptor_.reset();
  exported_.descriptor = -1;
  weights_dropped_ = true;
}

/// Kernels and graphs have the addresses, which are the same. The check takes some memory, and gives it back.
engine::result<void> cuda_backend::map_weights(const engine::shared_weights& from) {
  unseal_allocations();
  try {
    require_layout(from, layout_hash_);
    weights_arena_.map_again(from.descriptor);
    require_content(from, device_content_hash(weights_arena_, plan_.weights_bytes));
  } catch (const engine::accelerator_failure& failure) {
    return error(failure.code, failure.what());
  }
  seal_allocations();
  weights_dropped_ = false;
  return {};
}

void cuda_backend::watch_residency() {
  audit_.emplace(device_->index(), options_.probe);
  audit_->watch("weights", weights_arena_.at<std::byte>(0), weights_arena_.bytes());
  audit_->watch("KV cache", cache_arena_.at<std::byte>(0), cache_arena_.bytes());
  if (adapters_->arena().bytes() > 0) {
    audit_->watch("LoRA adapters", adapters_->arena().at<std::byte>(0), adapters_->arena().bytes());
  }
  if (media_) audit_->watch("media", media_->arena().at<std::byte>(0), media_->arena().bytes());
  audit_->watch("workspace", work_arena_.at<std::byte>(0), work_arena_.bytes());
}

std::vector<std::string> cuda_backend::audit() {
  if (!audit_) return {"no model is loaded"};
  if (weights_dropped_) return {};
  return audit_->audit().failures;
}

engine::device_facts cuda_backend::device() const {
  if (!device_) return {};
  return {device_->index(), device_->info().name, device_->info().uuid};
}

}  // namespace

engine::result<std::string> find_gpu_uuid(const cuda_backend_options& options) {
  const auto clock = options.clock.sleep ? options.clock : real_wait_clock();
  const auto gpus = wait_for_gpus([](bool last_try) { return list_gpus(last_try); }, options.wait, clock);
  if (!gpus) return gpus.error();
  const auto chosen = choose_gpu(*gpus, options.gpu);
  if (!chosen) return chosen.error();
  return chosen->uuid;
}

std::unique_ptr<engine::accelerator> make_cuda_backend(const cuda_backend_options& options) {
  return std::make_unique<cuda_backend>(options);
}

}  // namespace orcd::gpu
