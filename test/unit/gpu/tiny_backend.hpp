// A host backend with a small random model, driven sequence by sequence.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/gguf/gguf_file.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/host/host_backend.hpp"
#include "test/support/tiny_model.hpp"

namespace orcd::test {

/// A named model of the tests: every family, and the variants of its forward pass.
struct tiny_case {
  std::string name;
  tiny_model_options options;
};
[[nodiscard]] std::vector<tiny_case> every_tiny_model();

class tiny_backend {
 public:
  explicit tiny_backend(const tiny_model_options& model, gpu::host_backend_options options = {},
                        std::uint32_t slots = 1, engine::kv_types kv = {}, engine::weight_source weights = {},
                        engine::cache_source cache = {})
      : tiny_backend(make_tiny_model(model), std::move(options), slots, kv, std::move(weights),
                     std::move(cache)) {}
  tiny_backend(bytes image, gpu::host_backend_options options, std::uint32_t slots, engine::kv_types kv,
               engine::weight_source weights, engine::cache_source cache = {});

  [[nodiscard]] engine::accelerator& device() noexcept { return *device_; }
  [[nodiscard]] const engine::model& model() const noexcept { return model_; }

  /// `count` ids that depend on the seed alone.
  [[nodiscard]] std::vector<engine::token_id> prompt(std::uint32_t count, std::uint32_t seed) const;

  /// Prefills a prompt in chunks of at most `chunk` and appends `decoded` greedy tokens; returns the
  /// logits behind the prompt and behind each decoded token.
  std::vector<std::vector<float>> generate(engine::slot_id slot, const std::vector<engine::token_id>& prompt,
                                           std::uint32_t decoded, std::uint32_t chunk);

 private:
  bytes image_;
  engine::gguf_file file_;
  engine::model model_;
  std::unique_ptr<engine::accelerator> device_;
};

/// What another device says to the model of `from` with weights from there.
[[nodiscard]] engine::result<engine::memory_plan> load_again(const tiny_backend& from,
                                                             engine::weight_source weights);

/// Whether two runs gave the same logits, bit for bit; NaN and all-equal logits never pass.
[[nodiscard]] bool same_logits(const std::vector<std::vector<float>>& a,
                               const std::vector<std::vector<float>>& b);

}  // namespace orcd::test
