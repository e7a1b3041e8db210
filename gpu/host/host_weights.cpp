#include "gpu/host/host_weights.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "engine/model/model_tensors.hpp"
#include "gpu/memory/arena_hash.hpp"
#include "gpu/memory/memfd_driver.hpp"
#include "gpu/plan/arena_plan.hpp"

namespace orcd::gpu {
namespace {

using engine::tensor_view;

/// The kernels read the file's own blocks. Another order or alignment is another version.
constexpr std::string_view scheme = "host blocks 1";

struct host_layout {
  std::vector<tensor_view*> tensors;
  std::vector<std::uint64_t> offsets;
  std::uint64_t bytes = 0;
  std::string hash;
};

host_layout lay_out(engine::model_weights& weights) {
  host_layout out;
  out.tensors = engine::tensors_of(weights);
  arena_plan plan;
  std::vector<placed_tensor> placed;
  for (const tensor_view* tensor : out.tensors) {
    out.offsets.push_back(plan.reserve(tensor->bytes));
    placed.push_back({tensor->name, engine::traits_of(tensor->type).name, tensor->extents, out.offsets.back(),
                      tensor->bytes});
  }
  out.bytes = memfd_driver::round_up(plan.bytes());
  out.hash = layout_hash(scheme, placed, out.bytes);
  return out;
}

std::byte* bytes_of(const arena_mapping& arena) {
  return reinterpret_cast<std::byte*>(arena.address());
}

void bind_views(engine::model_weights& weights, const host_layout& layout, const std::byte* base) {
  const bool tied = weights.output.data == weights.token_embd.data;
  for (std::size_t i = 0; i < layout.tensors.size(); ++i) layout.tensors[i]->data = base + layout.offsets[i];
  if (tied) weights.output.data = weights.token_embd.data;
}

void copy_tensors(const host_layout& layout, std::byte* base,
                  const std::function<void(unsigned percent)>& progress) {
  constexpr std::uint64_t piece_bytes = std::uint64_t{4} << 20;
  std::uint64_t total = 0;
  for (const tensor_view* tensor : layout.tensors) total += tensor->bytes;
  std::uint64_t done = 0;
  unsigned told = 0;
  for (std::size_t i = 0; i < layout.tensors.size(); ++i) {
    const tensor_view& tensor = *layout.tensors[i];
    for (std::uint64_t at = 0; at < tensor.bytes; at += piece_bytes) {
      const std::uint64_t count = std::min(piece_bytes, tensor.bytes - at);
      std::memcpy(base + layout.offsets[i] + at, tensor.data + at, count);
      done += count;
      const auto percent = static_cast<unsigned>(done * 50 / total);
      if (percent > told) progress(told = percent);
    }
  }
}

}  // namespace

void host_weights::copy(engine::model& m, const std::function<void(unsigned percent)>& progress) {
  const host_layout layout = lay_out(m.weights);
  arena_mapping arena(memfd_driver::instance(), layout.bytes);
  copy_tensors(layout, bytes_of(arena), progress);
  arena.freeze();
  descriptor_ = arena.export_fd();
  const auto hash =
      content_hash({bytes_of(arena), layout.bytes}, 0, [&](unsigned percent) { progress(50 + percent / 2); });
  exported_ = {descriptor_.get(), layout.bytes, layout.hash, hash};
  arena_ = std::move(arena);
  layout_hash_ = layout.hash;
  bind_views(m.weights, layout, bytes_of(arena_));
}

void host_weights::drop() noexcept {
  arena_.drop();
  descriptor_.reset();
  exported_.descriptor = -1;
}

void host_weights::map_again(const engine::shared_weights& from, unsigned threads) {
  require_layout(from, layout_hash_);
  arena_.map_again(from.descriptor);
  require_content(from, content_hash({bytes_of(arena_), arena_.bytes()}, threads));
}

void host_weights::import(engine::model& m, const engine::shared_weights& from, unsigned threads,
                          const std::function<void(unsigned percent)>& progress) {
  const host_layout layout = lay_out(m.weights);
  require_layout(from, layout.hash);
  arena_mapping arena(memfd_driver::instance(), from.descriptor, layout.bytes, arena_access::read);
  require_content(from, content_hash({bytes_of(arena), layout.bytes}, threads, progress));
  arena_ = std::move(arena);
  layout_hash_ = layout.hash;
  bind_views(m.weights, layout, bytes_of(arena_));
}

void read_weights(const engine::model_weights& weights, const std::function<void(unsigned)>& progress) {
  constexpr std::uint64_t page = 4096;
  const std::uint64_t total = std::max<std::uint64_t>(1, engine::payload_bytes(weights));
  std::uint64_t done = 0;
  unsigned told = 0;
  volatile std::byte last{};
  engine::for_each_tensor(weights, [&](const engine::tensor_view& tensor) {
    for (std::uint64_t offset = 0; offset < tensor.bytes; offset += page) {
      last = tensor.data[offset];
      done += std::min(page, tensor.bytes - offset);
      const auto percent = static_cast<unsigned>(done * 100 / total);
      if (percent > told && percent < 100) progress(told = percent);
    }
  });
}

}  // namespace orcd::gpu
