#include "gpu/host/host_memory.hpp"

#include <algorithm>
#include <cstring>

#include "gpu/memory/memfd_driver.hpp"
#include "gpu/plan/kept_layout.hpp"

namespace orcd::gpu {

host_extents host_extents::of(const engine::model_spec& spec, const engine::accelerator_config& config,
                              std::uint32_t context, std::uint32_t chunk_tokens, std::uint32_t launch_depth) {
  host_extents e;
  const std::uint32_t slots = config.slots;
  e.kv = config.kv;
  e.slots = slots;
  // Each slot has room for a chunk.
  e.draft_tokens = spec.pooling ? 0 : std::min(config.draft_tokens, slots * (chunk_tokens - 1));
  e.context = context;
  e.takes_rows = config.media.encoder != nullptr;
  e.groups = kv_groups::of(
      spec, {.slots = slots,
             .context = context,
             .types = config.kv,
             .pages = config.kv_pages,
             .ahead = {launch_depth, chunk_tokens, std::min(engine::drafts_max, e.draft_tokens)},
             .window_groups = config.window_groups,
             .boundaries = config.boundaries});
  // Steps of pooled sequences have chunk_tokens tokens together (engine/accelerator.hpp).
  e.columns = spec.pooling ? chunk_tokens : slots * chunk_tokens;
  e.ffn_rows = e.columns * std::max(1U, spec.experts_used);
  // One table per layer is the most there can be; layers that share a table leave the rest unused.
  e.rope_tables = static_cast<std::uint32_t>(spec.layers.size());
  for (const engine::layer_spec& layer : spec.layers) {
    const std::uint32_t new_kv = layer.cached_heads() * (layer.key_length + spec.cached_value_length(layer));
    e.latent_query = std::max(e.latent_query, layer.heads * spec.latent.key_length);
    e.latent_values = std::max(e.latent_values, layer.heads * spec.latent.value_length);
    e.qkv = std::max(e.qkv, layer.q_rows() + new_kv);
    e.attended = std::max(e.attended, layer.attended_rows());
    if (layer.query_gate) e.gated_query = std::max(e.gated_query, 2 * layer.q_rows());
    e.ffn = std::max({e.ffn, layer.ffn_size, layer.shared_size, layer.expert_size});
    e.rope_pairs = std::max(e.rope_pairs, layer.rope.dims / 2);
    e.rotates_grids = e.rotates_grids || (e.takes_rows && layer.rope.axes != engine::rope_axes::one);
  }
  e.latent_factor = spec.latent.query_rank;
  e.layer_inputs = spec.layer_inputs * static_cast<std::uint32_t>(spec.layers.size());
  e.states = kept_boundaries(e.draft_tokens);
  e.mixed = mixed_width(spec);
  if (e.mixed > 0) e.mix_values = std::max(spec.recurrence.values(), spec.recurrence.short_channels);
  e.mix_heads = spec.recurrence.value_heads;
  // What its gate gives.
  e.ffn = std::max(e.ffn, spec.layer_inputs);
  if (spec.integer_activations) e.rounded = std::max({spec.embedding, e.attended, e.ffn});
  return e;
}

namespace {

/// Hands out aligned pieces of one allocation, or only counts when there is none yet.
class bump_allocator {
 public:
  explicit bump_allocator(std::byte* base) : base_(base) {}

  template <class T>
  void give(T*& pointer, std::uint64_t count) {
    pointer = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += (count * sizeof(T) + 63) / 64 * 64;
  }
  [[nodiscard]] std::uint64_t used() const noexcept { return used_; }

