// Reading the goldens of test/data/embedding, which test/oracle/make_embedding_goldens.py makes with
// transformers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/base/ids.hpp"
#include "engine/model/pooling.hpp"

namespace orcd::test {

struct pooled_case {
  std::vector<engine::token_id> tokens;
  std::uint32_t second = 0;  ///< where the second segment begins; 0 = nowhere
  std::vector<float> pooled;
};

/// One way to use a model.
struct pooled_use {
  std::string model;  ///< path
  engine::pooling_kind pooling{};
  bool causal = true;
  std::vector<pooled_case> cases;
};

inline const std::vector<std::string> pooled_uses{"bert-mean",  "bert-cls",       "bert-none", "bert-rank",
                                                  "qwen3-last", "qwen3-unmasked", "qwen3-rank"};

/// Throws std::runtime_error, or what Boost.JSON throws.
[[nodiscard]] pooled_use read_pooled_use(const std::string& name);

struct pooled_difference {
  double relative = 0.0;  ///< ||a - b|| / ||b||
  double largest = 0.0;   ///< of any number
  double cosine = 0.0;    ///< 1 - cos(a, b)

  void raise_to(const pooled_difference& other) noexcept;
};

/// Of equal sizes.
[[nodiscard]] pooled_difference compare_pooled(std::span<const float> ours, std::span<const float> reference);

}  // namespace orcd::test
