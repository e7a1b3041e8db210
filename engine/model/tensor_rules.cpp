#include "engine/model/tensor_rules.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "engine/gguf/byte_cursor.hpp"

namespace orcd::engine {
namespace {

using m = model_weights;

constexpr std::array globals{
    global_rule{&m::token_embd, "token_embd.weight", {extent::embedding, extent::vocab}},
    global_rule{
        &m::output_norm, "output_norm.weight", {extent::embedding}, presence::norm_before, types::f32},
    global_rule{
        &m::output_norm_bias, "output_norm.bias", {extent::embedding}, presence::layer_norm, types::f32},
    global_rule{&m::output, "output.weight", {extent::embedding, extent::vocab}, presence::optional},
    global_rule{&m::rope_freqs, "rope_freqs.weight", {extent::rope_pairs}, presence::optional, types::f32},
    global_rule{&m::rope_factors_long,
                "rope_factors_long.weight",
                {extent::rope_pairs},
                presence::longrope,
                types::f32},
    global_rule{&m::rope_factors_short,
                "rope_factors_short.weight",
                {extent::rope_pairs},
                presence::longrope,
                types::f32},
    global_rule{&m::position_embd,
                "position_embd.weight",
                {extent::embedding, extent::positions},
                presence::learned_positions},
    global_rule{&m::token_types,
                "token_types.weight",
                {extent::embedding, extent::token_types},
                presence::learned_positions},
    global_rule{
        &m::token_embd_norm, "token_embd_norm.weight", {extent::embedding}, presence::norm_after, types::f32},
    global_rule{&m::token_embd_norm_bias,
                "token_embd_norm.bias",
                {extent::embedding},
                presence::norm_after,
                types::f32},
    global_rule{&m::layer_input_embd,
                "per_layer_token_embd.weight",
                {extent::layers_inputs, extent::vocab},
                presence::layer_inputs},
    global_rule{&m::layer_input_proj,
                "per_layer_model_proj.weight",
                {extent::embedding, extent::layers_inputs},
                presence::layer_inputs},
    global_rule{&m::layer_input_norm,
                "per_layer_proj_norm.weight",
                {extent::layer_inputs},
                presence::layer_inputs,
                types::f32},
    global_rule{&m::cls, "cls.weight", {extent::embedding, extent::embedding}, presence::rank_optional},
    global_rule{&m::cls_bias, "cls.bias", {extent::embedding}, presence::rank_optional, types::f32},
    global_rule{&m::cls_output, "cls.output.weight", {extent::embedding, extent::classes}, presence::rank},
    global_rule{
        &m::cls_output_bias, "cls.output.bias", {extent::classes}, presence::rank_optional, types::f32},
};

/// Whether it is one of the tensors that some files have and no forward pass here uses.
bool is_ignored(std::string_view name) {
  return name.starts_with("cls.") || name.ends_with(".attn_rot_embd") ||
         name.ends_with(".attn_rot_embd.weight") || name.ends_with(".rope_freqs.weight") ||
         name.ends_with(".input_scale");  // of activations in NVFP4, which are f16 here
}

/// Whether it is a tensor of one of `count` layers from `first` on.
bool is_of_layers(std::string_view name, std::size_t first, std::uint32_t count) {
  for (std::size_t i = first; i < first + count; ++i) {
    if (name.starts_with("blk." + std::to_string(i) + ".")) return true;
  }
  return false;
}

/// Whether it is of the parts that bring pictures and sound to the model, which some files have with it.
bool is_of_senses(std::string_view name) {
  return name.starts_with("v.") || name.starts_with("a.") || name.starts_with("mm.");
}

/// Whether a table has a rule for the tensor that would else be the scale of this matrix.
bool has_own_rule(const layer_tables& layers, std::string_view matrix) {
  const std::string_view stem = matrix.substr(0, matrix.rfind('.') + 1);
  return std::any_of(layers.rules.begin(), layers.rules.end(), [&](std::span<const layer_rule> table) {
    return std::any_of(table.begin(), table.end(),
                       [&](const layer_rule& rule) { return rule.name == std::string(stem) + "scale"; });
  });
}

constexpr std::string_view scale_suffix = ".scale";
constexpr std::string_view weight_suffix = ".weight";

/// The name of the tensor with a matrix's scale.
std::string scale_name(const tensor_view& matrix) {
  return std::string(matrix.name.substr(0, matrix.name.size() - weight_suffix.size())) +
         std::string(scale_suffix);
}

bool has_scales(const gguf_file& file) {
  const auto tensors = file.tensors();
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const tensor_view& tensor) { return tensor.name.ends_with(scale_suffix); });
}

