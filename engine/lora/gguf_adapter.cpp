#include "engine/lora/gguf_adapter.hpp"

#include "engine/gguf/byte_cursor.hpp"
#include "engine/lora/adapter_error.hpp"

namespace orcd::engine {
namespace {

result<void> check_key(const gguf_file& file, std::string_view key, std::string_view expected,
                       const adapter_source& source) {
  const auto value = file.require_string(key);
  if (!value) return value.error();
  if (*value == expected) return {};
  return adapter_error(source.file, "key " + in_quotes(key) + " is " + in_quotes(*value) + "; it must be " +
                                        in_quotes(expected));
}

result<void> check_metadata(const gguf_file& file, const adapter_source& source) {
  if (auto checked = check_key(file, "general.type", "adapter", source); !checked) return checked;
  if (auto checked = check_key(file, "adapter.type", "lora", source); !checked) return checked;
  const std::string& architecture = source.base.spec.architecture;
  if (auto checked = check_key(file, "general.architecture", architecture, source); !checked) return checked;
  constexpr std::string_view activated = "adapter.alora.invocation_tokens";
  if (file.find(activated) != nullptr) {
    return adapter_error(source.file, "key " + in_quotes(activated) +
                                          " makes the adapter active only from certain tokens on, which is "
                                          "not supported");
  }
  return {};
}

result<void> add_tensor(const tensor_view& tensor, stored_pairs& to, const adapter_source& source) {
  constexpr std::string_view a = ".lora_a", b = ".lora_b";
  const bool is_a = tensor.name.ends_with(a);
  if (!is_a && !tensor.name.ends_with(b)) {
    // Converters write norms that were trained beside the pairs; programs that read adapters leave them out.
    if (tensor.name.ends_with("_norm.weight")) return {};
    return adapter_error(source.file, "tensor " + in_quotes(tensor.name) +
                                          " is not part of an adapter: names end in .lora_a or .lora_b");
  }
  const std::string_view name = tensor.name.substr(0, tensor.name.size() - a.size());
  const auto place = place_of_tensor(source.base, name, source.file);
  if (!place) return place.error();
  return to.add(*place, is_a ? pair_half::a : pair_half::b, tensor, source.file);
}

}  // namespace

result<lora_adapter> read_gguf_adapter(const gguf_file& file, const adapter_source& source) {
  if (auto checked = check_metadata(file, source); !checked) return checked.error();
  // Absent or zero, the pairs are added as they are.
  const auto alpha = file.get_float("adapter.lora.alpha", 0.0);
  if (!alpha) return alpha.error();
  stored_pairs pairs;
  for (const tensor_view& tensor : file.tensors()) {
    if (auto added = add_tensor(tensor, pairs, source); !added) return added.error();
  }
  for (auto& [place, pair] : pairs.all()) pair.a_by_columns = place.target == lora_target::token_embd;
  const scale_rule scale = [&](const stored_pair&, std::uint32_t rank) -> result<double> {
    return *alpha == 0.0 ? 1.0 : *alpha / rank;
  };
  return make_adapter(pairs, scale, source);
}

}  // namespace orcd::engine
