// What a projector's tower takes on the GPU for one medium: milliseconds from its beginning to its rows, with
// the stream idle before and after; the longest slice, which is what running streams wait for; memory.
// Medians. Prints a table and writes a flat JSON object of figures.
//   bench_cuda_tower --model FILE --name NAME [--json FILE] [--commit ID] [--width W] [--height H]
//                    [--views N] [--rows N] [--runs N] [--flops]
// A picture is one view of random pixels: as large as the worker makes it of one of W x H (1024 x 1024) with
// at most N rows (4096); of projectors whose views have one size, that. A sound is 30 seconds of random
// frames. --views: so many of them, one after the other, like the tiles of a picture. --flops: the rate at
// which the matrices and the attention of the shapes are done, without what kernels add to them.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/decode/command_line.hpp"
#include "bench/decode/figures.hpp"
#include "engine/gguf/gguf_file.hpp"
#include "engine/media/prepare_picture.hpp"
#include "engine/media/tower.hpp"
#include "gpu/cuda/cuda_error.hpp"
#include "gpu/cuda/media/cuda_media.hpp"
#include "gpu/plan/media/media_layout.hpp"
#include "gpu/plan/media/tower_weights.hpp"
#include "gpu/plan/media/view_places.hpp"

namespace {

using namespace orcd;
using steady = std::chrono::steady_clock;

constexpr std::uint32_t warm_up = 2;

struct settings {
  std::string model, name, json, commit = "unknown";
  std::uint32_t width = 1024, height = 1024, views = 1, rows = 4096, runs = 10;
  bool flops = false;
};

double ms_since(steady::time_point begin) {
  return std::chrono::duration<double, std::milli>(steady::now() - begin).count();
}

double median(std::vector<double> of) {
  std::sort(of.begin(), of.end());
  return of[of.size() / 2];
}

engine::tower open(const settings& s) {
  auto file = engine::gguf_file::open(s.model);
  if (!file) throw std::runtime_error(file.error().message);
  auto tower = engine::load_tower(std::move(*file), nullptr);
  if (!tower) throw std::runtime_error(tower.error().message);
  engine::limit_rows(tower->spec, s.rows);
  return std::move(*tower);
}

/// As much of a text model as takes the tower's rows.
engine::model_spec text_for(const engine::tower_spec& tower) {
  engine::model_spec text;
  text.embedding = tower.out_width;
  text.deepstack_layers = tower.deepstack;
  text.layers.resize(std::max(tower.deepstack, 1U));
  if (tower.rows_are_grid)
    for (engine::layer_spec& layer : text.layers) layer.rope.axes = engine::rope_axes::in_turn;
  return text;
}

engine::picture_size size_of_view(const engine::picture_rules& rules, engine::picture_size asked) {
  const auto layout = rules.layout;
  if (layout == engine::picture_layout::square || layout == engine::picture_layout::tiles)
    return {rules.side, rules.side};
  if (const auto taken = engine::check_picture_size(asked); !taken)
    throw std::invalid_argument(taken.error().message);
  return engine::view_size(rules, asked, engine::picture_detail::automatic);
}

engine::prepared_medium random_sound(const engine::sound_rules& rules, std::uint32_t chunks) {
  std::mt19937 random(7);
  engine::prepared_sound sound{.bins = rules.bins, .chunks = chunks, .frames = {}};
  sound.frames.resize(std::size_t{chunks} * engine::chunk_frames * rules.bins);
  for (float& value : sound.frames) value = static_cast<float>(random() % 2'001) / 1'000.0F - 1.0F;
  return {std::move(sound)};
}

engine::prepared_medium random_medium(const engine::tower_spec& spec, const settings& s) {
  if (spec.sound) return random_sound(*spec.sound, s.views);
  std::mt19937 random(7);
  const engine::picture_size size = size_of_view(spec.pictures, {s.width, s.height});
  engine::prepared_picture picture;
  picture.views.resize(s.views);
  for (engine::picture& view : picture.views) {
    view.width = size.width;
    view.height = size.height;
    view.rgb.resize(std::size_t{3} * size.width * size.height);
    for (std::uint8_t& value : view.rgb) value = static_cast<std::uint8_t>(random() >> 24U);
  }
  return {std::move(picture)};
}

/// Of one view, or one chunk of a sound.
struct view_shape {
  view_shape(const engine::tower_spec& spec, const engine::prepared_medium& medium) {
    if (spec.sound) {
      lines = spec.patches_max();
      rows = lines / spec.sound->stack;
      return;
    }
    const engine::picture& view = medium.picture()->views.front();
    lines = view.height / spec.pictures.patch;
    columns = view.width / spec.pictures.patch;
    rows = patches() / (spec.pictures.merge * spec.pictures.merge);
  }
  [[nodiscard]] std::uint32_t patches() const { return lines * columns; }

  std::uint32_t lines = 0, columns = 1, rows = 0;
};

double values_of(const engine::tensor_view& matrix) {
  return matrix ? static_cast<double>(matrix.elements()) : 0.0;
}

double values_of(const engine::tower_merger& merger) {
  return values_of(merger.first) + values_of(merger.second);
}

/// Two for each value of a matrix and each patch or row that it multiplies, and four for each pair of patches
/// that see each other and each value of the heads.
double flops_of_view(const engine::tower& tower, const view_shape& view) {
  const engine::tower_spec& spec = tower.spec;
  const engine::tower_weights& weights = tower.weights;
  double at_patches = values_of(weights.patch) + values_of(weights.conv_2);
  double at_rows = values_of(weights.projection) + values_of(weights.reduction) + values_of(weights.merger);
  for (const engine::tower_layer& layer : weights.layers) {
    for (const engine::tower_matrix* matrix :
         {&layer.qkv, &layer.q, &layer.k, &layer.v, &layer.out, &layer.gate, &layer.up, &layer.down})
      at_patches += values_of(matrix->weight);
    if (layer.deepstack) at_rows += values_of(*layer.deepstack);
  }
  const double patches = view.patches();
  double windowed = 0.0;
  gpu::view_places places(spec);
  places.set(view.lines, view.columns);
  std::uint32_t begin = 0;
  for (const std::uint32_t end : places.window_ends()) {
    windowed += static_cast<double>(end - begin) * (end - begin);
    begin = end;
  }
  double pairs = 0.0;
  for (std::size_t number = 1; number <= weights.layers.size(); ++number)
    pairs += spec.window > 0 && number % spec.full_every != 0 ? windowed : patches * patches;
  return 2.0 *
             (at_patches * patches + at_rows * view.rows + values_of(weights.conv_1) * engine::chunk_frames) +
         4.0 * pairs * spec.width;
}

/// What one run has taken.
struct timing {
  double ms = 0.0;
  double slice_ms = 0.0;      ///< of the longest slice
  std::uint32_t longest = 0;  ///< which of a view's it was
};

class benchmark {
 public:
  explicit benchmark(const settings& s)
      : s_(s),
        tower_(open(s)),
        text_(text_for(tower_.spec)),
        medium_(random_medium(tower_.spec, s)),
        view_(tower_.spec, medium_),
        slices_(static_cast<std::uint32_t>(tower_.weights.layers.size()) + 2) {
    const std::uint32_t rows = view_.rows * s_.views;
    blocks_.resize((rows + engine::media_block_rows - 1) / engine::media_block_rows);
    std::iota(blocks_.begin(), blocks_.end(), 0U);
    ORCD_CUDA(cudaSetDevice(0));
    stream_ = gpu::make_stream();
    for (std::uint32_t i = 0; i <= slices_ * s_.views; ++i) marks_.push_back(gpu::make_timing_event());
    gpu::cuda_extents extents;
    const engine::media_room room{&tower_, static_cast<std::uint32_t>(blocks_.size())};
    const auto planned = gpu::media_arena_bytes(text_, room, extents);
    if (!planned) throw std::runtime_error(planned.error().message);
    media_.emplace(text_, room, extents, 0, gpu::upload_options{}, stream_.get());
  }

  void run() {
    describe();
    std::vector<timing> timings;
    for (std::uint32_t i = 0; i < warm_up; ++i) static_cast<void>(encode());
    const std::vector<float> rows = made_rows();
    for (std::uint32_t i = 0; i < s_.runs; ++i) timings.push_back(encode());
    add_timings(std::move(timings));
    add("finite", std::all_of(rows.begin(), rows.end(), [](float value) { return std::isfinite(value); }));
    add("reproducible", std::ranges::equal(rows, made_rows(), {}, bits_of, bits_of));
    if (!s_.json.empty()) figures_.write(s_.json);
  }

 private:
  static std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

  timing encode() {
    timing out;
    ORCD_CUDA(cudaStreamSynchronize(stream_.get()));
    const auto begin = steady::now();
    media_->begin(medium_, blocks_);
    std::size_t slices = 0;
    mark(slices);
    for (bool last = false; !last; mark(++slices)) last = media_->go_on();
    ORCD_CUDA(cudaStreamSynchronize(stream_.get()));
    out.ms = ms_since(begin);
    for (std::size_t i = 0; i < slices; ++i) {
      float ms = 0.0F;
      ORCD_CUDA(cudaEventElapsedTime(&ms, marks_[i].get(), marks_[i + 1].get()));
      if (ms <= out.slice_ms) continue;
      out.slice_ms = ms;
      out.longest = static_cast<std::uint32_t>(i % slices_);
    }
    return out;
  }
  void mark(std::size_t slice) const { ORCD_CUDA(cudaEventRecord(marks_.at(slice).get(), stream_.get())); }

  [[nodiscard]] std::vector<float> made_rows() const {
    const auto& store = media_->given().store;
    std::vector<float> out(std::size_t{view_.rows} * s_.views * store.row_width);
    ORCD_CUDA(cudaMemcpy(out.data(), store.rows, out.size() * sizeof(float), cudaMemcpyDeviceToHost));
    return out;
  }

  void describe() {
    cudaDeviceProp properties{};
    ORCD_CUDA(cudaGetDeviceProperties(&properties, 0));
    figures_.add("commit", s_.commit);
    figures_.add("gpu", properties.name);
    figures_.add(s_.name + "/projector", tower_.spec.projector);
    std::printf("%s, commit %s: projector %s, medians of %u runs\n", properties.name, s_.commit.c_str(),
                tower_.spec.projector.c_str(), s_.runs);
    if (!tower_.spec.sound) {
      add("view_width", std::uint64_t{medium_.picture()->views.front().width});
      add("view_height", std::uint64_t{medium_.picture()->views.front().height});
    }
    add("views", std::uint64_t{s_.views});
    add("patches", std::uint64_t{view_.patches()} * s_.views);
    add("rows", std::uint64_t{view_.rows} * s_.views);
    const auto weights = gpu::lay_out_tower(tower_, 0);
    const std::uint64_t weight_bytes = weights ? weights->bytes : 0;
    const std::uint64_t row_bytes =
        blocks_.size() * engine::media_block_rows * tower_.spec.row_width() * sizeof(float);
    add("vram_bytes", media_->arena().bytes());
    add("weights_bytes", weight_bytes);
    add("rows_bytes", row_bytes);
    add("workspace_bytes", media_->arena().bytes() - weight_bytes - row_bytes);
  }

  void add_timings(std::vector<timing> timings) {
    std::vector<double> whole, slices;
    for (const timing& one : timings) {
      whole.push_back(one.ms);
      slices.push_back(one.slice_ms);
    }
    const auto [least, most] = std::minmax_element(whole.begin(), whole.end());
    const double ms = median(whole);
    add("ms", ms);
    add("spread", (*most - *least) / ms);
    add("longest_slice_ms", median(slices));
    // Slice 0 of a view is its beginning and the last one its end; layers count from 1.
    std::ranges::sort(timings, {}, &timing::slice_ms);
    add("longest_slice", std::uint64_t{timings[timings.size() / 2].longest});
    if (!s_.flops) return;
    const double flops = flops_of_view(tower_, view_) * s_.views;
    add("tflop", flops / 1e12);
    add("tflop_s", flops / 1e9 / ms);
  }

  template <class T>
  void add(const std::string& what, T value) {
    const std::string key = s_.name + "/" + what;
    figures_.add(key, value);
    std::printf("%-40s %14.10g\n", key.c_str(), static_cast<double>(value));
  }

  settings s_;
  engine::tower tower_;
  engine::model_spec text_;
  engine::prepared_medium medium_;
  view_shape view_;
  std::uint32_t slices_;  ///< of a view
  std::vector<std::uint32_t> blocks_;
  gpu::owned_stream stream_;
  std::vector<gpu::event> marks_;  ///< before the first slice, and after each
  std::optional<gpu::cuda_media> media_;
  bench::figures figures_;
};

settings parse(int argc, char** argv) {
  settings s;
  bench::read_options(
      argc, argv,
      {{{"--model", &s.model}, {"--name", &s.name}, {"--json", &s.json}, {"--commit", &s.commit}},
       {{"--width", &s.width},
        {"--height", &s.height},
        {"--views", &s.views},
        {"--rows", &s.rows},
        {"--runs", &s.runs}},
       {{"--flops", &s.flops}}});
  bench::check_common(s.model, s.name, "cuda");
  constexpr std::uint32_t most = 1'000;
  for (const std::uint32_t count : {s.views, s.runs})
    if (count < 1 || count > most) throw std::invalid_argument("--views and --runs are 1 to 1000");
  if (s.rows < 1) throw std::invalid_argument("--rows is at least 1");
  return s;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr auto usage =
      "--model FILE --name NAME [--json FILE] [--commit ID] [--width W] [--height H] [--views N] [--rows N] "
      "[--runs N] [--flops]";
  return bench::run_benchmark("bench_cuda_tower", usage, [&] {
    benchmark(parse(argc, argv)).run();
    return 0;
  });
}
