#include "engine/model/padding.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

namespace orcd::engine {
namespace {

std::uint32_t width_before(hparam_reader& from, const char* key, const char* padded_key,
                           std::uint32_t padded) {
  const auto told = from.file().get_unsigned(key, padded);
  if (told && *told >= 1 && *told <= padded) return static_cast<std::uint32_t>(*told);
  from.problems().add("key '" + std::string(key) + "' is " + (told ? std::to_string(*told) : "no number") +
                      "; it must be 1 to " + padded_key + ", " + std::to_string(padded));
  return padded;
}

/// One norm over `padded` values of which `width` are not padding.
void scale(tensor_view& norm, std::uint32_t width, std::uint32_t padded, model_weights& weights,
           problem_list& problems) {
  if (!norm || width == 0 || width >= padded) return;
  if (norm.type != ggml_type::f32 || norm.elements() != padded) return;  // told by the tensors' own check
  auto values = std::make_shared<std::vector<float>>(padded);
  std::memcpy(values->data(), norm.data, norm.bytes);
  const auto behind = values->begin() + width;
  if (std::any_of(behind, values->end(), [](float v) { return v != 0.0F; })) {
    problems.add("tensor '" + std::string(norm.name) + "' has values behind " + std::to_string(width) +
                 ", which are padding and must be zero");
    return;
  }
  const double factor = std::sqrt(static_cast<double>(width) / padded);
  for (float& v : *values) v = static_cast<float>(v * factor);
  norm.data = reinterpret_cast<const std::byte*>(values->data());
  weights.made.push_back(std::move(values));
}

}  // namespace

void read_padding(hparam_reader& from, model_spec& spec) {
  spec.embedding_before = width_before(from, "orcd.hidden_original", "embedding_length", spec.embedding);
  const auto wide = std::find_if(spec.layers.begin(), spec.layers.end(),
                                 [](const layer_spec& layer) { return layer.ffn_size > 0; });
  const std::uint32_t ffn = wide == spec.layers.end() ? 1 : wide->ffn_size;
  spec.ffn_before = width_before(from, "orcd.intermediate_original", "feed_forward_length", ffn);
  const bool same = std::all_of(spec.layers.begin(), spec.layers.end(),
                                [&](const layer_spec& layer) { return layer.ffn_size == ffn; });
  const bool padded = spec.embedding_before != spec.embedding || spec.ffn_before != ffn;
  const bool rms = spec.norms != norm_placement::after && spec.norm == norm_kind::rms && !spec.post_norms;
  if (padded && (!rms || spec.experts > 0 || !same)) {
    from.problems().add(
        "widths are padded ('orcd.hidden_original', 'orcd.intermediate_original'), which is "
        "supported of dense models with layers of one width and RMS norms before their halves only");
  }
  if (spec.embedding_before == spec.embedding) spec.embedding_before = 0;
  if (spec.ffn_before == ffn) spec.ffn_before = 0;
}

void scale_padded_norms(const model_spec& spec, model_weights& weights, problem_list& problems) {
  const auto of_residual = [&](tensor_view& norm) {
    scale(norm, spec.embedding_before, spec.embedding, weights, problems);
  };
  of_residual(weights.output_norm);
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    layer_weights& layer = weights.layers[i];
    of_residual(layer.attn_norm);
    of_residual(layer.ffn_norm);
    scale(layer.ffn_sub_norm, spec.ffn_before, spec.layers[i].ffn_size, weights, problems);
  }
}

}  // namespace orcd::engine