std::string shape_text(std::span<const std::uint64_t> extents) {
  std::string out = "[";
  for (const std::uint64_t e : extents) out.append(out.size() == 1 ? "" : ", ").append(std::to_string(e));
  return out + "]";
}

/// Which of the ways to store a layer's matrices a file has chosen.
struct stored_form {
  bool fused = false;          ///< attn_qkv
  bool split_latents = false;  ///< attn_k_b and attn_v_b
  bool fused_experts = false;  ///< ffn_gate_up_exps
};

class binder {
 public:
  /// What views point into that is not in the file goes to `made`.
  binder(const gguf_file& file, const model_spec& spec, problem_list& problems,
         std::vector<std::shared_ptr<const std::vector<float>>>& made)
      : file_(file), spec_(spec), problems_(problems), made_(made) {
    used_.reserve(file.tensors().size());
  }

  void bind(tensor_view& to, const std::string& name, const std::array<extent, 3>& shape, presence when,
            types allowed, const layer_spec& layer, stored_form form) {
    if (!applies(when, layer, form)) return;
    const tensor_view* tensor = file_.find_tensor(name);
    if (tensor == nullptr) {
      if (!is_required(when, layer)) return;
      problems_.add(
          "tensor '" + name + "' is missing" +
          (when == presence::split_qkv ? ", and there is no attn_qkv.weight either" : "") +
          (when == presence::split_experts ? ", and there is no ffn_gate_up_exps.weight either" : ""));
      return;
    }
    used_.insert(tensor->name);
    to = *tensor;
    check_shape(*tensor, shape, layer);
    if (allowed == types::f32 && tensor->type != ggml_type::f32) {
      problems_.add("tensor '" + name + "' has type " + std::string(traits_of(tensor->type).name) +
                    "; it must be F32");
    }
    if (!std::isfinite(tensor->factor)) {
      problems_.add("tensor '" + name + "' (" + std::string(traits_of(tensor->type).name) +
                    ") has a scale that is not finite");
    }
  }

  /// Multiplies a matrix that has been bound by the scale beside it, or those of a stack of experts each by
  /// its own. Other stacks have none: who reads them takes one factor for all.
  void bind_scale(tensor_view& matrix, presence when) {
    if (!matrix || !matrix.name.ends_with(weight_suffix)) return;
    const std::string name = scale_name(matrix);
    const tensor_view* scale = file_.find_tensor(name);
    if (scale == nullptr)
      return problems_.add("tensor '" + name + "' is missing; other matrices have theirs");
    used_.insert(scale->name);
    const bool stack = matrix.experts() > 1 && (when == presence::moe || when == presence::moe_optional);
    const bool one_each = stack && scale->dims == 1 && scale->elements() == matrix.experts();
    if (scale->type != ggml_type::f32 || (scale->elements() != 1 && !one_each)) {
      return problems_.add("tensor " + in_quotes(name) + " must be one value " +
                           (stack ? "or " + std::to_string(matrix.experts()) + " values " : "") + "in F32");
    }
    std::vector<float> factors(scale->elements());
    std::memcpy(factors.data(), scale->data, factors.size() * sizeof(float));
    for (const float factor : factors) {
      if (!std::isfinite(factor)) return problems_.add("tensor " + in_quotes(name) + " is not finite");
      if (!std::isfinite(factor * matrix.factor))
        return problems_.add("tensor " + in_quotes(name) + " times the scale of its matrix is not finite");
    }
    if (factors.size() == 1) {
      matrix.factor *= factors.front();
      return;
    }
    made_.push_back(std::make_shared<const std::vector<float>>(std::move(factors)));
    matrix.factors = made_.back()->data();
  }

  /// The same where it is one in NVFP4, of any family, and has a scale: the range of E4M3 alone is small.
  void bind_scale_of_fp4(tensor_view& matrix, presence when) {
    if (!matrix || matrix.type != ggml_type::nvfp4 || !matrix.name.ends_with(weight_suffix)) return;
    if (file_.find_tensor(scale_name(matrix)) != nullptr) bind_scale(matrix, when);
  }

  /// A tensor that may be in the file and is not used.
  void leave(const std::string& name) {
    if (const tensor_view* tensor = file_.find_tensor(name)) used_.insert(tensor->name);
  }

  void report_unknown(const layer_tables& layers) {
    const std::uint32_t unused_layers = layers.unused;
    for (const tensor_view& tensor : file_.tensors()) {
      if (used_.contains(tensor.name) || is_ignored(tensor.name)) continue;
      if (layers.senses && is_of_senses(tensor.name)) continue;
      // Some converters wrote both forms of latents.
      if (spec_.latent && tensor.name.ends_with(".attn_kv_b.weight")) continue;
      if (is_of_layers(tensor.name, spec_.layers.size(), unused_layers)) continue;
      problems_.add("tensor " + in_quotes(tensor.name) + " is not part of architecture " +
                    spec_.architecture);
    }
  }

