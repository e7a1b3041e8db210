#include "app/pipe/sdk_config.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "app/pipe/numbers.hpp"
#include "app/pipe/request.hpp"

namespace orcd::app {
namespace {

using engine::result;

using count_place = std::uint32_t sdk_config::*;
using real_place = double sdk_config::*;

struct config_field {
  std::string_view name;
  std::variant<count_place, real_place> place;
  double least;
  double most;
};

/// In the order of the command line. The limits are those of model files.
constexpr std::array fields{
    config_field{"arch_type", &sdk_config::arch_type, 1, 7},
    config_field{"activation", &sdk_config::activation, 0, 1},
    config_field{"hidden_dim", &sdk_config::hidden_dim, 1, 1U << 17U},
    config_field{"intermediate_dim", &sdk_config::intermediate_dim, 1, 1U << 20U},
    config_field{"num_layers", &sdk_config::num_layers, 1, 512},
    config_field{"num_heads", &sdk_config::num_heads, 1, 1024},
    config_field{"num_kv_heads", &sdk_config::num_kv_heads, 1, 1024},
    config_field{"vocab_size", &sdk_config::vocab_size, 1, 1U << 20U},
    config_field{"head_dim", &sdk_config::head_dim, 1, 512},
    config_field{"max_position_embeddings", &sdk_config::max_position_embeddings, 1, 1U << 24U},
    config_field{"norm_eps", &sdk_config::norm_eps, 0, 1},
    config_field{"rope_theta", &sdk_config::rope_theta, 0, 1e12},
    config_field{"tie_word_embeddings", &sdk_config::tie_word_embeddings, 0, 1},
    config_field{"has_qkv_bias", &sdk_config::has_qkv_bias, 0, 1},
    config_field{"has_attn_sub_norm", &sdk_config::has_attn_sub_norm, 0, 1},
    config_field{"has_ffn_sub_norm", &sdk_config::has_ffn_sub_norm, 0, 1},
    config_field{"num_threads", &sdk_config::num_threads, 0, 1024}};

result<void> set(const config_field& field, std::string_view text, sdk_config& config) {
  if (const auto* place = std::get_if<real_place>(&field.place)) {
    const auto value = read_real(field.name, text, {field.least, field.most});
    if (!value) return value.error();
    config.*(*place) = *value;
    return {};
  }
  const auto value = read_count(field.name, text, static_cast<std::uint64_t>(field.least),
                                static_cast<std::uint64_t>(field.most));
  if (!value) return value.error();
  config.*std::get<count_place>(field.place) = static_cast<std::uint32_t>(*value);
  return {};
}

result<void> check_eos(const sdk_config& config) {
  if (!config.eos.empty() && config.eos.size() <= pipe_eos_max) return {};
  return pipe_error("eos_tokens are " + std::to_string(config.eos.size()) + "; there must be 1 to " +
                    std::to_string(pipe_eos_max));
}

result<void> add_eos(std::string_view text, sdk_config& config) {
  const auto id = read_count("eos_token_id", text, 0, config.vocab_size - 1);
  if (!id) return id.error();
  config.eos.push_back(static_cast<engine::token_id>(*id));
  return {};
}

}  // namespace

result<sdk_config> read_config_words(std::span<const std::string_view> words, std::size_t& used) {
  sdk_config out;
  if (words.size() < fields.size() + 1) {
    return pipe_error("--config has " + std::to_string(words.size()) + " values; it must have " +
                      std::to_string(fields.size() + 1) + " and the EOS ids");
  }
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (auto done = set(fields[i], words[i], out); !done) return done.error();
  }
  const auto count = read_count("num_eos_tokens", words[fields.size()], 1, pipe_eos_max);
  if (!count) return count.error();
  const auto ids = words.subspan(fields.size() + 1);
  if (ids.size() < *count) {
    return pipe_error("num_eos_tokens is " + std::to_string(*count) + ", but " + std::to_string(ids.size()) +
                      " ids follow");
  }
  for (const std::string_view id : ids.first(*count)) {
    if (auto added = add_eos(id, out); !added) return added.error();
  }
  used = fields.size() + 1 + *count;
  return out;
}

result<std::optional<sdk_config>> config_block::take(std::string_view line) {
  if (!begun_) {
    const auto count = read_count("the number of lines", line, 0, block_lines_max);
    if (!count) return count.error();
    begun_ = true;
    quit_ = *count == 0;
    left_ = *count;
    return std::optional<sdk_config>();
  }
  if (auto taken = take_pair(line); !taken) return taken.error();
  if (--left_ > 0) return std::optional<sdk_config>();
  auto config = whole();
  if (!config) return config.error();
  return std::optional(std::move(*config));
}

result<void> config_block::take_pair(std::string_view line) {
  const auto pair = read_pair(line);
  if (!pair) return pair.error();
  const auto& [key, value] = *pair;
  const auto* const field =
      std::find_if(fields.begin(), fields.end(), [&, name = key](const auto& f) { return f.name == name; });
  const bool known = field != fields.end() || key == "eos_tokens" || key == "lora_dir";
  if (!known) return {};  // hints: lora_quant, unembed_quant and what later SDKs say
  if (std::find(keys_.begin(), keys_.end(), key) != keys_.end()) {
    return pipe_error(std::string(key) + " is there twice in the first block");
  }
  keys_.emplace_back(key);
  if (field != fields.end()) return set(*field, value, config_);
  if (key == "lora_dir") {
    auto folder = read_path(key, value);
    if (!folder) return folder.error();
    config_.lora_dir = std::move(*folder);
    return {};
  }
  // Their limit may come later.
  auto ids = read_ids(key, value, std::uint32_t{1} << 20U, pipe_eos_max + 1);
  if (!ids) return ids.error();
  config_.eos = std::move(ids->ids);
  return {};
}

result<sdk_config> config_block::whole() const {
  const auto has = [this](std::string_view key) {
    return std::find(keys_.begin(), keys_.end(), key) != keys_.end();
  };
  for (const config_field& field : fields) {
    if (!has(field.name) && field.name != "num_threads") {
      return pipe_error(std::string(field.name) + " is missing in the first block");
    }
  }
  if (auto good = check_eos(config_); !good) return good.error();
  for (const engine::token_id id : config_.eos) {
    if (static_cast<std::uint32_t>(id) < config_.vocab_size) continue;
    return pipe_error("eos_tokens has " + std::to_string(id) + "; it must be below vocab_size, " +
                      std::to_string(config_.vocab_size));
  }
  return config_;
}

}  // namespace orcd::app
