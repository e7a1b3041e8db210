// Where the time of a decode step in one kernel goes: for each phase of a layer, in us and as medians over
// layers, how long after the phase before its last block was there, from the instants that the kernel writes.
//   bench_cuda_phases --model FILE [--context N] [--steps N] [--columns N]
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/gguf/gguf_file.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/cuda/cuda_forward.hpp"
#include "gpu/cuda/cuda_resources.hpp"
#include "gpu/cuda/cuda_weights.hpp"
#include "gpu/plan/device_memory_plan.hpp"

namespace {

using namespace orcd;

struct settings {
  std::string model;
  std::uint32_t context = 16;
  std::uint32_t steps = 20;
  std::uint32_t columns = 1;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0.0 : values[values.size() / 2];
}

const char* const kinds[] = {"begin", "matmul", "attention", "route", "combine", "ternary"};

/// One step's instants, [blocks][phases][phase_stamps].
class phase_times {
 public:
  phase_times(const kernels::decode_program& program, std::uint32_t layers)
      : blocks_(program.blocks),
        count_(program.count),
        layers_(layers),
        phases_(program.count),
        ns_(std::size_t{program.blocks} * program.count * kernels::phase_stamps) {
    ORCD_CUDA(
        cudaMemcpy(phases_.data(), program.phases, count_ * sizeof(phases_[0]), cudaMemcpyDeviceToHost));
    ORCD_CUDA(cudaMemcpy(ns_.data(), program.stamps, ns_.size() * sizeof(ns_[0]), cudaMemcpyDeviceToHost));
  }

  /// When the last block came to each instant, counted from the end of the phase before in its last block.
  void print() const {
    const std::uint32_t a_layer = next_attention(next_attention(0) + 1) - next_attention(0);
    std::printf("%-10s %8s %8s %8s %8s  (us; last block after the last of the phase before; median layer)\n",
                "phase", "begun", "input", "product", "done");
    double sum = 0.0;
    for (std::uint32_t p = 0; p < a_layer; ++p) {
      std::vector<double> of[kernels::phase_stamps];
      for (std::uint32_t layer = 1; layer < layers_; ++layer) {
        const std::uint32_t phase = 1 + layer * a_layer + p;
        const double before = last(phase - 1, kernels::phase_stamps - 1);
        for (std::uint32_t i = 0; i < kernels::phase_stamps; ++i) of[i].push_back(last(phase, i) - before);
      }
      const kernels::phase_kind kind = phases_[1 + p].kind;
      std::printf("%-10s", kinds[static_cast<std::size_t>(kind)]);
      for (std::uint32_t i = 0; i < kernels::phase_stamps; ++i) {
        const bool product = kind == kernels::phase_kind::matmul || kind == kernels::phase_kind::ternary;
        if (product || i == 0 || i + 1 == kernels::phase_stamps)
          std::printf(" %8.2f", median(of[i]) / 1000.0);
        else
          std::printf(" %8s", "");
      }
      std::printf("\n");
      sum += median(of[kernels::phase_stamps - 1]) / 1000.0;
    }
    const double end = last(count_ - 1, kernels::phase_stamps - 1);
    std::printf("a layer: %.2f us; output head: %.1f us; all phases: %.1f us\n", sum,
                (end - last(layers_ * a_layer, kernels::phase_stamps - 1)) / 1000.0,
                (end - at(0, 0, 0)) / 1000.0);
  }

 private:
  /// Of the phases from this one on.
  [[nodiscard]] std::uint32_t next_attention(std::uint32_t phase) const {
    while (phases_.at(phase).kind != kernels::phase_kind::attention) ++phase;
    return phase;
  }

  [[nodiscard]] double at(std::uint32_t block, std::uint32_t phase, std::uint32_t instant) const {
    const std::uint64_t first = ns_[0];
    const std::uint64_t ns = ns_[(std::size_t{block} * count_ + phase) * kernels::phase_stamps + instant];
    return static_cast<double>(static_cast<std::int64_t>(ns - first));
  }

  [[nodiscard]] double last(std::uint32_t phase, std::uint32_t instant) const {
    double latest = at(0, phase, instant);
    for (std::uint32_t b = 1; b < blocks_; ++b) latest = std::max(latest, at(b, phase, instant));
    return latest;
  }

  std::uint32_t blocks_, count_, layers_;
  std::vector<kernels::decode_phase> phases_;
  std::vector<std::uint64_t> ns_;
};

void measure(const settings& s) {
  const auto file = engine::gguf_file::open(s.model);
  if (!file) throw std::runtime_error(file.error().message);
  const std::uint32_t context = s.context + s.steps;
  const auto model = engine::load_model(*file, context, {});
  if (!model) throw std::runtime_error(model.error().message);
  const auto bytes = gpu::plan_cuda_weights(*model);
  if (!bytes) throw std::runtime_error(bytes.error().message);
  gpu::cuda_extents extents{s.columns, context, 512, {}};
  extents.phase_stamps = true;
  ORCD_CUDA(cudaSetDevice(0));
  const gpu::owned_stream stream = gpu::make_stream();
  const gpu::vram_arena weights_arena(0, *bytes);
  const gpu::vram_arena cache(0, gpu::planned_kv_bytes(model->spec, s.columns, context, {}));
  const gpu::vram_arena work(0, gpu::work_layout(model->spec, extents).bytes);
  const gpu::cuda_weights weights = gpu::upload_cuda_weights(*model, weights_arena, {}, [](unsigned) {});
  gpu::cuda_forward forward(*model, weights, extents, work, cache, stream.get());
  if (s.columns == 0 || forward.programs().size() < s.columns)
    throw std::runtime_error("the kernel does not take this model with so many columns");
  for (std::uint32_t step = 0; step < s.steps; ++step) {
    std::vector<kernels::step_token> columns;
    for (std::uint32_t slot = 0; slot < s.columns; ++slot)
      columns.push_back({static_cast<std::int32_t>(step + slot + 1),
                         static_cast<std::int32_t>(s.context + step), static_cast<std::int32_t>(slot)});
    ORCD_CUDA(cudaMemcpy(forward.steps(), columns.data(), columns.size() * sizeof(columns[0]),
                         cudaMemcpyHostToDevice));
    forward.decode(s.columns);
    ORCD_CUDA(cudaStreamSynchronize(stream.get()));
  }
  phase_times(forward.programs()[s.columns - 1], static_cast<std::uint32_t>(model->spec.layers.size()))
      .print();
}

}  // namespace

int main(int argc, char** argv) {
  settings s;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--model") s.model = argv[i + 1];
    if (name == "--context") s.context = static_cast<std::uint32_t>(std::atoi(argv[i + 1]));
    if (name == "--columns") s.columns = static_cast<std::uint32_t>(std::atoi(argv[i + 1]));
    if (name == "--steps") s.steps = static_cast<std::uint32_t>(std::atoi(argv[i + 1]));
  }
  try {
    measure(s);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_cuda_phases: %s\n", e.what());
    return 1;
  }
}
