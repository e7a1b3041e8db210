// The identity of an engine's answers (net/journal/answer_identity.hpp), made from what the process was
// started with: engines of equal identity give a request the same bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/identity/model_digest.hpp"
#include "app/options/options.hpp"
#include "engine/served/served_model.hpp"
#include "net/journal/answer_identity.hpp"

namespace orcd::app {

/// What is known once the model is open; all but the digests of texts as they are.
struct answer_facts {
  std::uint32_t context_tokens = 0;
  std::string model_header;  ///< header_digest()
  std::string rope;          ///< rope_digest()
  std::string model_names;   ///< what clients call it, the first one in answers
  text_digests texts;
};

/// SHA-256 of the angles by which the model's layers rotate and the scales of its scores, as they are settled
/// for this context: YaRN without a factor and LongRoPE depend on it.
[[nodiscard]] std::string rope_digest(const engine::model& model, std::uint32_t context_tokens);

/// All but the weights, which are told apart later.
[[nodiscard]] net::answer_identity answer_identity_of(const options& opts, const answer_facts& facts);

/// What a part of such an identity is, for people: "--max-tokens-out", "the RoPE tables". `place` as
/// net::difference() tells it.
[[nodiscard]] std::string name_of_part(std::uint32_t place);

/// Of the pages of a KV cache that engines have together: which tokens give which keys and values, besides
/// the weights.
[[nodiscard]] std::string cache_digest(const options& opts, const answer_facts& facts);

}  // namespace orcd::app
