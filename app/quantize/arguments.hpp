// The command line of trillim-quantize: what the SDK passes, and what a person does.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/gguf/ggml_type.hpp"

namespace orcd::app {

enum class model_arch : std::uint32_t { bitnet = 1, llama = 2 };

/// general.architecture.
[[nodiscard]] std::string_view gguf_architecture(model_arch arch) noexcept;

/// Sizes of a model that its tensors alone do not say. 0 where an adapter does without.
struct model_sizes {
  model_arch arch = model_arch::bitnet;
  std::uint32_t hidden = 0;  ///< as written: the original one, rounded up to a multiple of 128
  std::uint32_t ffn = 0;
  std::uint32_t hidden_original = 0;
  std::uint32_t ffn_original = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t rope_dim = 0;
  std::uint32_t context = 0;
  std::uint32_t heads = 0;     ///< 0: as many as the rows of Q make
  std::uint32_t kv_heads = 0;  ///< 0: as many as the rows of K make
  double eps = 0.0;
  double theta = 0.0;
  bool tied = false;
};

/// A call by the SDK.
struct manifest_call {
  std::string manifest;
  std::string output;  ///< not written where the manifest has no tensors
  std::optional<std::string> rope_output;
  std::optional<std::string> lora_output;
  std::optional<std::uint32_t> lora_rank;
  model_sizes sizes;
};

/// A call by a person.
struct directory_call {
  std::string model;
  std::string out;  ///< a folder, or a file that ends with .gguf
  engine::ggml_type type = engine::ggml_type::i2_s;
  engine::ggml_type embedding = engine::ggml_type::bf16;
};

struct quantize_arguments {
  enum class action { help, version, manifest, directory };
  action what = action::help;
  manifest_call manifest;
  directory_call directory;
};

/// Errors are invalid_request and name the option, its value and what it may be.
[[nodiscard]] engine::result<quantize_arguments> parse_quantize_arguments(
    std::span<const std::string_view> words);

[[nodiscard]] std::string_view quantize_usage() noexcept;

/// A call that asks for what cannot be (invalid_request).
[[nodiscard]] inline engine::error usage_error(const std::string& text) {
  return {engine::errc::invalid_request, text, "arguments"};
}

}  // namespace orcd::app
