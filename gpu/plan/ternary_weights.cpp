#include "gpu/plan/ternary_weights.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "kernels/host/ternary_scan.hpp"
#include "kernels/host/thread_pool.hpp"

namespace orcd::gpu {
namespace {

using engine::errc;
using engine::error;
using engine::ggml_type;
using engine::layer_weights;
using engine::result;
using engine::tensor_view;

using layer_matrix = tensor_view layer_weights::*;

/// Whose inputs are norms or what the feed-forward makes of them.
constexpr layer_matrix projections[] = {
    &layer_weights::attn_qkv, &layer_weights::attn_q,      &layer_weights::attn_k,
    &layer_weights::attn_v,   &layer_weights::attn_output, &layer_weights::ffn_gate,
    &layer_weights::ffn_up,   &layer_weights::ffn_gate_up, &layer_weights::ffn_down,
};
constexpr layer_matrix others[] = {
    &layer_weights::router,
    &layer_weights::expert_gate,
    &layer_weights::expert_up,
    &layer_weights::expert_down,
};

std::uint64_t bytes_of_rows(const tensor_view& tensor) {
  return tensor.bytes - engine::traits_of(tensor.type).trailer_bytes;
}

std::vector<const tensor_view*> in_i2_s(const engine::model_weights& weights) {
  std::vector<const tensor_view*> out;
  const auto add = [&](const tensor_view& tensor) {
    if (tensor && tensor.type == ggml_type::i2_s) out.push_back(&tensor);
  };
  add(weights.token_embd);
  add(weights.position_embd);
  add(weights.token_types);
  add(weights.cls);
  add(weights.cls_output);
  if (weights.output.data != weights.token_embd.data) add(weights.output);
  for (const layer_weights& layer : weights.layers) {
    for (const layer_matrix matrix : projections) add(layer.*matrix);
    for (const layer_matrix matrix : others) add(layer.*matrix);
  }
  return out;
}

struct piece {
  const tensor_view* tensor;
  std::uint64_t first, count;  ///< bytes
};

std::vector<piece> cut(const std::vector<const tensor_view*>& tensors) {
  constexpr std::uint64_t piece_bytes = std::uint64_t{4} << 20;
  std::vector<piece> out;
  for (const tensor_view* tensor : tensors) {
    const std::uint64_t bytes = bytes_of_rows(*tensor);
    for (std::uint64_t first = 0; first < bytes; first += piece_bytes)
      out.push_back({tensor, first, std::min(piece_bytes, bytes - first)});
  }
  return out;
}

error describe(const piece& bad, std::uint64_t at) {
  const tensor_view& tensor = *bad.tensor;
  return {errc::model_load_failed,
          "tensor '" + std::string(tensor.name) + "' (I2_S) is corrupt: byte " + std::to_string(at) +
              ", at offset " + std::to_string(tensor.file_offset + at) + " of its file, has the code 3"};
}

/// Runs `each` for every index, `together` of them between two calls of `tell`, which may throw to end it.
void run_telling(kernels::host::thread_pool& pool, std::size_t count, std::size_t together,
                 const std::function<void()>& tell, const std::function<void(std::size_t)>& each) {
  for (std::size_t first = 0; first < count; first += together) {
    tell();
    const auto some = static_cast<std::uint32_t>(std::min(together, count - first));
    pool.run(some, 1, [&](std::uint32_t begin, std::uint32_t end) {
      for (std::uint32_t i = begin; i < end; ++i) each(first + i);
    });
  }
}

result<void> check_codes(const engine::model_weights& weights, kernels::host::thread_pool& pool,
                         const std::function<void()>& tell) {
  constexpr std::size_t pieces_together = 16;
  const std::vector<piece> pieces = cut(in_i2_s(weights));
  std::vector<std::optional<std::uint64_t>> bad(pieces.size());
  run_telling(pool, pieces.size(), pieces_together, tell, [&](std::size_t i) {
    bad[i] = kernels::host::find_invalid_code(pieces[i].tensor->data + pieces[i].first, pieces[i].count);
  });
  const auto first = std::find_if(bad.begin(), bad.end(), [](const auto& at) { return at.has_value(); });
  if (first == bad.end()) return {};
  const piece& its = pieces[static_cast<std::size_t>(first - bad.begin())];
  return describe(its, its.first + **first);
}

std::optional<float> code_scale_of(const tensor_view& tensor) {
  if (!tensor) return {};
  if (tensor.type == ggml_type::i2_s) return tensor.factor;
  if (tensor.type != ggml_type::tq1_0 && tensor.type != ggml_type::tq2_0) return {};
  const std::uint64_t blocks = tensor.bytes / engine::traits_of(tensor.type).block_bytes;
  const auto common = kernels::host::common_scale(tensor.type, tensor.data, blocks);
  return common ? std::optional(*common * tensor.factor) : std::nullopt;
}

result<void> find_scales(engine::model_weights& weights, kernels::host::thread_pool& pool,
                         const std::function<void()>& tell) {
  std::vector<tensor_view*> matrices;
  for (layer_weights& layer : weights.layers) {
    for (const layer_matrix matrix : projections) matrices.push_back(&(layer.*matrix));
  }
  run_telling(pool, matrices.size(), std::size(projections), tell,
              [&](std::size_t i) { matrices[i]->code_scale = code_scale_of(*matrices[i]); });
  for (const tensor_view* matrix : matrices) {
    if (matrix->code_scale && !std::isfinite(*matrix->code_scale))
      return error(errc::model_load_failed, "tensor '" + std::string(matrix->name) +
                                                "': its scale and the one beside it have a product that is "
                                                "not finite");
  }
  return {};
}

}  // namespace

result<void> prepare_ternary_weights(engine::model& m, unsigned threads, bool codes_known,
                                     const std::function<void()>& tell) try {
  const bool codes = !in_i2_s(m.weights).empty();
  if (!codes && !m.spec.integer_activations) return {};
  kernels::host::thread_pool pool(threads);
  if (!codes_known) {
    if (const auto checked = check_codes(m.weights, pool, tell); !checked) return checked;
  }
  if (m.spec.integer_activations) return find_scales(m.weights, pool, tell);
  return {};
} catch (const std::system_error& failure) {
  return error(errc::internal, std::string("starting threads to check weights: ") + failure.what());
}

result<void> require_code_scales(const engine::model& m) {
  if (!m.spec.integer_activations) return {};
  for (const layer_weights& layer : m.weights.layers) {
    for (const layer_matrix matrix : projections) {
      const tensor_view& tensor = layer.*matrix;
      if (!tensor || tensor.code_scale) continue;
      return error(errc::model_load_failed,
                   "tensor '" + std::string(tensor.name) + "' (" +
                       std::string(engine::traits_of(tensor.type).name) +
                       ") has no scale that is one for all its values; the CUDA kernels need one");
    }
  }
  return {};
}

}  // namespace orcd::gpu
