#include "test/unit/gpu/tiny_adapter.hpp"

#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>

#include "engine/base/sha256.hpp"
#include "engine/gguf/gguf_file.hpp"
#include "gpu/plan/adapter_layout.hpp"
#include "kernels/host/matmul.hpp"
#include "test/support/gguf_writer.hpp"

namespace orcd::test {
namespace {

using engine::lora_target;

const engine::tensor_view& matrix_of(const engine::model& m, const engine::lora_pair& pair) {
  if (pair.target == lora_target::output) return m.weights.output;
  if (pair.target == lora_target::token_embd) return m.weights.token_embd;
  const engine::layer_weights& layer = m.weights.layers[pair.layer];
  switch (pair.target) {
    case lora_target::attn_qkv: return layer.attn_qkv;
    case lora_target::attn_q: return layer.attn_q;
    case lora_target::attn_k: return layer.attn_k;
    case lora_target::attn_v: return layer.attn_v;
    case lora_target::attn_output: return layer.attn_output;
    case lora_target::ffn_gate_up: return layer.ffn_gate_up;
    case lora_target::ffn_gate: return layer.ffn_gate;
    case lora_target::ffn_up: return layer.ffn_up;
    case lora_target::mix_in: return layer.mix_in;
    case lora_target::mix_gate: return layer.mix_gate;
    case lora_target::mix_out: return layer.mix_out;
    default: return layer.ffn_down;
  }
}

/// Row `o`, column `i` of B A.
double product_at(const engine::lora_adapter& adapter, const engine::lora_pair& pair, std::uint32_t o,
                  std::uint32_t i) {
  double sum = 0.0;
  for (std::uint32_t r = 0; r < pair.rank; ++r) {
    sum += static_cast<double>(adapter.b(pair)[std::size_t{o} * pair.rank + r]) *
           adapter.a(pair)[std::size_t{r} * pair.in + i];
  }
  return sum;
}

}  // namespace

engine::lora_adapter make_tiny_adapter(const engine::model& m, const tiny_adapter_options& options) {
  std::mt19937_64 random(options.seed);
  const auto fill = [&](engine::lora_adapter& to, std::uint64_t count, double size) {
    std::uniform_real_distribution<double> values(-size, size);
    const std::uint64_t at = to.values.size();
    for (std::uint64_t i = 0; i < count; ++i) to.values.push_back(static_cast<float>(values(random)));
    return at;
  };
  engine::lora_adapter out;
  out.digest = engine::sha256_of("tiny " + std::to_string(options.seed) + " " + std::to_string(options.rank));
  const gpu::adapter_layout layout(m, {1, options.rank});
  for (const gpu::adapter_place& place : layout.places()) {
    if (options.wanted && !options.wanted(place.target)) continue;
    engine::lora_pair pair{place.target, place.layer};
    pair.rank =
        place.target == lora_target::attn_output && options.rank > 1 ? options.rank - 1 : options.rank;
    pair.in = place.in;
    pair.out = place.out;
    pair.scale = 0.5F + 0.25F * static_cast<float>(place.layer);
    const double in = place.target == lora_target::token_embd ? 1.0 : place.in;
    pair.a_at = fill(out, std::uint64_t{pair.rank} * pair.in, std::sqrt(3.0 / in));
    pair.b_at = fill(out, std::uint64_t{pair.rank} * pair.out, options.size * std::sqrt(3.0 / pair.rank));
    out.rank_max = std::max(out.rank_max, pair.rank);
    out.pairs.push_back(pair);
  }
  return out;
}

bytes merged(bytes image, const engine::lora_adapter& adapter, float strength) {
  const engine::gguf_file file = engine::gguf_file::parse(image, "tiny").value();
  const engine::model m = engine::load_model(file).value();
  for (const engine::lora_pair& pair : adapter.pairs) {
    const engine::tensor_view& matrix = matrix_of(m, pair);
    if (matrix.type != engine::ggml_type::f32) throw std::runtime_error("only F32 matrices are merged");
    // The view is of the image, which is ours.
    auto* values = const_cast<std::byte*>(matrix.data);
    const bool embeds = pair.target == lora_target::token_embd;
    for (std::uint32_t row = 0; row < matrix.rows(); ++row) {
      for (std::uint32_t col = 0; col < matrix.cols(); ++col) {
        std::byte* at = values + (std::uint64_t{row} * matrix.cols() + col) * sizeof(float);
        float value = 0.0F;
        std::memcpy(&value, at, sizeof value);
        const double change =
            embeds ? product_at(adapter, pair, col, row) : product_at(adapter, pair, row, col);
        value = static_cast<float>(value + static_cast<double>(strength) * pair.scale * change);
        std::memcpy(at, &value, sizeof value);
      }
    }
  }
  return image;
}

bytes in_f32(const bytes& image) {
  const engine::gguf_file file = engine::gguf_file::parse(image, "tiny").value();
  gguf_writer out;
  for (const engine::gguf_entry& entry : file.entries()) {
    const std::string key(entry.key);
    const auto type = static_cast<std::uint32_t>(entry.value.type);
    if (const auto* array = std::get_if<engine::gguf_array>(&entry.value.value)) {
      bytes payload;
      append_number(payload, static_cast<std::uint32_t>(array->element));
      append_number(payload, array->count);
      payload.insert(payload.end(), array->payload.begin(), array->payload.end());
      out.add_raw(key, type, std::move(payload));
    } else if (const auto* text = std::get_if<std::string_view>(&entry.value.value)) {
      out.add(key, *text);
    } else if (const auto* flag = std::get_if<bool>(&entry.value.value)) {
      out.add(key, *flag);
    } else if (const auto* real = std::get_if<double>(&entry.value.value)) {
      out.add(key, static_cast<float>(*real));
    } else {
      out.add(key, static_cast<std::uint32_t>(std::get<std::uint64_t>(entry.value.value)));
    }
  }
  for (const engine::tensor_view& tensor : file.tensors()) {
    const auto& extents = tensor.extents;
    std::vector<std::uint64_t> shape(extents.begin(), extents.begin() + tensor.dims);
    const std::uint64_t rows = tensor.elements() / extents[0], bytes_a_row = tensor.bytes / rows;
    bytes values(tensor.elements() * sizeof(float));
    for (std::uint64_t row = 0; row < rows; ++row) {
      kernels::host::dequantize_row(tensor.type, tensor.data + row * bytes_a_row,
                                    static_cast<std::uint32_t>(extents[0]),
                                    reinterpret_cast<float*>(values.data()) + row * extents[0]);
    }
    out.add_tensor(std::string(tensor.name), std::move(shape), engine::ggml_type::f32, std::move(values));
  }
  return out.build();
}

}  // namespace orcd::test
