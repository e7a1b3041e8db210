// What the Trillim SDK says of a model when it starts the program: 18 values and the EOS ids on the command
// line, or the same as a block of key=value lines. Parsing is pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/ids.hpp"

namespace orcd::app {

inline constexpr std::size_t pipe_eos_max = 64;

struct sdk_config {
  std::uint32_t arch_type =
      0;  ///< 1 BitNet, 2 Llama and its like, 3 Qwen3.5, 4, 5 and 6 Qwen3, 7 an image model
  std::uint32_t activation = 0;        ///< 0 squared ReLU, 1 SiLU
  std::uint32_t hidden_dim = 0;        ///< rounded up to a multiple of 128, as the next one
  std::uint32_t intermediate_dim = 0;  ///< of the feed-forward
  std::uint32_t num_layers = 0;
  std::uint32_t num_heads = 0;
  std::uint32_t num_kv_heads = 0;
  std::uint32_t vocab_size = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t max_position_embeddings = 0;
  double norm_eps = 0.0;
  double rope_theta = 0.0;
  std::uint32_t tie_word_embeddings = 0;  ///< 0 or 1, as the next three
  std::uint32_t has_qkv_bias = 0;
  std::uint32_t has_attn_sub_norm = 0;
  std::uint32_t has_ffn_sub_norm = 0;
  std::uint32_t num_threads = 0;          ///< 0 = two less than the machine has, at least one
  std::vector<engine::token_id> eos{};    ///< 1 to pipe_eos_max, in the order given
  std::optional<std::string> lora_dir{};  ///< of a block only
};

/// The values after --config. `used` becomes the number of words that belong to them. Errors name the value's
/// name, what it is and what it may be.
[[nodiscard]] engine::result<sdk_config> read_config_words(std::span<const std::string_view> words,
                                                           std::size_t& used);

/// Reads the first block of standard input, line by line, the line with their number first.
class config_block {
 public:
  [[nodiscard]] bool begun() const noexcept { return begun_; }
  /// nullopt until the last line; no error and no value where the block is the number 0, with which quit()
  /// becomes true.
  [[nodiscard]] engine::result<std::optional<sdk_config>> take(std::string_view line);
  [[nodiscard]] bool quit() const noexcept { return quit_; }

 private:
  [[nodiscard]] engine::result<void> take_pair(std::string_view line);
  [[nodiscard]] engine::result<sdk_config> whole() const;

  bool begun_ = false;
  bool quit_ = false;
  std::uint64_t left_ = 0;
  sdk_config config_;
  std::vector<std::string> keys_;
};

}  // namespace orcd::app
