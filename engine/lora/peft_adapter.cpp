#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "engine/gguf/byte_cursor.hpp"
#include "engine/lora/adapter_error.hpp"
#include "engine/lora/peft_config.hpp"
#include "engine/lora/read_adapter.hpp"
#include "engine/lora/stored_pairs.hpp"
#include "engine/safetensors/safetensors_file.hpp"

namespace orcd::engine {
namespace {

struct key_ending {
  std::string_view text;
  pair_half half;
  bool of_embedding;
};

/// With and without the name that PEFT gives an adapter in memory.
constexpr std::array endings{
    key_ending{".lora_A.weight", pair_half::a, false},
    key_ending{".lora_B.weight", pair_half::b, false},
    key_ending{".lora_A.default.weight", pair_half::a, false},
    key_ending{".lora_B.default.weight", pair_half::b, false},
    key_ending{".lora_embedding_A", pair_half::a, true},
    key_ending{".lora_embedding_B", pair_half::b, true},
    key_ending{".lora_embedding_A.default", pair_half::a, true},
    key_ending{".lora_embedding_B.default", pair_half::b, true},
};

const key_ending* ending_of(std::string_view name) {
  for (const key_ending& ending : endings) {
    if (name.ends_with(ending.text)) return &ending;
  }
  return nullptr;
}

std::optional<ggml_type> type_of(safetensor_type type) {
  if (type == safetensor_type::f32) return ggml_type::f32;
  if (type == safetensor_type::f16) return ggml_type::f16;
  if (type == safetensor_type::bf16) return ggml_type::bf16;
  return std::nullopt;
}

/// The matrix as readers of GGUF files see one: a view of the file, extents fastest first.
result<tensor_view> view_of(const safetensors_file& file, const safetensor& stored) {
  const std::string subject = "tensor " + in_quotes(stored.name);
  const auto type = type_of(stored.type);
  if (!type) {
    return adapter_error(file.name(), subject + " has dtype " + in_quotes(to_string(stored.type)) +
                                          "; supported for adapters are F32, F16 and BF16");
  }
  if (stored.dims != 2) {
    return adapter_error(
        file.name(), subject + " has " + std::to_string(stored.dims) + " dimensions; it must be a matrix");
  }
  tensor_view out;
  out.name = stored.name;
  out.type = *type;
  out.dims = 2;
  out.extents[0] = stored.shape[1];
  out.extents[1] = stored.shape[0];
  out.file_offset = stored.offset;
  out.bytes = stored.bytes;
  out.data = file.bytes_of(stored).data();
  return out;
}

class tensor_adder {
 public:
  tensor_adder(const peft_config& config, const adapter_source& source) : config_(config), source_(source) {}

  result<void> add(const tensor_view& tensor) {
    const key_ending* ending = ending_of(tensor.name);
    if (ending == nullptr) {
      return adapter_error(source_.file, subject(tensor) +
                                             " is no half of a pair (lora_A, lora_B); whole weights, biases "
                                             "and magnitudes are not supported");
    }
    std::string_view module = tensor.name.substr(0, tensor.name.size() - ending->text.size());
    constexpr std::string_view wrapper = "base_model.model.";
    if (module.starts_with(wrapper)) module.remove_prefix(wrapper.size());
    const auto place = place_of_module(source_.base, module, source_.file);
    if (!place) return place.error();
    if (ending->of_embedding != (place->target == lora_target::token_embd)) {
      return adapter_error(source_.file, subject(tensor) +
                                             ": the token embedding has lora_embedding_A and "
                                             "lora_embedding_B, and nothing else has");
    }
    if (!config_.has_module(module)) {
      return adapter_error(source_.file, subject(tensor) +
                                             " is of a module that 'target_modules' of adapter_config.json "
                                             "does not name");
    }
    if (auto added = pairs_.add(*place, ending->half, tensor, source_.file); !added) return added;
    return describe(*place, module);
  }

  [[nodiscard]] const stored_pairs& pairs() const noexcept { return pairs_; }

 private:
  static std::string subject(const tensor_view& tensor) { return "tensor " + in_quotes(tensor.name); }

  /// PEFT's rows are those of the original weights, which rotate the halves of a head. Where the model's file
  /// rotates neighbours, its converter has moved the rows of Q and K.
  result<void> describe(const pair_place& place, std::string_view module) {
    stored_pair& pair = pairs_.all()[place];
    pair.module = module;
    using enum lora_target;
    if (place.target >= mix_in) {
      pair.values = value_heads_of(place);
      return {};
    }
    if (place.target != attn_q && place.target != attn_k && place.target != attn_qkv) return {};
    const layer_spec& layer = source_.base.spec.layers[place.layer];
    if (source_.base.spec.learned_positions || !source_.base.spec.regrouped_heads) return {};
    if (place.target == attn_qkv || layer.key_length % 2 != 0) {
      return adapter_error(source_.file, "module " + in_quotes(module) +
                                             ": how the model's file orders the rows of its heads is not "
                                             "known");
    }
    pair.heads_in_halves = place.target == attn_q ? layer.heads : layer.kv_heads;
    return {};
  }

  /// Converters of some families put a delta net's heads of values in turn over the key heads.
  [[nodiscard]] value_head_order value_heads_of(const pair_place& place) const {
    const recurrent_spec& of = source_.base.spec.recurrence;
    const bool delta_net = source_.base.spec.layers[place.layer].mixer == mixer_kind::delta_net;
    if (!delta_net || of.sharing != head_sharing::in_turn) return {};
    const bool input = place.target == lora_target::mix_in;
    return {of.value_heads, of.key_heads, of.value_length, input ? 2ULL * of.keys() : 0,
            place.target == lora_target::mix_out};
  }

  const peft_config& config_;
  const adapter_source& source_;
  stored_pairs pairs_;
};

}  // namespace

result<lora_adapter> read_peft_adapter(std::string_view config, std::span<const std::byte> weights,
                                       std::string_view name, const model& base, const adapter_limits& limits,
                                       std::stop_token stop) {
  const std::string config_file = std::string(name) + "/adapter_config.json";
  const std::string weights_file = std::string(name) + "/adapter_model.safetensors";
  if (config.size() > limits.json_bytes) {
    return adapter_error(config_file, "has " + std::to_string(config.size()) + " bytes; the limit is " +
                                          std::to_string(limits.json_bytes));
  }
  const auto settings = read_peft_config(config, config_file);
  if (!settings) return settings.error();
  const auto contents = safetensors_file::parse(weights, weights_file, {.header_bytes = limits.json_bytes});
  if (!contents) return as_adapter_error(contents.error());
  const adapter_source source{base, limits, weights_file, std::move(stop)};
  tensor_adder adder(*settings, source);
  for (const safetensor& stored : contents->tensors()) {
    const auto tensor = view_of(*contents, stored);
    if (!tensor) return tensor.error();
    if (auto added = adder.add(*tensor); !added) return added.error();
  }
  const scale_rule scale = [&](const stored_pair& pair, std::uint32_t rank) -> result<double> {
    const std::uint32_t said = settings->rank_of(pair.module);
    if (said != rank) {
      return adapter_error(weights_file, "module " + in_quotes(pair.module) + " has pairs of rank " +
                                             std::to_string(rank) + "; adapter_config.json says " +
                                             std::to_string(said));
    }
    const double divisor = settings->root_of_rank ? std::sqrt(double(rank)) : double(rank);
    return settings->alpha_of(pair.module) / divisor;
  };
  return make_adapter(adder.pairs(), scale, source);
}

}  // namespace orcd::engine
