#include "gpu/cuda_backend.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "engine/base/ensure.hpp"
#include "gpu/allocation_counter.hpp"
#include "gpu/cuda_forward.hpp"
#include "gpu/cuda_resources.hpp"
#include "gpu/cuda_weights.hpp"
#include "gpu/device_memory_plan.hpp"

namespace orcd::gpu {
namespace {

using engine::errc;
using engine::error;

/// Pinned control block: what a step tells the device and what the device answers.
constexpr std::size_t control_bytes = 64 * 1024;
/// Decode batches up to this size replay a graph; larger ones launch their kernels.
constexpr std::uint32_t graph_columns_max = 16;

class cuda_backend final : public engine::accelerator {
 public:
  explicit cuda_backend(const cuda_backend_options& options) : options_(options) {
    if (!options_.clock.sleep) options_.clock = real_wait_clock();
    if (!options_.probe) options_.probe = cuda_pointer_probe();
  }
  ~cuda_backend() override {
    // The thread that destroys it need not be the one that loaded it.
    if (device_) static_cast<void>(cudaSetDevice(device_->index()));
    if (stream_.get() != nullptr) static_cast<void>(cudaStreamSynchronize(stream_.get()));
  }

  engine::result<engine::memory_plan> load(const engine::model& m, const engine::accelerator_config& config,
                                           const std::function<void(unsigned)>& progress) override;
  std::uint32_t chunk_tokens() const noexcept override { return options_.chunk_tokens; }
  bool step(std::span<const engine::sequence_step> sequences, const engine::interrupt_flag& interrupt,
            std::vector<engine::sampled_token>& sampled) override;
  void release(engine::slot_id slot) noexcept override;
  std::span<const float> logits(engine::slot_id slot) const noexcept override;
  const char* name() const noexcept override { return "cuda"; }
  bool resident() const noexcept override { return forward_.has_value(); }
  std::uint64_t vram_bytes() const noexcept override { return plan_.total(); }
  engine::device_facts device() const override;
  std::vector<std::string> audit() override;
  bool device_lost() const noexcept override { return is_device_lost(cudaPeekAtLastError()); }

 private:
  engine::result<engine::memory_plan> plan(const engine::model& m,
                                           const engine::accelerator_config& config) const;
  void capture_graphs(std::uint32_t slots);
  void watch_residency();
  void prefill(const engine::sequence_step& part, std::vector<engine::sampled_token>& sampled);
  void decode(std::span<const engine::sequence_step* const> parts);
  void enqueue_decode(std::uint32_t columns);
  void write_step(std::uint32_t column, const engine::sequence_step& part, std::uint32_t index);
  engine::token_id choose(const engine::sequence_step& part, std::uint32_t row);
  void synchronize() { ORCD_CUDA(cudaStreamSynchronize(stream_.get())); }

