#include "gpu/host_backend.hpp"

#include <unistd.h>

#include <algorithm>
#include <new>
#include <optional>
#include <string>

#include "engine/base/ensure.hpp"
#include "engine/sampling/sampling.hpp"
#include "gpu/host_forward.hpp"
#include "gpu/host_memory.hpp"
#include "gpu/host_tensors.hpp"
#include "kernels/host/kernel_table.hpp"

namespace orcd::gpu {
namespace {

using engine::errc;
using engine::error;

constexpr std::uint32_t chunk_tokens_max = 512;

std::uint32_t context_of(const engine::model& m, const engine::accelerator_config& config) {
  return config.context_tokens == 0 ? m.spec.context_length : config.context_tokens;
}

engine::memory_plan plan_memory(const engine::model& m, const engine::accelerator_config& config,
                                std::uint32_t chunk_tokens) {
  const std::uint32_t context = context_of(m, config);
  const host_extents extents = host_extents::of(m.spec, config.slots, context, chunk_tokens, config.kv);
  return {.weights_bytes = weights_bytes(m.weights),
          .kv_bytes = host_kv_cache::bytes(m.spec, config.kv, config.slots, context),
          .workspace_bytes = host_workspace::bytes(m.spec, extents),
          .logits_bytes = std::uint64_t{config.slots} * m.spec.vocab * sizeof(float)};
}

/// The weights stay in the mapped file, so only the rest must fit into memory.
engine::result<void> check_memory(const engine::memory_plan& plan, std::uint64_t kv_bytes_max) {
  const std::uint64_t needed = plan.total() - plan.weights_bytes;
  const std::uint64_t installed =
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  if (kv_bytes_max != 0 && plan.kv_bytes > kv_bytes_max) {
    return error(errc::insufficient_vram, "the KV cache needs " + std::to_string(plan.kv_bytes) +
                                              " bytes, the limit is " + std::to_string(kv_bytes_max));
  }
  if (needed > installed) {
    return error(errc::insufficient_vram, "KV cache, workspace and logits need " + std::to_string(needed) +
                                              " bytes, this machine has " + std::to_string(installed));
  }
  return {};
}

/// Reads one byte of every page, so that the file is in memory before the first request, and tells how far it
/// is.
void read_weights(const engine::model_weights& weights, const std::function<void(unsigned)>& progress) {
  constexpr std::uint64_t page = 4096;
  const std::uint64_t total = std::max<std::uint64_t>(1, weights_bytes(weights));
  std::uint64_t done = 0;
  unsigned told = 0;
  volatile std::byte last{};
  for_each_tensor(weights, [&](const engine::tensor_view& tensor) {
    for (std::uint64_t offset = 0; offset < tensor.bytes; offset += page) {
      last = tensor.data[offset];
      done += std::min(page, tensor.bytes - offset);
      const auto percent = static_cast<unsigned>(done * 100 / total);
      if (percent > told && percent < 100) progress(told = percent);
    }
  });
}

class host_backend final : public engine::accelerator {
 public:
  explicit host_backend(host_backend_options options) : options_(std::move(options)) {
    options_.chunk_tokens = std::clamp(options_.chunk_tokens, 1U, chunk_tokens_max);
  }

  engine::result<engine::memory_plan> load(const engine::model& m, const engine::accelerator_config& config,
                                           const std::function<void(unsigned)>& progress) override;
  std::uint32_t chunk_tokens() const noexcept override { return options_.chunk_tokens; }
  bool step(std::span<const engine::sequence_step> sequences, const engine::interrupt_flag& interrupt,
            std::vector<engine::sampled_token>& sampled) override;
  /// What lies beyond a sequence's length is never read, so that forgetting the length forgets the values.
  void release(engine::slot_id slot) noexcept override {
    ORCD_ENSURE(static_cast<std::uint32_t>(slot) < lengths_.size());
    lengths_[static_cast<std::uint32_t>(slot)] = 0;
  }
  std::span<const float> logits(engine::slot_id slot) const noexcept override {
    return {logits_.get() + std::uint64_t{static_cast<std::uint32_t>(slot)} * model_.spec.vocab,
            model_.spec.vocab};
  }
  const char* name() const noexcept override { return "host"; }
  bool resident() const noexcept override { return false; }
  std::uint64_t vram_bytes() const noexcept override { return 0; }

 private:
  void allocate(std::uint32_t context);
  void add_sequence(const engine::sequence_step& sequence);

