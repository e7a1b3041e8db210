// What cuda_steps makes ready before its first step: graphs, and what steps cost; see cuda_steps.hpp.
#include <algorithm>

#include "gpu/cuda/cuda_steps.hpp"

namespace orcd::gpu {
namespace {

/// Decode steps of up to so many sequences replay a graph; larger ones launch their kernels.
constexpr std::uint32_t graph_sequences_max = 32;
constexpr std::uint32_t adapter_graph_sequences_max = 16;  ///< with adapters, in two kinds

}  // namespace

/// Runs every kernel of a decode step once, so that nothing is loaded or configured when it counts, keeps
/// graphs of what graphs are for, and measures what more tokens in a step cost. None of it leaves anything in
/// the cache.
void cuda_steps::prepare() {
  if (!options_.graphs && extents_.draft_tokens == 0) return;
  const std::uint32_t most = std::min(extents_.slots, graph_sequences_max);
  forward_.pages().begin_trial(most);
  if (options_.graphs) capture_graphs(most);
  if (extents_.draft_tokens > 0) {
    if (options_.graphs) capture_row_graphs();
    measure_costs();
  }
  forward_.pages().end_trial(most);
  decodes_.clear();
  ORCD_CUDA(cudaStreamSynchronize(stream_));
}

/// A graph for each number of sequences whose step is many kernels, and for steps with adapters.
void cuda_steps::capture_graphs(std::uint32_t most) {
  decodes_.clear();
  for (std::uint32_t sequences = 1; sequences <= most; ++sequences) {
    const std::uint32_t i = sequences - 1;
    decodes_.push_back({engine::slot_id{i}, 0, 0, {.result = i}});
    sampler_.begin_decode(decodes_, 0);
    run_decode(sequences);
    // The sampler's kernel, too, must have run before a capture.
    if (forward_.keys(sequences) != nullptr) sampler_.sample(sequences);
    if (sequences > forward_.programs().size()) graphs_.push_back(capture([&] { run_decode(sequences); }));
    if (!adapters_.has_room() || sequences > adapter_graph_sequences_max) continue;
    if (adapters_.begin_program(); forward_.is_one_kernel(sequences)) run_decode(sequences);
    adapters_.end_graph();
    for (std::uint32_t kind = 0; kind < cuda_adapters::graph_kinds; ++kind) {
      adapters_.begin_graph(kind);
      run_decode(sequences);
      adapter_graphs_[kind].push_back(capture([&] { run_decode(sequences); }));
      adapters_.end_graph();
    }
  }
}

/// Tokens in a row of the first slot, as many as a page has at most.
void cuda_steps::begin_row(std::uint32_t columns) {
  decodes_.clear();
  for (std::uint32_t i = 0; i < columns; ++i) decodes_.push_back({engine::slot_id{0}, 0, i, {.result = i}});
  sampler_.begin_decode(decodes_, 0);
}

void cuda_steps::capture_row_graphs() {
  const std::uint32_t most = std::min({extents_.sampling(), graph_sequences_max, extents_.context});
  for (std::uint32_t columns = 2; columns <= most; ++columns) {
    begin_row(columns);
    run_in_a_row(columns);
    row_graphs_.push_back(capture([&] { run_in_a_row(columns); }));
  }
}

/// The shortest of three times. Kernels take tiles of tokens, so that a step gets dearer behind powers of
/// two: these are measured, and what comes next.
void cuda_steps::measure_costs() {
  const event begin = make_timing_event();
  const event end = make_timing_event();
  const auto measure = [&](std::uint32_t columns) {
    begin_row(columns);
    float least = 0.0F;
    for (int run = 0; run < 3; ++run) {
      ORCD_CUDA(cudaEventRecord(begin.get(), stream_));
      run_decodes(columns, columns > 1);
      ORCD_CUDA(cudaEventRecord(end.get(), stream_));
      ORCD_CUDA(cudaEventSynchronize(end.get()));
      float ms = 0.0F;
      ORCD_CUDA(cudaEventElapsedTime(&ms, begin.get(), end.get()));
      if (run == 0 || ms < least) least = ms;
    }
    costs_.add(columns, static_cast<double>(least));
  };
  measure(1);
  const std::uint32_t most = std::min(extents_.sampling(), extents_.context);
  for (std::uint32_t columns = 2; columns <= most; columns *= 2) {
    measure(columns);
    if (columns > 2 && columns < most) measure(columns + 1);
    if (columns < most - 1 && 2 * columns > most) measure(most);
  }
}

/// The kernels that `enqueue` launches have run before.
template <class Enqueue>
graph_exec cuda_steps::capture(Enqueue enqueue) {
  ORCD_CUDA(cudaStreamSynchronize(stream_));
  cudaGraph_t captured = nullptr;
  ORCD_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  enqueue();
  ORCD_CUDA(cudaStreamEndCapture(stream_, &captured));
  const graph owner(captured);
  cudaGraphExec_t executable = nullptr;
  ORCD_CUDA(cudaGraphInstantiate(&executable, captured, 0));
  graph_exec out(executable);
  ORCD_CUDA(cudaGraphUpload(executable, stream_));
  return out;
}

}  // namespace orcd::gpu