  cuda_backend_options options_;
  engine::memory_plan plan_;
  cuda_extents extents_;
  std::uint32_t vocab_ = 0;
  std::vector<engine::token_id> banned_;
  std::optional<cuda_device> device_;  ///< ends after everything below
  stream stream_;
  pinned_buffer control_;
  vram_arena weights_arena_, cache_arena_, work_arena_;
  cuda_weights weights_;
  std::optional<cuda_forward> forward_;
  std::optional<residency_audit> audit_;
  std::vector<graph_exec> graphs_;     ///< [columns - 1]
  std::vector<std::uint32_t> filled_;  ///< positions written, by slot
  std::vector<std::vector<float>> host_logits_;
  std::vector<float> row_;
  engine::sampling_workspace sampling_;
  kernels::step_column* host_steps_ = nullptr;  ///< in the control block
  std::int32_t* host_tokens_ = nullptr;
  std::int32_t* host_rows_ = nullptr;
};

engine::result<engine::memory_plan> cuda_backend::plan(const engine::model& m,
                                                       const engine::accelerator_config& config) const {
  if (m.spec.key_length != m.spec.value_length || m.spec.key_length > kernels::head_width_max) {
    return error(errc::model_load_failed, "heads of " + std::to_string(m.spec.key_length) + " and " +
                                              std::to_string(m.spec.value_length) +
                                              " values: the CUDA kernels need equal widths up to " +
                                              std::to_string(kernels::head_width_max));
  }
  const cuda_extents extents{config.slots, config.context_tokens, options_.chunk_tokens, config.kv};
  const std::uint64_t logits = std::uint64_t{config.slots} * m.spec.vocab * sizeof(float);
  auto plan =
      plan_device_memory(m, {config.slots, config.context_tokens, work_layout(m.spec, extents).bytes - logits,
                             options_.kv_bytes_max, config.kv});
  if (plan) plan->logits_bytes = logits;
  return plan;
}

engine::result<engine::memory_plan> cuda_backend::load(const engine::model& m,
                                                       const engine::accelerator_config& config,
                                                       const std::function<void(unsigned)>& progress) {
  if (forward_)
    return error(errc::model_load_failed, "a model is loaded already; a worker serves one for its lifetime");
  ORCD_ENSURE(config.slots > 0 && config.context_tokens > 0);
  auto planned = plan(m, config);
  if (!planned) return planned.error();
  try {
    auto device = cuda_device::open(options_.gpu, options_.end, options_.wait, options_.clock);
    if (!device) return device.error();
    device_.emplace(std::move(*device));
    const device_memory memory = device_->memory();
    const auto fits = check_vram(*planned, upload_staging_bytes(m),
                                 {memory.free_bytes, memory.total_bytes, device_->info()});
    if (!fits) return fits.error();
    extents_ = {config.slots, config.context_tokens, options_.chunk_tokens, config.kv};
    stream_ = make_stream();
    weights_arena_ = vram_arena(device_->index(), planned->weights_bytes);
    cache_arena_ = vram_arena(device_->index(), planned->kv_bytes);
    work_arena_ = vram_arena(device_->index(), work_layout(m.spec, extents_).bytes);
    upload_options upload;
    upload.pinned = options_.pinned;
    weights_ = upload_cuda_weights(m, weights_arena_, upload, progress);
    forward_.emplace(m, weights_, extents_, work_arena_, cache_arena_, stream_.get(), options_.tap);
    forward_->ban(config.banned_tokens);
  } catch (const engine::accelerator_failure& failure) {
    forward_.reset();
    const errc code = failure.code == errc::vram_oom ? errc::insufficient_vram : failure.code;
    return error(code, failure.what());
  }
  banned_ = config.banned_tokens;
  vocab_ = m.spec.vocab;
  control_ = pinned_buffer(control_bytes);
  host_steps_ = reinterpret_cast<kernels::step_column*>(control_.data());
  host_tokens_ = reinterpret_cast<std::int32_t*>(host_steps_ + extents_.columns());
  host_rows_ = host_tokens_ + extents_.slots;
  ORCD_ENSURE(reinterpret_cast<std::byte*>(host_rows_ + extents_.slots) <= control_.data() + control_.size());
  filled_.assign(extents_.slots, 0);
  if (options_.keep_logits) host_logits_.assign(extents_.slots, std::vector<float>(vocab_));
  row_.resize(vocab_);
  sampling_.reserve(vocab_, 4096);
  if (options_.graphs && !options_.tap) capture_graphs(extents_.slots);
  watch_residency();
  if (const auto failures = audit(); !failures.empty()) {
    return error(errc::model_load_failed, "the model is not in VRAM: " + failures.front());
  }
  seal_allocations();
  plan_ = *planned;
  return plan_;
}

void cuda_backend::watch_residency() {
  audit_.emplace(device_->index(), options_.probe);
  audit_->watch("weights", weights_arena_.at<std::byte>(0), weights_arena_.bytes());
  audit_->watch("KV cache", cache_arena_.at<std::byte>(0), cache_arena_.bytes());
  audit_->watch("workspace", work_arena_.at<std::byte>(0), work_arena_.bytes());
}

std::vector<std::string> cuda_backend::audit() {
  if (!audit_) return {"no model is loaded"};
  return audit_->audit().failures;
}

engine::device_facts cuda_backend::device() const {
  if (!device_) return {};
  return {device_->index(), device_->info().name, device_->info().uuid};
}

void cuda_backend::enqueue_decode(std::uint32_t columns) {
  ORCD_CUDA(cudaMemcpyAsync(forward_->steps(), host_steps_, columns * sizeof(kernels::step_column),
                            cudaMemcpyHostToDevice, stream_.get()));
  forward_->decode(columns);
  ORCD_CUDA(cudaMemcpyAsync(host_tokens_, forward_->tokens(), columns * sizeof(std::int32_t),
                            cudaMemcpyDeviceToHost, stream_.get()));
}

/// One graph for each number of columns. The first run of every kernel happens before its capture, so
/// that nothing is loaded or configured while a stream is captured.
void cuda_backend::capture_graphs(std::uint32_t slots) {
  for (std::uint32_t columns = 1; columns <= std::min(slots, graph_columns_max); ++columns) {
    for (std::uint32_t i = 0; i < columns; ++i) host_steps_[i] = {0, 0, static_cast<std::int32_t>(i)};
    enqueue_decode(columns);
    synchronize();
    cudaGraph_t captured = nullptr;
    ORCD_CUDA(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal));
    enqueue_decode(columns);
    ORCD_CUDA(cudaStreamEndCapture(stream_.get(), &captured));
    const graph owner(captured);
    cudaGraphExec_t executable = nullptr;
    ORCD_CUDA(cudaGraphInstantiate(&executable, captured, 0));
    graphs_.emplace_back(executable);
    ORCD_CUDA(cudaGraphUpload(executable, stream_.get()));
  }
  for (std::uint32_t slot = 0; slot < slots; ++slot) forward_->clear(slot, 1);
  synchronize();
}

void cuda_backend::write_step(std::uint32_t column, const engine::sequence_step& part, std::uint32_t index) {
  host_steps_[column] = {part.tokens[index], static_cast<std::int32_t>(part.position + index),
                         static_cast<std::int32_t>(part.slot)};
}

bool cuda_backend::step(std::span<const engine::sequence_step> sequences,
                        const engine::interrupt_flag& interrupt,
                        std::vector<engine::sampled_token>& sampled) {
  ORCD_ENSURE(forward_.has_value());
  std::vector<const engine::sequence_step*> decodes;
  decodes.reserve(sequences.size());
  const std::size_t first = sampled.size();
  for (const auto& part : sequences) {
    ORCD_ENSURE(!part.tokens.empty() && part.tokens.size() <= extents_.chunk_tokens);
    ORCD_ENSURE(part.position + part.tokens.size() <= extents_.context);
    if (interrupt.load(std::memory_order_relaxed)) {
      sampled.resize(first);
      return false;
    }
    if (part.tokens.size() == 1 && part.sample != nullptr) {
      decodes.push_back(&part);
    } else {
      prefill(part, sampled);
    }
    auto& filled = filled_[static_cast<std::size_t>(part.slot)];
    filled = std::max(filled, part.position + static_cast<std::uint32_t>(part.tokens.size()));
  }
  if (!decodes.empty()) decode(decodes);
  for (std::uint32_t row = 0; row < decodes.size(); ++row) {
    sampled.push_back({decodes[row]->slot, choose(*decodes[row], row)});
  }
  // The order of the caller's parts, whatever was computed first.
  std::vector<engine::sampled_token> ordered;
  for (const auto& part : sequences) {
    for (std::size_t i = first; i < sampled.size(); ++i) {
      if (sampled[i].slot == part.slot) ordered.push_back(sampled[i]);
    }
  }
  std::copy(ordered.begin(), ordered.end(), sampled.begin() + static_cast<std::ptrdiff_t>(first));
  return true;
}

void cuda_backend::prefill(const engine::sequence_step& part, std::vector<engine::sampled_token>& sampled) {
  const auto columns = static_cast<std::uint32_t>(part.tokens.size());
  for (std::uint32_t i = 0; i < columns; ++i) write_step(i, part, i);
  ORCD_CUDA(cudaMemcpyAsync(forward_->steps(), host_steps_, columns * sizeof(kernels::step_column),
                            cudaMemcpyHostToDevice, stream_.get()));
  host_rows_[0] = static_cast<std::int32_t>(columns) - 1;
  ORCD_CUDA(cudaMemcpyAsync(forward_->sample_rows(), host_rows_, sizeof(std::int32_t), cudaMemcpyHostToDevice,
                            stream_.get()));
  forward_->prefill(columns, part.sample != nullptr);
  if (part.sample != nullptr) {
    ORCD_CUDA(cudaMemcpyAsync(host_tokens_, forward_->tokens(), sizeof(std::int32_t), cudaMemcpyDeviceToHost,
                              stream_.get()));
  }
  synchronize();
  if (part.sample != nullptr) sampled.push_back({part.slot, choose(part, 0)});
}

void cuda_backend::decode(std::span<const engine::sequence_step* const> parts) {
  const auto columns = static_cast<std::uint32_t>(parts.size());
  for (std::uint32_t i = 0; i < columns; ++i) write_step(i, *parts[i], 0);
  if (columns <= graphs_.size()) {
    ORCD_CUDA(cudaGraphLaunch(graphs_[columns - 1].get(), stream_.get()));
  } else {
    enqueue_decode(columns);
  }
  synchronize();
}

/// The device's greedy choice where that is what was asked for; else the host's sampler over the row.
engine::token_id cuda_backend::choose(const engine::sequence_step& part, std::uint32_t row) {
  const engine::sample_request& request = *part.sample;
  const bool greedy =
      request.params->temperature == 0.0F && !(request.params->penalises() && !request.recent.empty());
  if (greedy && !options_.keep_logits) return host_tokens_[row];
  auto& logits = options_.keep_logits ? host_logits_[static_cast<std::size_t>(part.slot)] : row_;
  ORCD_CUDA(cudaMemcpyAsync(logits.data(), forward_->logits() + std::size_t{row} * vocab_,
                            vocab_ * sizeof(float), cudaMemcpyDeviceToHost, stream_.get()));
  synchronize();
  if (greedy) return host_tokens_[row];
  return engine::sample(logits, *request.params, request.recent, banned_, request.draw, sampling_);
}

void cuda_backend::release(engine::slot_id slot) noexcept {
  auto& filled = filled_[static_cast<std::size_t>(slot)];
  try {
    forward_->clear(static_cast<std::uint32_t>(slot), filled);
  } catch (const engine::accelerator_failure&) {
    // The context is lost; the next step reports it.
  }
  filled = 0;
}

std::span<const float> cuda_backend::logits(engine::slot_id slot) const noexcept {
  if (!options_.keep_logits) return {};
  return host_logits_[static_cast<std::size_t>(slot)];
}

}  // namespace

std::unique_ptr<engine::accelerator> make_cuda_backend(const cuda_backend_options& options) {
  return std::make_unique<cuda_backend>(options);
}

}  // namespace orcd::gpu