 private:
  bool applies(presence when, const layer_spec& layer, stored_form form) const {
    switch (when) {
      case presence::split_qkv:
      case presence::split_qkv_optional: return !form.fused;
      case presence::fused_qkv: return form.fused;
      case presence::own_keys: return !form.fused && !layer.reads_other_cache;
      case presence::own_values: return !form.fused && !layer.reads_other_cache && !layer.values_from_keys;
      case presence::own_cache: return !layer.reads_other_cache;
      case presence::fused_experts: return layer.ffn == ffn_kind::moe && form.fused_experts;
      case presence::split_experts: return layer.ffn == ffn_kind::moe && !form.fused_experts;
      case presence::layer_inputs: return spec_.layer_inputs > 0;
      case presence::attends:
      case presence::attends_optional: return layer.mixer == mixer_kind::attention;
      case presence::mixes: return layer.mixer != mixer_kind::none;
      case presence::has_ffn: return layer.mixer != mixer_kind::none && layer.ffn != ffn_kind::none;
      case presence::ffn_alone: return layer.mixer == mixer_kind::none;
      case presence::delta_net: return layer.mixer == mixer_kind::delta_net;
      case presence::split_beta_decay:
        return layer.mixer == mixer_kind::delta_net && !spec_.recurrence.joint_beta_decay;
      case presence::joint_beta_decay:
        return layer.mixer == mixer_kind::delta_net && spec_.recurrence.joint_beta_decay;
      case presence::mamba2:
      case presence::mamba2_optional: return layer.mixer == mixer_kind::mamba2;
      case presence::short_conv: return layer.mixer == mixer_kind::short_conv;
      case presence::dense:
      case presence::dense_optional: return layer.ffn == ffn_kind::dense;
      case presence::moe:
      case presence::moe_optional: return layer.ffn == ffn_kind::moe;
      case presence::shared_expert: return layer.shared_size > 0;
      case presence::shared_gate: return layer.shared_size > 0 && spec_.shared_gate;
      case presence::whole_query: return spec_.latent.query_rank == 0;
      case presence::factored_query: return spec_.latent.query_rank > 0;
      case presence::joined_latents: return !form.split_latents;
      case presence::split_latents: return form.split_latents;
      case presence::layer_norm: return spec_.norm == norm_kind::layer;
      case presence::norm_before: return spec_.norms == norm_placement::before;
      case presence::norm_after: return spec_.norms == norm_placement::after;
      case presence::learned_positions: return spec_.learned_positions;
      case presence::rank:
      case presence::rank_optional: return spec_.pooling == pooling_kind::rank;
      default: return true;
    }
  }

  static bool is_required(presence when, const layer_spec& layer) {
    switch (when) {
      case presence::optional:
      case presence::split_qkv_optional:
      case presence::dense_optional:
      case presence::moe_optional:
      case presence::attends_optional:
      case presence::mamba2_optional:
      case presence::layer_norm:
      case presence::rank_optional: return false;
      case presence::longrope: return layer.rope.scaling == rope_scaling::longrope;
      default: return true;
    }
  }

  /// Products cannot overflow: every factor is within hparam_limits.
  std::uint64_t resolve(extent e, const layer_spec& layer) const {
    const latent_spec& latent = spec_.latent;
    const std::uint64_t key = latent ? latent.key_length : layer.key_length;
    const std::uint64_t value = latent ? latent.value_length : layer.value_length;
    switch (e) {
      case extent::none: return 1;
      case extent::embedding: return spec_.embedding;
      case extent::vocab: return spec_.vocab;
      case extent::q_rows: return (layer.query_gate ? 2 : 1) * layer.heads * key;
      case extent::k_rows: return layer.kv_heads * key;
      case extent::v_rows: return layer.kv_heads * value;
      case extent::qkv_rows:
        return (layer.heads + std::uint64_t{layer.kv_heads}) * key + layer.kv_heads * value;
      case extent::attention_out: return layer.heads * value;
      case extent::key_length: return key;
      case extent::heads: return layer.heads;
      case extent::kv_heads: return layer.kv_heads;
      case extent::ffn: return layer.ffn_size;
      case extent::ffn_twice: return 2ULL * layer.ffn_size;
      case extent::shared_ffn: return layer.shared_size;
      case extent::expert_ffn: return layer.expert_size;
      case extent::expert_ffn_twice: return 2ULL * layer.expert_size;
      case extent::layer_inputs: return spec_.layer_inputs;
      case extent::layers_inputs: return std::uint64_t{spec_.layer_inputs} * spec_.layers.size();
      case extent::single: return 1;
      case extent::experts: return spec_.experts;
      case extent::rope_pairs: return layer.rope.dims / 2;
      case extent::positions: return spec_.positions;
      case extent::token_types: return spec_.token_types;
      case extent::classes: return spec_.classes;
      case extent::query_rank: return latent.query_rank;
      case extent::latent_rank: return latent.rank;
      case extent::latent_row: return latent.rank + latent.rotated;
      case extent::unrotated: return latent.unrotated();
      case extent::head_value: return latent.value_length;
      case extent::joined_rows: return layer.heads * std::uint64_t{latent.unrotated() + latent.value_length};
      default: return resolve_mixer(e, layer.mixer);
    }
  }

