#include "gpu/plan/model_support.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/attention/attention_args.hpp"
#include "kernels/attention/latent_args.hpp"
#include "kernels/layer/experts_args.hpp"
#include "kernels/product/packed_matrix.hpp"

namespace orcd::gpu {
namespace {

using engine::ffn_activation;
using engine::model_spec;
using engine::router_weighting;

engine::error refused(std::string why, const char* option = "") {
  return engine::error(engine::errc::model_load_failed, std::move(why), option);
}

bool has_plain_router(const model_spec& spec) {
  return (spec.routing == router_weighting::softmax_all_renormalised ||
          spec.routing == router_weighting::softmax_selected) &&
         spec.expert_scale == 1.0 && spec.expert_groups == 1 && !spec.biased_choice;
}

/// Without what Gemma 4 has around heads, experts and layers.
bool has_plain_parts(const model_spec& spec) {
  const bool plain =
      std::none_of(spec.layers.begin(), spec.layers.end(), [](const engine::layer_spec& layer) {
        return layer.reads_other_cache || layer.values_from_keys || layer.expert_size != 0;
      });
  return plain && !spec.value_norm && !spec.dense_and_experts && !spec.router_norm && !spec.output_scales &&
         spec.layer_inputs == 0;
}

bool has_plain_halves(const model_spec& spec) {
  return spec.norm == engine::norm_kind::rms && !spec.post_norms && !spec.parallel_halves &&
         !spec.wide_head_norms && !has_other_head_norms(spec) && !spec.latent &&
         spec.attention_softcap == 0.0 && spec.query_scale == 0.0 && has_plain_parts(spec);
}

bool has_shared_experts(const model_spec& spec) {
  return std::any_of(spec.layers.begin(), spec.layers.end(),
                     [](const engine::layer_spec& layer) { return layer.shared_size > 0; });
}

/// Of the feed-forward and of shared experts, all of whose activations lie in one buffer: what one width
/// writes would be multiplied as the padding of another.
engine::result<void> check_widths(const model_spec& spec) {
  std::vector<std::uint32_t> widths;
  for (const engine::layer_spec& layer : spec.layers) {
    for (const std::uint32_t width : {layer.ffn_size, layer.shared_size}) {
      if (width > 0 && std::find(widths.begin(), widths.end(), width) == widths.end())
        widths.push_back(width);
    }
  }
  if (widths.size() < 2) return {};
  const auto odd = std::find_if(widths.begin(), widths.end(),
                                [](std::uint32_t width) { return kernels::padded_cols(width) != width; });
  if (odd == widths.end()) return {};
  return refused("feed-forwards of several widths, one of " + std::to_string(*odd) +
                 " values: the CUDA kernels need multiples of 64 where widths differ");
}

engine::result<void> check_heads(const model_spec& spec) {
  for (const engine::layer_spec& layer : spec.layers) {
    if (layer.key_length == layer.value_length && layer.key_length <= kernels::head_width_max) continue;
    return refused("heads of " + std::to_string(layer.key_length) + " and " +
                   std::to_string(layer.value_length) + " values: the CUDA kernels need equal widths up to " +
                   std::to_string(kernels::head_width_max));
  }
  return {};
}

engine::result<void> check_latents(const model_spec& spec) {
  const engine::latent_spec& latent = spec.latent;
  const auto refuse = [](const char* what, std::uint32_t value, const std::string& taken) {
    return refused("latent attention with " + std::string(what) + " of " + std::to_string(value) +
                   " values: the CUDA kernels take " + taken);
  };
  if (latent.rank % kernels::latent_rank_step != 0 || latent.rank > kernels::latent_rank_max) {
    return refuse("a rank", latent.rank,
                  "multiples of " + std::to_string(kernels::latent_rank_step) + " up to " +
                      std::to_string(kernels::latent_rank_max));
  }
  if (latent.rotated == 0 || latent.rotated > kernels::latent_rotated_max)
    return refuse("a rotated part", latent.rotated, "1 to " + std::to_string(kernels::latent_rotated_max));
  // Products of single heads go through the experts' sort.
  const std::uint32_t heads = spec.layers.front().heads;
  if (heads > kernels::experts_max) {
    return refused("latent attention with " + std::to_string(heads) + " heads: the CUDA kernels take up to " +
                   std::to_string(kernels::experts_max));
  }
  if (!spec.causal)
    return refused("latent attention of all tokens to all: the CUDA kernels have it causal alone");
  const bool alike =
      std::all_of(spec.layers.begin(), spec.layers.end(), [&](const engine::layer_spec& layer) {
        return layer.heads == spec.layers.front().heads && layer.window == 0;
      });
  if (alike) return {};
  return refused(
      "latent attention with layers that differ in heads or have windows: the CUDA kernels have none");
}

}  // namespace

bool has_other_head_norms(const model_spec& spec) noexcept {
  return spec.own_head_norms || spec.head_norm != engine::norm_kind::rms;
}

bool has_plain_layers(const model_spec& spec) noexcept {
  return !spec.integer_activations && has_plain_halves(spec) &&
         (spec.activation == ffn_activation::swiglu || spec.activation == ffn_activation::swiglu_clamped) &&
         has_plain_router(spec) && !has_shared_experts(spec);
}

bool has_plain_ternary_layers(const model_spec& spec) noexcept {
  return spec.integer_activations && has_plain_halves(spec) && spec.experts == 0 &&
         (spec.activation == ffn_activation::swiglu || spec.activation == ffn_activation::relu_squared);
}

bool has_plain_head(const model_spec& spec) noexcept {
  return spec.norm == engine::norm_kind::rms && spec.logit_scale == 1.0 && spec.logit_softcap == 0.0;
}

bool program_fits(const model_spec& spec) noexcept {
  return (has_plain_layers(spec) || has_plain_ternary_layers(spec)) &&
         spec.key_length_max() <= kernels::narrow_head_max;
}

engine::result<void> check_cuda_support(const model_spec& spec) {
  if (spec.is_recurrent()) {
    return refused("layers with a recurrent state or a short convolution (architecture " + spec.architecture +
                   "): the CUDA backend has no kernels for them yet, the host backend runs such models");
  }
  if (spec.latent) {
    if (const auto taken = check_latents(spec); !taken) return taken;
  } else if (const auto taken = check_heads(spec); !taken) {
    return taken;
  }
  if (spec.activation == ffn_activation::relu_squared && !spec.integer_activations) {
    return refused("the activation relu2 in architecture " + spec.architecture +
                       ": the CUDA kernels have it for BitNet models alone, whose squares they keep in f32",
                   "ffn-activation");
  }
  return check_widths(spec);
}

}  // namespace orcd::gpu
