// The command line of worker-orcd-inspect, as a value. Parsing touches no file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/ids.hpp"
#include "engine/model/boundary_budget.hpp"
#include "engine/model/kv_type.hpp"

namespace orcd::app {

enum class inspect_action { help, version, info, tokenize, detokenize, chat, plan, doctor };

struct inspect_arguments {
  inspect_action action = inspect_action::help;
  std::string model;    ///< as gguf_file::open takes it, or a tokenizer.json
  bool json = false;    ///< one JSON object instead of text
  bool special = true;  ///< tokenize: add and recognise special tokens; detokenize: show control tokens
  std::optional<std::string> text;   ///< tokenize: the text itself
  std::optional<std::string> input;  ///< where text or ids come from; neither = standard input
  std::string tokenizer_pre;     ///< tokenize, detokenize: instead of the file's tokenizer.ggml.pre; or empty
  std::vector<std::string> ids;  ///< detokenize: ids on the command line
  std::optional<std::string> messages;    ///< chat: a JSON file; none = standard input
  std::optional<std::string> tools;       ///< chat: a JSON file
  std::optional<bool> generation_prompt;  ///< chat: none = as the messages say, else yes
  std::uint32_t context = 0;              ///< plan, doctor: 0 = the model's own
  std::uint32_t slots = 1;                ///< plan, doctor
  std::uint32_t kv_tokens = 0;            ///< plan: positions of the KV cache; 0 = slots * context
  engine::boundary_budget boundaries{};   ///< plan
  std::uint32_t prefill_chunk = 0;        ///< plan: prompt tokens a step; 0 = as a worker chooses
  engine::kv_types kv{};                  ///< plan, doctor
  std::uint32_t adapters = 0;             ///< plan: LoRA adapters; 0 = no room for any
  std::uint32_t adapter_rank = 16;        ///< plan: their highest rank
  std::string projector;                  ///< plan: as gguf_file::open takes it; empty: no media
  std::uint32_t vram_mib = 0;             ///< plan, doctor: of the GPU; 0 = none was given
  std::optional<std::uint32_t> gpu{};     ///< plan: a GPU that is here, instead of that
  bool failover = false;                  ///< plan: two engines
  bool shared_weights = false;            ///< plan: of both
};

/// `words` without the program's name. Errors (invalid_request) name the word that is wrong.
[[nodiscard]] engine::result<inspect_arguments> parse_inspect_arguments(
    std::span<const std::string_view> words);

/// Token ids separated by white space or commas; each is a whole number of at least 0.
[[nodiscard]] engine::result<std::vector<engine::token_id>> parse_token_ids(std::string_view text);

[[nodiscard]] std::string_view inspect_usage() noexcept;

}  // namespace orcd::app