  std::uint64_t resolve_mixer(extent e, mixer_kind kind) const {
    const recurrent_spec& of = spec_.recurrence;
    switch (e) {
      case extent::conv_kernel: return of.conv_kernel;
      case extent::conv_channels: return of.conv_channels(kind);
      case extent::mix_rows: return of.input_rows(kind);
      case extent::mix_values: return of.values();
      case extent::value_heads: return of.value_heads;
      case extent::value_heads_twice: return 2ULL * of.value_heads;
      case extent::norm_width: return of.values() / of.norm_groups;
      case extent::norm_groups: return of.norm_groups;
      case extent::short_channels: return of.short_channels;
      default: return 1;
    }
  }

  void check_shape(const tensor_view& tensor, const std::array<extent, 3>& shape, const layer_spec& layer) {
    std::array<std::uint64_t, 4> expected{1, 1, 1, 1};
    std::size_t dims = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      expected[d] = resolve(shape[d], layer);
      if (shape[d] != extent::none) dims = d + 1;
    }
    if (tensor.extents == expected) return;
    problems_.add("tensor " + in_quotes(tensor.name) + " has shape " +
                  shape_text({tensor.extents.data(), tensor.dims}) + "; the hyperparameters make it " +
                  shape_text({expected.data(), dims}));
  }

  const gguf_file& file_;
  const model_spec& spec_;
  problem_list& problems_;
  std::vector<std::shared_ptr<const std::vector<float>>>& made_;
  std::unordered_set<std::string_view> used_;
};

}  // namespace

void bind_tensors(const gguf_file& file, const model_spec& spec, const layer_tables& layers,
                  model_weights& weights, problem_list& problems) {
  binder bound(file, spec, problems, weights.made);
  // Factors of frequencies are for the layers that rotate, of some families not for all of them.
  const auto rotates = [](const layer_spec& layer) { return layer.rope.dims > 0 && layer.rope.file_factors; };
  const auto found = std::find_if(spec.layers.begin(), spec.layers.end(), rotates);
  const layer_spec& first = found == spec.layers.end() ? spec.layers.front() : *found;
  const bool scaled = layers.weight_scales && has_scales(file);
  for (const global_rule& rule : globals) {
    const char* const name = rule.role == &m::output_norm ? layers.output_norm : rule.name;
    bound.bind(weights.*rule.role, name, rule.shape, rule.when, rule.allowed, first, {});
    if (rule.allowed == types::any) bound.bind_scale_of_fp4(weights.*rule.role, rule.when);
  }
  weights.layers.resize(spec.layers.size());
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    const stored_form form{.fused = file.find_tensor(prefix + "attn_qkv.weight") != nullptr,
                           .split_latents = file.find_tensor(prefix + "attn_k_b.weight") != nullptr,
                           .fused_experts = file.find_tensor(prefix + "ffn_gate_up_exps.weight") != nullptr};
    if (spec.layers[i].reads_other_cache) {
      for (const char* name : {"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"})
        bound.leave(prefix + name);
    }
    for (const auto& table : layers.rules) {
      for (const layer_rule& rule : table) {
        bound.bind(weights.layers[i].*rule.role, prefix + rule.name, rule.shape, rule.when, rule.allowed,
                   spec.layers[i], form);
        if (rule.allowed != types::any || has_own_rule(layers, rule.name)) continue;
        if (scaled)
          bound.bind_scale(weights.layers[i].*rule.role, rule.when);
        else
          bound.bind_scale_of_fp4(weights.layers[i].*rule.role, rule.when);
      }
    }
  }
  bound.report_unknown(layers);
  if (!weights.output) weights.output = weights.token_embd;
}

}  // namespace orcd::engine