  host_backend_options options_;
  engine::model model_;
  engine::accelerator_config config_;
  std::optional<host_forward> forward_;
  std::unique_ptr<float[]> logits_;       ///< [slots][vocab]
  std::vector<std::uint32_t> lengths_;    ///< [slots] positions whose KV is valid
  std::vector<logits_request> requests_;  ///< of the step at hand
  engine::sampling_workspace sampling_;
};

engine::result<engine::memory_plan> host_backend::load(const engine::model& m,
                                                       const engine::accelerator_config& config,
                                                       const std::function<void(unsigned)>& progress) {
  if (forward_) return error(errc::model_load_failed, "this backend has a model already, it loads one once");
  if (config.slots == 0) return error(errc::model_load_failed, "slots is 0, at least 1 is needed");
  if (const auto supported = check_host_support(m); !supported) return supported.error();
  const engine::memory_plan plan = plan_memory(m, config, options_.chunk_tokens);
  if (const auto fits = check_memory(plan, options_.kv_bytes_max); !fits) return fits.error();
  progress(0);
  model_ = m;
  config_ = config;
  try {
    allocate(context_of(m, config));
  } catch (const std::bad_alloc&) {
    forward_.reset();
    return error(errc::insufficient_vram, "cannot allocate " +
                                              std::to_string(plan.total() - plan.weights_bytes) +
                                              " bytes for KV cache, workspace and logits");
  }
  read_weights(model_.weights, progress);
  progress(100);
  return plan;
}

void host_backend::allocate(std::uint32_t context) {
  forward_.emplace(model_,
                   host_extents::of(model_.spec, config_.slots, context, options_.chunk_tokens, config_.kv),
                   options_.threads, options_.tap);
  logits_ = std::make_unique<float[]>(std::uint64_t{config_.slots} * model_.spec.vocab);
  lengths_.assign(config_.slots, 0);
  requests_.reserve(config_.slots);
  sampling_.reserve(model_.spec.vocab, context);
}

/// Positions continue the sequence or go back to a point of it; anything beyond was never computed.
void host_backend::add_sequence(const engine::sequence_step& sequence) {
  const auto slot = static_cast<std::uint32_t>(sequence.slot);
  ORCD_ENSURE(slot < config_.slots);
  ORCD_ENSURE(!sequence.tokens.empty() && sequence.tokens.size() <= options_.chunk_tokens);
  ORCD_ENSURE(sequence.position <= lengths_[slot]);
  std::uint32_t position = sequence.position;
  for (const engine::token_id token : sequence.tokens) {
    if (token < 0 || static_cast<std::uint64_t>(token) >= model_.weights.token_embd.rows()) {
      forward_->discard_tokens();
      throw engine::accelerator_failure(errc::internal, "token id " + std::to_string(token) +
                                                            " is outside the model's vocabulary of " +
                                                            std::to_string(model_.weights.token_embd.rows()));
    }
    forward_->add_token(slot, position++, token);
  }
  if (sequence.sample) requests_.push_back({forward_->columns() - 1, slot});
  lengths_[slot] = position;
}

bool host_backend::step(std::span<const engine::sequence_step> sequences,
                        const engine::interrupt_flag& interrupt,
                        std::vector<engine::sampled_token>& sampled) {
  ORCD_ENSURE(forward_.has_value());
  requests_.clear();
  for (const engine::sequence_step& sequence : sequences) add_sequence(sequence);
  if (!forward_->run(requests_, logits_.get(), interrupt)) return false;
  for (const engine::sequence_step& sequence : sequences) {
    if (sequence.sample == nullptr) continue;
    const engine::sample_request& wanted = *sequence.sample;
    sampled.push_back({sequence.slot, engine::sample(logits(sequence.slot), *wanted.params, wanted.recent,
                                                     config_.banned_tokens, wanted.draw, sampling_)});
  }
  return true;
}

}  // namespace

std::unique_ptr<engine::accelerator> make_host_backend(host_backend_options options) {
  return std::make_unique<host_backend>(std::move(options));
}

engine::memory_plan plan_host_memory(const engine::model& m, const engine::accelerator_config& config) {
  return plan_memory(m, config, host_backend_options{}.chunk_tokens);
}

std::string_view host_isa_name() {
  return kernels::host::isa_name(kernels::host::kernels().level);
}

}  // namespace orcd::gpu
