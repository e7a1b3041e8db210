#include "gpu/plan/model_support.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention/attention_args.hpp"
#include "kernels/attention/latent_args.hpp"
#include "kernels/layer/experts_args.hpp"
#include "kernels/product/packed_matrix.hpp"
#include "kernels/recurrent/recurrent_layer.hpp"

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

/// Without what Gemma 4 has around heads, experts and layers, and hybrid models in them.
bool has_plain_parts(const model_spec& spec) {
  const bool plain =
      std::none_of(spec.layers.begin(), spec.layers.end(), [](const engine::layer_spec& layer) {
        return layer.reads_other_cache || layer.values_from_keys || layer.expert_size != 0 ||
               layer.query_gate || layer.mixer != engine::mixer_kind::attention ||
               layer.ffn == engine::ffn_kind::none;
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

/// Of widths of feed-forwards whose activations lie in one buffer: what one writes would be multiplied as the
/// padding of another. Widths of 0 do not count.
engine::result<void> check_widths(std::vector<std::uint32_t> widths) {
  std::erase(widths, 0U);
  const auto odd = std::find_if(widths.begin(), widths.end(),
                                [](std::uint32_t w) { return kernels::padded_cols(w) != w; });
  const bool alike = std::adjacent_find(widths.begin(), widths.end(), std::not_equal_to<>()) == widths.end();
  if (alike || odd == widths.end()) return {};
  return refused("feed-forwards of several widths, one of " + std::to_string(*odd) +
                 " values: the CUDA kernels need multiples of 64 where widths differ");
}

engine::result<void> check_all_widths(const model_spec& spec) {
  std::vector<std::uint32_t> dense, experts, shared;
  for (const engine::layer_spec& layer : spec.layers) {
    const bool has_experts = layer.ffn == engine::ffn_kind::moe;
    if (layer.ffn == engine::ffn_kind::dense || layer.expert_size > 0) dense.push_back(layer.ffn_size);
    if (has_experts) experts.push_back(layer.width_of_expert());
    shared.push_back(layer.shared_size);
  }
  for (auto* const widths : {&dense, &experts, &shared}) {
    if (const auto taken = check_widths(std::move(*widths)); !taken) return taken;
  }
  return {};
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

/// Of layers with a state, whose kernels read keys four at a time.
engine::result<void> check_recurrence(const model_spec& spec) {
  const bool has_states = std::any_of(spec.layers.begin(), spec.layers.end(),
                                      [](const auto& layer) { return engine::has_state(layer.mixer); });
  if (!has_states) return {};
  const engine::recurrent_spec& of = spec.recurrence;
  if (of.key_length % 4 == 0 && of.key_length <= kernels::device_key_length_max && of.values() % 4 == 0)
    return {};
  return refused("a recurrent state with keys of " + std::to_string(of.key_length) + " and " +
                 std::to_string(of.values()) +
                 " values: the CUDA kernels take keys of multiples of 4 up to " +
                 std::to_string(kernels::device_key_length_max) + " and values of multiples of 4");
}

}  // namespace

bool has_other_head_norms(const model_spec& spec) noexcept {
  return spec.own_head_norms || spec.head_norm != engine::norm_kind::rms;
}

bool has_experts_apart(const model_spec& spec) noexcept {
  if (spec.dense_and_experts) return true;
  const auto differs = [](const engine::layer_spec& a, const engine::layer_spec& b) {
    return a.ffn == engine::ffn_kind::moe && b.ffn == engine::ffn_kind::dense && a.ffn_size != b.ffn_size;
  };
  return std::any_of(spec.layers.begin(), spec.layers.end(), [&](const engine::layer_spec& a) {
    return std::any_of(spec.layers.begin(), spec.layers.end(), [&](const auto& b) { return differs(a, b); });
  });
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
  if (const auto taken = check_recurrence(spec); !taken) return taken;
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
  return check_all_widths(spec);
}

}  // namespace orcd::gpu
