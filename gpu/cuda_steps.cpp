#include "gpu/cuda_steps.hpp"

#include <algorithm>

#include "engine/base/ensure.hpp"
#include "gpu/step_results.hpp"
#include "gpu/step_wait.hpp"

namespace orcd::gpu {
namespace {

/// Decode batches up to this size replay a graph; larger ones launch their kernels.
constexpr std::uint32_t graph_columns_max = 32;

/// Of the n-th launch; never 0, which is what an unused result carries.
std::uint32_t ticket_of(std::uint64_t launch) noexcept {
  return static_cast<std::uint32_t>(launch % 0xFFFF'FFFFU) + 1;
}

}  // namespace

cuda_steps::cuda_steps(cuda_forward& forward, const sampler_layout& layout, const vram_arena& work,
                       const cuda_extents& extents, std::uint32_t vocab,
                       std::span<const engine::token_id> end_of_generation, const cuda_steps_options& options,
                       cudaStream_t stream)
    : forward_(forward),
      extents_(extents),
      vocab_(vocab),
      options_(options),
      stream_(stream),
      depth_(launch_depth_for(extents.slots)),
      sampler_(layout, work, {forward.steps(), forward.sample_rows(), forward.logits(), forward.banned()},
               vocab, extents.slots, extents.context, stream),
      ring_(extents.slots, depth_, options.pinned, sampler_.device_results()),
      sampled_slots_(depth_),
      filled_(extents.slots, 0),
      tables_(extents.slots, table_of::own),
      pooled_(depth_) {
  ORCD_ENSURE(work.bytes() >= layout.end && extents.slots <= kernels::sample_columns_max);
  sampler_.set_ends(end_of_generation);
  sampler_.set_results(ring_.target());
  for (auto& slots : sampled_slots_) slots.reserve(extents.slots);
  decodes_.reserve(extents.slots);
  if (options_.keep_logits) host_logits_.assign(extents.slots, std::vector<float>(vocab));
  if (options_.graphs) capture_graphs();
}

/// One graph for each number of columns whose step is many kernels. The first run of every kernel happens
/// before its capture, so that nothing is loaded or configured while a stream is captured.
void cuda_steps::capture_graphs() {
  const std::uint32_t most = std::min(extents_.slots, graph_columns_max);
  for (std::uint32_t columns = 1; columns <= most; ++columns) {
    const std::uint32_t i = columns - 1;
    decodes_.push_back({engine::slot_id{i}, 0, 0, {.result = i}});
    sampler_.begin_decode(decodes_, 0);
    run_decode(columns);
    if (forward_.keys(columns) != nullptr) sampler_.sample(columns);  // else that kernel has not run
    ORCD_CUDA(cudaStreamSynchronize(stream_));
    if (columns <= forward_.programs().size()) continue;
    cudaGraph_t captured = nullptr;
    ORCD_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    run_decode(columns);
    ORCD_CUDA(cudaStreamEndCapture(stream_, &captured));
    const graph owner(captured);
    cudaGraphExec_t executable = nullptr;
    ORCD_CUDA(cudaGraphInstantiate(&executable, captured, 0));
    graphs_.emplace_back(executable);
    ORCD_CUDA(cudaGraphUpload(executable, stream_));
  }
  for (std::uint32_t slot = 0; slot < most; ++slot) forward_.clear(forward_.own_pages(slot, 1));
  ORCD_CUDA(cudaStreamSynchronize(stream_));
}

void cuda_steps::run_decode(std::uint32_t columns) {
  forward_.decode(columns);
  if (unsigned long long* const keys = forward_.keys(columns))
    sampler_.sample(decodes_, keys);
  else
    sampler_.sample(columns);
}

void cuda_steps::launch(std::span<const engine::sequence_step> sequences,
                        const engine::interrupt_flag& interrupt) {
  ORCD_ENSURE(uncollected_ < depth_ && sequences.size() <= extents_.slots);
  try {
    enqueue(sequences, interrupt);
  } catch (const engine::accelerator_failure&) {
    drop();
    throw;
  }
}

void cuda_steps::enqueue(std::span<const engine::sequence_step> sequences,
                         const engine::interrupt_flag& interrupt) {
  const auto turn = static_cast<std::uint32_t>(launches_ % depth_);
  auto& slots = sampled_slots_[turn];
  slots.clear();
  pooled_[turn].clear();
  decodes_.clear();
  ++launches_;
  ++uncollected_;
  for (const auto& part : sequences) {
    ORCD_ENSURE(part.tokens.size() <= extents_.chunk_tokens && (!part.tokens.empty() || part.sample) &&
                (part.pool != nullptr) == pooling_.has_value());
    ORCD_ENSURE(part.position + part.count() <= extents_.context);
    if (interrupt.load(std::memory_order_relaxed)) {
      interrupted_ = true;
      return;
    }
    const auto result = static_cast<std::uint32_t>(turn * extents_.slots + slots.size());
    if (part.sample != nullptr) slots.push_back(part.slot);
    use_own_pages(part.slot);
    if (part.sample != nullptr && !part.sample->allowed.empty()) {
      ORCD_ENSURE(!part.tokens.empty());
      sampler_.write_mask(part.slot, part.sample->allowed);
    }
    if (part.sample != nullptr && !part.sample->params->biases.empty()) {
      sampler_.write_biases(part.slot, part.sample->params->biases);
    }
    auto& filled = filled_[static_cast<std::size_t>(part.slot)];
    filled = std::max(filled, part.position + part.count());
    if (part.pool != nullptr) {
      enqueue_pooled(part, turn);
    } else if (part.count() == 1 && part.sample != nullptr) {
      decodes_.push_back({part.slot, part.tokens.empty() ? -1 : part.tokens.front(), part.position,
                          device_request(*part.sample, result)});
    } else {
      enqueue_chunk(part, result);
    }
  }
  if (!decodes_.empty()) enqueue_decodes();
  ring_.launched(turn, static_cast<std::uint32_t>(slots.size()), ticket_of(launches_), stream_);
}

void cuda_steps::enqueue_chunk(const engine::sequence_step& part, std::uint32_t result) {
  const bool samples = part.sample != nullptr;
  const kernels::sample_request request =
      samples ? device_request(*part.sample, result) : kernels::sample_request{};
  sampler_.begin_chunk(part, samples ? &request : nullptr, ticket_of(launches_));
  forward_.prefill(part.count(), samples);
  if (!samples) return;
  sampler_.sample(1);
  keep_logits(0, part.slot);
}

void cuda_steps::enqueue_pooled(const engine::sequence_step& part, std::uint32_t turn) {
  ORCD_ENSURE(part.position + part.count() <= part.pool->tokens);
  ORCD_ENSURE(causal_ || part.count() == part.pool->tokens);
  sampler_.begin_chunk(part, nullptr, ticket_of(launches_));
  forward_.set_form({causal_ ? 0 : part.pool->tokens, part.pool->second_segment});
  forward_.prefill(part.count(), false);
  auto pooled = pooling_->take(forward_, part);
  if (pooled != nullptr) pooled_[turn].push_back({.slot = part.slot, .pooled = std::move(pooled)});
}

void cuda_steps::enqueue_decodes() {
  const auto columns = static_cast<std::uint32_t>(decodes_.size());
  sampler_.begin_decode(decodes_, ticket_of(launches_));
  const std::size_t few = forward_.programs().size();
  if (columns > few && columns <= few + graphs_.size()) {
    ORCD_CUDA(cudaGraphLaunch(graphs_[columns - few - 1].get(), stream_));
  } else {
    run_decode(columns);
  }
  for (std::uint32_t row = 0; row < columns; ++row) keep_logits(row, decodes_[row].slot);
}

void cuda_steps::keep_logits(std::uint32_t row, engine::slot_id slot) {
  if (!options_.keep_logits) return;
  auto& kept = host_logits_[static_cast<std::size_t>(slot)];
  ORCD_CUDA(cudaMemcpyAsync(kept.data(), forward_.logits() + std::size_t{row} * vocab_,
                            kept.size() * sizeof(float), cudaMemcpyDeviceToHost, stream_));
  ORCD_CUDA(cudaStreamSynchronize(stream_));
}

bool cuda_steps::collect(const engine::interrupt_flag& interrupt,
                         std::vector<engine::sampled_token>& sampled) {
  ORCD_ENSURE(uncollected_ > 0);
  const auto turn = static_cast<std::uint32_t>((launches_ - uncollected_) % depth_);
  try {
    if (interrupted_ || !wait(turn, interrupt)) {
      drop();
      return false;
    }
    const auto results = ring_.results(turn);
    for (std::size_t i = 0; i < results.size(); ++i) {
      sampled.push_back(sampled_from(sampled_slots_[turn][i], results[i]));
    }
    sampled.insert(sampled.end(), pooled_[turn].begin(), pooled_[turn].end());
  } catch (const engine::accelerator_failure&) {
    drop();
    throw;
  }
  --uncollected_;
  return true;
}

/// False when interrupted. A kernel that failed writes no results, so the stream is asked now and then.
bool cuda_steps::wait(std::uint32_t turn, const engine::interrupt_flag& interrupt) {
  const auto healthy = [&] {
    const cudaError_t status = cudaStreamQuery(stream_);
    if (status == cudaErrorNotReady) return;
    ORCD_CUDA(status);
    if (!ring_.ready(turn)) {
      throw engine::accelerator_failure(engine::errc::cuda_error, "a step ended without its results");
    }
  };
  const step_pace pace;
  switch (wait_for_step([&] { return ring_.ready(turn); }, healthy, interrupt, pace)) {
    case step_end::done: return true;
    case step_end::interrupted: return false;
    case step_end::overdue: break;
  }
  throw engine::accelerator_failure(
      engine::errc::cuda_error,
      "a step did not end within " +
          std::to_string(std::chrono::duration_cast<std::chrono::seconds>(pace.limit).count()) + " s");
}

/// What is still in the stream runs to its end and is not looked at.
void cuda_steps::drop() noexcept {
  uncollected_ = 0;
  interrupted_ = false;
}

void cuda_steps::begin(const engine::sequence_start& start) {
  ORCD_ENSURE(!start.pages.empty() && start.held.size() <= extents_.context);
  tables_[static_cast<std::size_t>(start.slot)] = table_of::begun;
  try {
    if (start.copy) forward_.copy(*start.copy);
    forward_.set_pages(static_cast<std::uint32_t>(start.slot), start.pages);
    sampler_.set_history(start.slot, start.held);
  } catch (const engine::accelerator_failure&) {
    drop();
    throw;
  }
}

/// For a sequence that was not begun.
void cuda_steps::use_own_pages(engine::slot_id slot) {
  auto& table = tables_[static_cast<std::size_t>(slot)];
  if (table == table_of::begun) return;
  ORCD_ENSURE(extents_.pages() >= extents_.slots * extents_.pages_per_slot());
  if (table == table_of::own) return;
  const auto index = static_cast<std::uint32_t>(slot);
  forward_.set_pages(index, forward_.own_pages(index, extents_.context));
  table = table_of::own;
}

// A lost context is reported by the next step.
void cuda_steps::clear(std::span<const engine::kv_page> pages) noexcept {
  try {
    forward_.clear(pages);
  } catch (const engine::accelerator_failure&) {
    return;
  }
}

void cuda_steps::release(engine::slot_id slot) noexcept {
  auto& filled = filled_[static_cast<std::size_t>(slot)];
  auto& table = tables_[static_cast<std::size_t>(slot)];
  if (table == table_of::own) clear(forward_.own_pages(static_cast<std::uint32_t>(slot), filled));
  if (table == table_of::begun) table = table_of::ended;
  filled = 0;
}

std::span<const float> cuda_steps::logits(engine::slot_id slot) const noexcept {
  if (!options_.keep_logits) return {};
  return host_logits_[static_cast<std::size_t>(slot)];
}

}  // namespace orcd::gpu
