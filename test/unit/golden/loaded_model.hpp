// A model file on the host backend, fed token by token or in chunks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/gguf/gguf_file.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/layer_tap.hpp"

namespace orcd::test {

class loaded_model {
 public:
  /// Throws engine::error_exception when the file or the model is refused.
  loaded_model(const std::filesystem::path& path, std::uint32_t context, const engine::rope_overrides& rope,
               std::uint32_t chunk_tokens, engine::kv_types kv = {}, engine::adapter_room adapters = {},
               gpu::layer_tap tap = {});

  /// The sequence, which has not begun, has this adapter and no other. Throws engine::error_exception.
  void put_on(const engine::lora_adapter& adapter, float strength);
  /// Appends `tokens` to the sequence in steps of at most chunk_tokens and returns the greedy token after
  /// them.
  engine::token_id append(std::span<const engine::token_id> tokens);
  /// Forgets the sequence.
  void restart();
  /// Logits behind the last append.
  [[nodiscard]] std::span<const float> logits() const;
  [[nodiscard]] const engine::gguf_file& file() const { return file_; }

 private:
  engine::gguf_file file_;
  engine::model model_;
  std::unique_ptr<engine::accelerator> device_;
  std::uint32_t position_ = 0;
};

}  // namespace orcd::test
