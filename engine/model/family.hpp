// The families: each maps GGUF keys to a model_spec and names its tensor tables. A new one is a function,
// a row in registry.cpp and, if its forward pass needs one, a field of the spec.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/model/hparams.hpp"
#include "engine/model/tensor_rules.hpp"

namespace orcd::engine {

enum class expert_use { never, optional, always };

struct family {
  std::string_view architecture;  ///< general.architecture
  expert_use experts;             ///< whether expert_count may be, or must be, above 0
  /// Sets what differs from read_common_spec, which has run before.
  void (*read_spec)(hparam_reader& from, model_spec& spec);
  /// The tables of one layer; static storage.
  std::span<const std::span<const layer_rule>> (*layer_tables)();
};

/// nullptr when not supported.
[[nodiscard]] const family* find_family(std::string_view architecture) noexcept;
/// "llama, qwen2, ..." for messages.
[[nodiscard]] std::string supported_architectures();

/// The keys that every transformer has: sizes, heads, feed-forward, experts, norm, and RoPE without its
/// pairing. The layer count must be known to be sane before: see load_model.
void read_common_spec(hparam_reader& from, model_spec& spec);

/// Pooling (`chosen`, or else the file's) and the sizes of the tensors that only such models have. After
/// family::read_spec.
void read_pooling(hparam_reader& from, std::optional<pooling_kind> chosen, model_spec& spec);

/// Layers [0, n) attend within `window` where the file's pattern says so; without one, within each
/// `period` layers all but the last are windowed.
void set_windows(hparam_reader& from, model_spec& spec, std::uint32_t window, std::uint32_t period);

void set_pairing(model_spec& spec, rope_pairing pairing);

extern const family llama_family;
extern const family qwen2_family;
extern const family qwen3_family;
extern const family phi3_family;
extern const family gpt_oss_family;
extern const family bert_family;

}  // namespace orcd::engine
