// A model that was opened and checked, before any weight is loaded: file, tokenizer, hyperparameters, and
// what the accelerator has to plan for. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/gguf/gguf_file.hpp"
#include "engine/media/tower.hpp"
#include "engine/model/model_spec.hpp"
#include "engine/served/pair_format.hpp"
#include "engine/text/tokenizer.hpp"

namespace orcd::engine {

/// Which model, and how it is to be served.
struct model_source {
  std::string location;         ///< path, file: URI or shm:/name
  std::string tokenizer;        ///< path of a tokenizer.json, or empty for the model's own
  std::string tokenizer_pre{};  ///< instead of the file's tokenizer.ggml.pre, or empty
  std::uint32_t context = 0;    ///< tokens per slot; 0 = the model's
  std::uint32_t slots = 1;
  rope_overrides rope{};
  std::optional<pooling_kind> pooling{};       ///< instead of the file's
  std::optional<ffn_activation> activation{};  ///< likewise
};

/// Views in `spec` point into `file`; moving the struct keeps them valid.
struct served_model {
  gguf_file file;
  std::unique_ptr<engine::tokenizer> tokenizer;  ///< null of open_token_model()
  model spec;
  accelerator_config plan_for;         ///< slots, context and banned tokens
  std::string tokenizer_digest;        ///< SHA-256 of a tokenizer that is not in `file`, or its chosen `pre`
  std::optional<pair_format> pairs{};  ///< of a model that ranks
  std::unique_ptr<const tower> projector{};  ///< null: it has none; plan_for points to it
};

/// What a medium may be that there must be room for.
struct largest_medium {
  std::uint32_t picture_tokens = 0;
  std::uint32_t sound_seconds = 0;
};
/// Room for the rows of the largest medium of each slot, and `cache_bytes` more. `of` outlives the room.
[[nodiscard]] media_room plan_media(const tower& of, largest_medium most, std::uint32_t slots,
                                    std::uint32_t context, std::uint64_t cache_bytes) noexcept;
/// Opens a projector for the model and plans room for what it makes: for the largest medium of each slot, and
/// `cache_bytes` more. Errors: model_load_failed, param "mmproj".
[[nodiscard]] result<void> add_projector(served_model& model, const std::string& location,
                                         largest_medium most, std::uint64_t cache_bytes);

/// Errors: model_load_failed, with the file's name.
[[nodiscard]] result<served_model> open_served_model(const model_source& source);

/// The same for a caller that has tokens and no text: without a tokenizer. `ends` are the tokens after which
/// a sequence goes no further; `source.tokenizer` does not count. Banned are the rows that the GGUF's own
/// vocabulary, if it has one, does not have or marks unused.
[[nodiscard]] result<served_model> open_token_model(const model_source& source, std::vector<token_id> ends);

/// Makes unused what the file lists as tokens that must not be sampled (tokenizer.ggml.suppress_tokens, as of
/// Gemma 4); ids that are no row are left. Errors: model_load_failed.
[[nodiscard]] result<void> add_suppressed_tokens(const gguf_file& file, std::uint32_t rows,
                                                 std::vector<std::int64_t>& token_types);

/// Rows of the output matrix that must never be sampled: those beyond the tokenizer's vocabulary and
/// those it marks unused or leaves empty. `token_types` are GGUF's (5 = unused), or empty.
/// End-of-generation tokens are never banned, other control tokens neither.
[[nodiscard]] std::vector<token_id> banned_tokens(const tokenizer& vocabulary, std::uint32_t rows,
                                                  std::span<const std::int64_t> token_types);

}  // namespace orcd::engine