 private:
  std::byte* base_;
  std::uint64_t used_ = 0;
};

}  // namespace

std::uint64_t host_workspace::place(const engine::model_spec& spec, const host_extents& e, std::byte* base) {
  bump_allocator memory(base);
  const std::uint64_t columns = e.columns;
  const std::uint64_t ffn_rows = e.ffn_rows;
  memory.give(residual, columns * spec.embedding);
  memory.give(normed, columns * spec.embedding);
  memory.give(qkv, columns * e.qkv);
  memory.give(attended, columns * e.attended);
  memory.give(latent_query, columns * e.latent_query);
  memory.give(latent_factor, columns * e.latent_factor);
  memory.give(latent_values, columns * e.latent_values);
  memory.give(half_out, spec.post_norms || spec.shared_gate ? columns * spec.embedding : 0);
  memory.give(layer_inputs, columns * e.layer_inputs);
  memory.give(input_rows, columns * e.layer_inputs);
  memory.give(input_gates, columns * 2 * spec.layer_inputs);
  memory.give(gated_query, columns * e.gated_query);
  memory.give(mixed, columns * e.mixed);
  memory.give(mix_values, columns * e.mix_values);
  memory.give(mix_factors, columns * e.mix_heads);
  memory.give(mix_decays, columns * e.mix_heads);
  memory.give(shared_gates, spec.shared_gate ? columns : 0);
  memory.give(gate_up, ffn_rows * 2 * e.ffn);
  memory.give(activated, ffn_rows * e.ffn);
  memory.give(ints, columns * e.rounded);
  memory.give(int_scales, e.rounded == 0 ? 0 : columns);
  memory.give(int_sums, e.rounded == 0 ? 0 : columns);
  memory.give(expert_out, spec.experts == 0 ? 0 : ffn_rows * spec.embedding);
  memory.give(router_logits, columns * spec.experts);
  memory.give(expert_weights, ffn_rows);
  memory.give(cosines, columns * e.rope_tables * e.rope_pairs);
  memory.give(sines, columns * e.rope_tables * e.rope_pairs);
  memory.give(chosen, ffn_rows);
  memory.give(expert_in, ffn_rows);
  memory.give(expert_rows, ffn_rows);
  memory.give(positions, columns);
  memory.give(rotary, e.rotates_grids ? 3 * columns : 0);
  memory.give(tokens, columns);
  memory.give(sampled_rows, e.slots + e.draft_tokens);
  return memory.used();
}

namespace {

/// The most products of one parallel region: of experts' gate and up, or of every head of a latent.
std::uint64_t products_of(const engine::model_spec& spec) {
  std::uint32_t heads = 0;
  for (const engine::layer_spec& layer : spec.layers) heads = std::max(heads, layer.heads);
  return std::max(2 * spec.experts + 4, spec.latent ? heads : 0);
}

}  // namespace

std::uint64_t host_workspace::bytes(const engine::model_spec& spec, const host_extents& extents) {
  host_workspace none;
  return none.place(spec, extents, nullptr) + 64 + extents.columns * sizeof(kernels::attention_column) +
         extents.columns * sizeof(std::uint32_t) + products_of(spec) * sizeof(kernels::matmul_args);
}

host_workspace::host_workspace(const engine::model_spec& spec, const host_extents& extents)
    : attention(extents.columns), column_slots(extents.columns) {
  products.reserve(products_of(spec));
  const std::uint64_t needed = place(spec, extents, nullptr);
  memory_ = std::make_unique<std::byte[]>(needed + 64);
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
  place(spec, extents, memory_.get() + (64 - address % 64) % 64);
}

host_kv_cache::host_kv_cache(const engine::model_spec& spec, engine::kv_types types, const kv_groups& groups,
                             const engine::cache_source& source)
    : types_(types) {
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const engine::layer_spec& layer = spec.layers[i];
    const std::uint32_t group = groups.of_layer[i];
    const std::uint32_t pages = groups.pages(group);
    add(group, layer.cached_heads(), engine::kv_row_bytes(types.keys, layer.key_length), pages);
    add(group, layer.cached_heads(), engine::kv_row_bytes(types.values, spec.cached_value_length(layer)),
        pages);
  }
  if (!source.share && !source.imported) {
    memory_ = std::make_unique<std::byte[]>(bytes_);
    base_ = memory_.get();
    return;
  }
  memfd_driver& driver = memfd_driver::for_caches();
  const std::uint64_t bytes = memfd_driver::round_up(bytes_);
  shared_ = source.imported
                ? arena_mapping(driver, source.imported->descriptor, bytes, arena_access::read_write)
                : arena_mapping(driver, bytes);
  base_ = reinterpret_cast<std::byte*>(shared_.address());
  if (!source.share) return;
  descriptor_ = shared_.export_fd();
  exported_ = {descriptor_.get(), bytes};
}

void host_kv_cache::add(std::uint32_t group, std::uint32_t kv_heads, std::uint64_t row_bytes,
                        std::uint32_t pages) {
  parts_.push_back({bytes_, row_bytes, kv_heads, group});
  bytes_ += std::uint64_t{pages} * kv_heads * engine::kv_page_positions * row_bytes;
}

void host_kv_cache::copy(std::uint32_t group, const engine::page_copy& what) noexcept {
  for (const part& p : parts_) {
    if (p.group != group) continue;
    for (std::uint32_t head = 0; head < p.kv_heads; ++head) {
      const std::byte* from =
          base_ + p.offset + kernels::attention_first_row(what.from, p.kv_heads, head) * p.row_bytes;
      std::byte* to =
          base_ + p.offset + kernels::attention_first_row(what.to, p.kv_heads, head) * p.row_bytes;
      std::memcpy(to, from, what.positions * p.row_bytes);
    }
  }
}

void host_kv_cache::clear(std::uint32_t group, engine::kv_page page) noexcept {
  for (const part& p : parts_) {
    if (p.group != group) continue;
    std::memset(base_ + p.offset + kernels::attention_first_row(page, p.kv_heads, 0) * p.row_bytes, 0,
                p.row_bytes * p.kv_heads * engine::kv_page_positions);
  }
}

}  // namespace orcd::gpu
