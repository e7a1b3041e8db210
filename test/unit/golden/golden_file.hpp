// Reading the goldens of test/data/golden, which test/oracle makes with transformers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "engine/base/ids.hpp"
#include "engine/model/model_spec.hpp"

namespace orcd::test {

/// One run of the oracle on a tiny model.
struct golden_case {
  std::string name;
  std::uint32_t context = 0;    ///< what the worker serves
  engine::rope_overrides rope;  ///< over the file's keys
  std::vector<engine::token_id> tokens;
  std::vector<std::uint32_t> positions;  ///< whose logits are stored, ascending; the last is the last token
  std::uint32_t vocab = 0;
  double half_kv_effect = 0.0;  ///< relative error of the oracle's f16 K and V run against its f32 run
  std::vector<float> rows;      ///< [2][positions][vocab]: f32 throughout, then with K and V rounded to f16

  [[nodiscard]] std::span<const float> exact(std::size_t index) const {
    return std::span(rows).subspan(index * vocab, vocab);
  }
  [[nodiscard]] std::span<const float> half_kv(std::size_t index) const {
    return exact(positions.size() + index);
  }
};

struct tiny_golden {
  std::filesystem::path model;
  std::vector<golden_case> cases;
};

/// Greedy decoding of one prompt by the oracle.
struct greedy_case {
  std::string name;
  std::string text;    ///< the rendered prompt
  std::string answer;  ///< the text of `tokens`
  std::vector<engine::token_id> prompt;
  std::vector<engine::token_id> tokens;
  std::vector<engine::token_id> second;          ///< the runner-up at each step
  std::vector<float> gap;                        ///< logit of the token minus logit of the runner-up
  std::vector<engine::token_id> half_kv_tokens;  ///< its choice after the same tokens with K and V in f16
  std::vector<float> half_kv_gap;
  float half_kv_shift = 0.0F;  ///< largest change of any logit when the oracle rounds K and V to f16
};

struct greedy_golden {
  std::string model;   ///< file name
  std::string sha256;  ///< of the file, lower-case hex
  std::vector<greedy_case> cases;
};

/// The models of test/data/golden, and those of test/data/families, of which each family has one at least.
[[nodiscard]] const std::vector<std::string>& tiny_golden_names();
/// Of families with other layers than attention, of which CUDA has none yet.
[[nodiscard]] const std::vector<std::string>& hybrid_golden_names();
/// What layers have of the first tokens of a model's golden beside the stream, [tokens][layers][values].
[[nodiscard]] std::vector<float> read_layer_inputs(const std::string& model_name, std::size_t count);
/// All throw std::runtime_error, or what Boost.JSON throws, when the golden is missing or malformed.
[[nodiscard]] tiny_golden read_tiny_golden(const std::string& model_name);
[[nodiscard]] greedy_golden read_greedy_golden(const std::string& file_name);

}  // namespace orcd::test
