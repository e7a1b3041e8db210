#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "engine/gguf/byte_cursor.hpp"
#include "engine/model/family.hpp"
#include "engine/model/mixers.hpp"
#include "engine/model/not_a_model.hpp"
#include "engine/model/padding.hpp"
#include "engine/model/rope_config.hpp"

namespace orcd::engine {
namespace {

/// A layer of any family has at least this many tensors, so a file's size bounds the layers it can claim.
constexpr std::size_t fewest_layer_tensors = 4;

error model_problem(const gguf_file& file, std::string text) {
  problem_list one;
  one.add(std::move(text));
  return one.to_error(file.location());
}

result<const family*> choose_family(const gguf_file& file) {
  const auto architecture = file.require_string("general.architecture");
  if (!architecture) return architecture.error();
  if (const family* found = find_family(*architecture)) return found;
  if (*architecture == "gptoss") {
    return model_problem(
        file,
        "architecture 'gptoss' is the layout of Ollama's first gpt-oss files, whose tensors have other "
        "names; use a GGUF with architecture 'gpt-oss'");
  }
  if (*architecture == "gemma3n") {
    return model_problem(file,
                         "architecture 'gemma3n' has four streams beside each other and sparse activations, "
                         "and is not supported; Gemma 3 and Gemma 4 are");
  }
  return model_problem(file, "architecture " + in_quotes(*architecture) +
                                 " is not supported; supported are " + supported_architectures());
}

std::string file_stem(std::string_view location) {
  const auto slash = location.rfind('/');
  std::string_view name = slash == std::string_view::npos ? location : location.substr(slash + 1);
  if (name.ends_with(".gguf")) name.remove_suffix(5);
  return std::string(name);
}

struct layer_counts {
  std::uint32_t run = 0;
  std::uint32_t unused = 0;  ///< after them: layers that predict further tokens
};

/// Every layer of a family that has such has a norm of this name.
bool has_layer(const gguf_file& file, std::uint32_t layer) {
  return file.find_tensor("blk." + std::to_string(layer) + ".attn_norm.weight") != nullptr;
}

result<layer_counts> count_layers(const gguf_file& file, const family& of) {
  problem_list problems;
  hparam_reader from(file, of.architecture, problems);
  const std::uint32_t layers = from.count("block_count", 1, hparam_limits::layers);
  const std::uint32_t unused =
      of.predicting_layers ? from.count("nextn_predict_layers", 0, layers - 1, 0) : 0;
  if (!problems.empty()) return problems.to_error(file.location());
  if (file.tensors().empty()) {
    return model_problem(file, "has no tensors: it is a vocabulary, not a model");
  }
  if (unused > 0 && has_layer(file, layers - unused) && !has_layer(file, 0)) {
    return model_problem(file, "holds the " + std::to_string(unused) +
                                   " layers alone that predict further tokens (multi-token prediction), and "
                                   "no model");
  }
  if (layers > file.tensors().size() / fewest_layer_tensors) {
    return model_problem(file, "key '" + from.full("block_count") + "' is " + std::to_string(layers) +
                                   ", but the file's " + std::to_string(file.tensors().size()) +
                                   " tensors cannot make that many layers");
  }
  return layer_counts{layers - unused, unused};
}

/// Rows of the vocabulary, from the tensor; the tokenizer and the optional vocab_size must agree.
void read_vocabulary(hparam_reader& from, model_spec& spec) {
  const tensor_view* rows = from.file().find_tensor("token_embd.weight");
  if (rows == nullptr) return;  // reported with the other tensors
  if (rows->rows() > hparam_limits::vocab) {
    from.problems().add("tensor 'token_embd.weight' has " + std::to_string(rows->rows()) +
                        " rows; the limit is " + std::to_string(hparam_limits::vocab));
  }
  spec.vocab = static_cast<std::uint32_t>(std::min<std::uint64_t>(rows->rows(), hparam_limits::vocab));
  const std::uint32_t declared = from.count("vocab_size", 1, hparam_limits::vocab, spec.vocab);
  if (declared != spec.vocab) {
    from.problems().add("key '" + from.full("vocab_size") + "' is " + std::to_string(declared) +
                        ", but tensor 'token_embd.weight' has " + std::to_string(spec.vocab) + " rows");
  }
  const gguf_value* tokens = from.file().find("tokenizer.ggml.tokens");
  const auto* array = tokens == nullptr ? nullptr : std::get_if<gguf_array>(&tokens->value);
  if (array != nullptr && array->count > spec.vocab) {
    from.problems().add("the tokenizer has " + std::to_string(array->count) +
                        " tokens, but tensor 'token_embd.weight' has only " + std::to_string(spec.vocab) +
                        " rows");
  }
}

void check_experts(hparam_reader& from, const family& of, const model_spec& spec) {
  const bool has = spec.experts > 0;
  if ((has && of.experts == expert_use::never) || (!has && of.experts == expert_use::always)) {
    from.problems().add("key '" + from.full("expert_count") + "' is " + std::to_string(spec.experts) +
                        (has ? "; this architecture has no experts" : "; it must be at least 1"));
  }
}

/// Frequencies are divided by these factors: each must be a positive number.
void check_factors(const model_weights& weights, problem_list& problems) {
  for (const tensor_view* tensor :
       {&weights.rope_freqs, &weights.rope_factors_long, &weights.rope_factors_short}) {
    if (!*tensor || tensor->type != ggml_type::f32) continue;
    for (std::uint64_t i = 0; i < tensor->elements(); ++i) {
      float value = 0.0F;
      std::memcpy(&value, tensor->data + i * sizeof(float), sizeof(float));
      if (value > 0.0F && std::isfinite(value)) continue;
      problems.add("tensor " + in_quotes(tensor->name) + " has the value " + std::to_string(value) +
                   " at index " + std::to_string(i) + "; frequency factors must be positive");
      break;
    }
  }
}

void read_names(const gguf_file& file, const family& of, model_spec& spec, problem_list& problems) {
  spec.architecture = of.architecture;
  spec.quant_kind = file.quant_kind();
  const auto name = file.get_string("general.name", {});
  if (!name) problems.add("key 'general.name' must be a string");
  spec.name = name && !name->empty() ? std::string(*name) : file_stem(file.location());
}

void replace_activation(std::optional<ffn_activation> chosen, model_spec& spec, problem_list& problems) {
  if (!chosen) return;
  if (to_string(spec.activation).empty()) {
    problems.add("the activation of the feed-forward cannot be replaced in architecture " +
                 spec.architecture);
  }
  spec.activation = *chosen;
}

void note_biased_choice(model& loaded) {
  const auto& layers = loaded.weights.layers;
  loaded.spec.biased_choice = std::any_of(layers.begin(), layers.end(), [](const layer_weights& layer) {
    return static_cast<bool>(layer.choice_bias);
  });
}

void note_output_scales(model& loaded) {
  const auto& layers = loaded.weights.layers;
  loaded.spec.output_scales = std::any_of(layers.begin(), layers.end(), [](const layer_weights& layer) {
    return static_cast<bool>(layer.layer_output_scale);
  });
}

/// What follows such a norm is divided by the root of the width: once here.
void divide_router_norms(model& loaded) {
  const double root = std::sqrt(static_cast<double>(loaded.spec.embedding));
  for (layer_weights& layer : loaded.weights.layers) {
    if (!layer.router_norm) continue;
    auto values = std::make_shared<std::vector<float>>(layer.router_norm.elements());
    std::memcpy(values->data(), layer.router_norm.data, layer.router_norm.bytes);
    for (float& v : *values) v = static_cast<float>(v / root);
    layer.router_norm.data = reinterpret_cast<const std::byte*>(values->data());
    loaded.weights.made.push_back(std::move(values));
  }
}

/// Types of forks by whose id this format now has another one.
void check_foreign(const gguf_file& file, const family& of, problem_list& problems) {
  if (!of.foreign) return;
  const auto tensors = file.tensors();
  const auto bad = std::find_if(tensors.begin(), tensors.end(),
                                [&](const tensor_view& tensor) { return tensor.type == of.foreign->type; });
  if (bad == tensors.end()) return;
  problems.add("tensor " + in_quotes(bad->name) + " has type " +
               std::to_string(static_cast<std::uint32_t>(bad->type)) + ", which in architecture " +
               std::string(of.architecture) + " is " + of.foreign->what);
}

/// There are no learned positions beyond the table, whatever context the operator asks for.
void check_positions(std::uint32_t context, const model_spec& spec, problem_list& problems) {
  if (!spec.learned_positions || context <= spec.positions) return;
  problems.add("the model has learned " + std::to_string(spec.positions) + " positions; a context of " +
               std::to_string(context) + " tokens is too long for it");
}

/// One set of factors serves all layers that rotate.
void check_longrope(const model_spec& spec, problem_list& problems) {
  const auto longrope = [](const layer_spec& layer) { return layer.rope.scaling == rope_scaling::longrope; };
  const bool some = std::any_of(spec.layers.begin(), spec.layers.end(), longrope);
  const bool all = std::all_of(spec.layers.begin(), spec.layers.end(), [&](const layer_spec& layer) {
    return layer.rope.dims == 0 || longrope(layer);
  });
  if (some && (!all || !longrope(spec.layers.front())))
    problems.add("LongRoPE is supported of models whose layers all rotate alike only");
}

}  // namespace

result<model> load_model(const gguf_file& file, std::uint32_t context, const rope_overrides& rope,
                         std::optional<pooling_kind> pooling, std::optional<ffn_activation> activation) {
  if (const auto is_model = check_is_model(file); !is_model) return is_model.error();
  const auto chosen = choose_family(file);
  if (!chosen) return chosen.error();
  const family& of = **chosen;
  const auto layers = count_layers(file, of);
  if (!layers) return layers.error();

  model out;
  problem_list problems;
  hparam_reader from(file, of.architecture, problems);
  out.spec.layers.resize(layers->run);
  out.spec.predicting_layers = layers->unused;
  from.leave_out(layers->unused);
  read_names(file, of, out.spec, problems);
  read_common_spec(from, out.spec, of.recurrent);
  check_experts(from, of, out.spec);
  of.read_spec(from, out.spec);
  read_padding(from, out.spec);
  refuse_unsupported(from);
  replace_activation(activation, out.spec, problems);
  check_foreign(file, of, problems);
  read_pooling(from, pooling, out.spec);
  read_vocabulary(from, out.spec);
  apply_rope_overrides(rope, context != 0 ? context : out.spec.context_length, out.spec, problems);
  scale_scores(out.spec);
  check_longrope(out.spec, problems);
  check_positions(context, out.spec, problems);
  if (out.spec.is_recurrent() && !out.spec.causal) {
    problems.add("key '" + from.full("attention.causal") +
                 "' is false; layers with a state or a convolution see the tokens before alone");
  }
  // Shapes follow from the hyperparameters: with a wrong one, every tensor would be reported as well.
  if (problems.empty()) {
    bind_tensors(file, out.spec,
                 {of.layer_tables(), of.weight_scales, layers->unused, of.senses, of.output_norm},
                 out.weights, problems);
    check_factors(out.weights, problems);
    check_mixers(out.weights, problems);
    note_output_scales(out);
    if (problems.empty()) divide_router_norms(out);
    note_biased_choice(out);
    scale_padded_norms(out.spec, out.weights, problems);
  }
  if (!problems.empty()) return problems.to_error(file.location());
  return out;
}

}  // namespace orcd::engine
