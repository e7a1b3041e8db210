#include "gpu/plan/latent_weights.hpp"

#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <system_error>
#include <vector>

#include "kernels/host/embed.hpp"
#include "kernels/host/thread_pool.hpp"

namespace orcd::gpu {
namespace {

using engine::tensor_view;
using buffer = std::shared_ptr<std::vector<float>>;

/// A view of a stack of matrices, one a head, that lies at `data`.
tensor_view stack_of(const tensor_view& like, std::array<std::uint64_t, 3> extents, const void* data) {
  tensor_view out = like;
  out.dims = 3;
  out.extents = {extents[0], extents[1], extents[2], 1};
  out.data = static_cast<const std::byte*>(data);
  out.bytes = extents[2] * extents[1] * engine::row_bytes(engine::traits_of(out.type), extents[0]);
  return out;
}

/// [heads][rank][unrotated] in F32.
tensor_view keys_like(const tensor_view& joined, const engine::latent_spec& latent, std::uint64_t heads,
                      const void* data) {
  tensor_view like = joined;
  like.type = engine::ggml_type::f32;
  like.factor = 1.0F;
  return stack_of(like, {latent.unrotated(), latent.rank, heads}, data);
}

/// [heads][value][rank] of the file's type.
tensor_view values_like(const tensor_view& joined, const engine::latent_spec& latent, std::uint64_t heads,
                        const void* data) {
  return stack_of(joined, {latent.rank, latent.value_length, heads}, data);
}

/// From rows of [heads][unrotated + value].
tensor_view transposed_keys(const tensor_view& joined, const engine::latent_spec& latent, std::uint64_t heads,
                            kernels::host::thread_pool& pool, engine::model_weights& weights) {
  const std::uint64_t rank = latent.rank;
  const std::uint64_t unrotated = latent.unrotated();
  const std::uint64_t rows = unrotated + latent.value_length;
  std::vector<float> decoded(unrotated * rank);
  std::vector<std::int32_t> ids(unrotated);
  const auto made = std::make_shared<std::vector<float>>(heads * rank * unrotated);
  for (std::uint64_t head = 0; head < heads; ++head) {
    std::iota(ids.begin(), ids.end(), static_cast<std::int32_t>(head * rows));
    kernels::host::embed({.table = {.data = joined.data,
                                    .type = joined.type,
                                    .rows = static_cast<std::uint32_t>(joined.rows()),
                                    .cols = static_cast<std::uint32_t>(joined.cols()),
                                    .factor = joined.factor},
                          .tokens = ids.data(),
                          .out = decoded.data(),
                          .columns = latent.unrotated()},
                         pool);
    float* const to = made->data() + head * rank * unrotated;
    for (std::uint64_t i = 0; i < unrotated; ++i)
      for (std::uint64_t r = 0; r < rank; ++r) to[r * unrotated + i] = decoded[i * rank + r];
  }
  weights.made.push_back(made);
  return keys_like(joined, latent, heads, made->data());
}

/// The file's rows.
tensor_view values_of(const tensor_view& joined, const engine::latent_spec& latent, std::uint64_t heads,
                      engine::model_weights& weights) {
  const std::uint64_t row = engine::row_bytes(engine::traits_of(joined.type), joined.cols());
  const std::uint64_t bytes = latent.value_length * row;
  const auto made = std::make_shared<std::vector<float>>((heads * bytes + sizeof(float) - 1) / sizeof(float));
  auto* const to = reinterpret_cast<std::byte*>(made->data());
  for (std::uint64_t head = 0; head < heads; ++head) {
    const std::uint64_t first = head * (latent.unrotated() + latent.value_length) + latent.unrotated();
    std::memcpy(to + head * bytes, joined.data + first * row, bytes);
  }
  weights.made.push_back(made);
  return values_like(joined, latent, heads, made->data());
}

}  // namespace

engine::model with_parted_shapes(const engine::model& m) {
  engine::model out = m;
  for (std::size_t i = 0; i < out.weights.layers.size(); ++i) {
    engine::layer_weights& layer = out.weights.layers[i];
    const tensor_view joined = layer.attn_kv_b;
    if (!joined) continue;
    layer.attn_k_b = keys_like(joined, m.spec.latent, m.spec.layers[i].heads, joined.data);
    layer.attn_v_b = values_like(joined, m.spec.latent, m.spec.layers[i].heads, joined.data);
    layer.attn_kv_b = {};
  }
  return out;
}

std::uint64_t parted_bytes(const engine::model& m) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < m.weights.layers.size(); ++i) {
    const tensor_view& joined = m.weights.layers[i].attn_kv_b;
    if (!joined) continue;
    const std::uint64_t heads = m.spec.layers[i].heads;
    bytes += keys_like(joined, m.spec.latent, heads, nullptr).bytes +
             values_like(joined, m.spec.latent, heads, nullptr).bytes;
  }
  return bytes;
}

engine::result<void> part_joined_latents(engine::model& m, unsigned threads) try {
  if (parted_bytes(m) == 0) return {};
  kernels::host::thread_pool pool(threads);
  for (std::size_t i = 0; i < m.weights.layers.size(); ++i) {
    engine::layer_weights& layer = m.weights.layers[i];
    const tensor_view joined = layer.attn_kv_b;
    if (!joined) continue;
    const std::uint64_t heads = m.spec.layers[i].heads;
    layer.attn_k_b = transposed_keys(joined, m.spec.latent, heads, pool, m.weights);
    layer.attn_v_b = values_of(joined, m.spec.latent, heads, m.weights);
    layer.attn_kv_b = {};
  }
  return {};
} catch (const std::bad_alloc&) {
  return engine::error(engine::errc::insufficient_vram, "cannot allocate " + std::to_string(parted_bytes(m)) +
                                                            " bytes for the parts of attn_kv_b");
} catch (const std::system_error& failure) {
  return engine::error(engine::errc::internal,
                       std::string("starting threads to part attn_kv_b: ") + failure.what());
}

}  // namespace orcd::gpu
