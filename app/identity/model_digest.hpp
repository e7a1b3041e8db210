// The identity of the model: the SHA-256 of its file for /health, and a fingerprint that is known before any
// weight was read (OpenAI's `system_fingerprint`).
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "app/options/options.hpp"
#include "engine/gguf/gguf_file.hpp"

namespace orcd::app {

/// What `sha256sum FILE` prints, with "sha256:" before it. Parts of a split model are hashed in order as if
/// they were one file. Reads every byte once, in pieces of 4 MiB; empty when asked to stop. `moves` is called
/// after each. Runs on any thread.
[[nodiscard]] std::optional<std::string> model_digest(std::span<const std::span<const std::byte>> parts,
                                                      const std::stop_token& stop,
                                                      const std::function<void()>& moves = {});

/// Raised with every change of the code after which a seed may give other tokens, or the same tokens another
/// answer, or after which memory that engines share means something else: engines of one number share weights
/// and go on with one another's streams, whatever their versions are. Tests compare the answers of fixed runs
/// with stored ones and fail where they changed and this did not.
inline constexpr unsigned answers_contract = 4;

/// SHA-256 of what decides, besides weights and tokens, which bits are computed: answers_contract, backend
/// and the options that change the arithmetic.
[[nodiscard]] std::string numerics_id(const options& opts);

/// SHA-256 of the texts that belong to the model besides its file; empty where there are none.
struct text_digests {
  std::string tokenizer;           ///< served_model::tokenizer_digest
  std::string chat_template;       ///< chat_format::digest(), of the model's own template too
  std::string adapters{};          ///< net::adapters_identity() of those of the start, itself
  std::string projector{};         ///< tower::digest; empty: there is none
  std::string projector_header{};  ///< header_digest() of its file
};

/// "fp_" and 16 hexadecimal digits over what decides the answers and is known at once: version, backend, the
/// options that change the arithmetic, tokenizer and chat template, and of each part of the file its size and
/// everything before the first weight (metadata, vocabulary, tensor table). The same for as long as the
/// process lives. Two files that differ in weights alone have the same fingerprint; their digests differ.
[[nodiscard]] std::string system_fingerprint(const options& opts, const std::string& model_header,
                                             const text_digests& texts);

/// SHA-256 of gguf_file::identity(), which is long where a model has hundreds of files; empty where that is.
[[nodiscard]] std::string files_digest(const engine::gguf_file& file);

/// SHA-256 of each part's size and everything before its first weight: metadata, vocabulary, tensor table.
[[nodiscard]] std::string header_digest(const engine::gguf_file& file);

}  // namespace orcd::app
