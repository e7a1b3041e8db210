#include "app/identity/model_digest.hpp"

#include <algorithm>
#include <sstream>

#include "app/version/version.hpp"
#include "engine/base/sha256.hpp"

namespace orcd::app {
namespace {

/// The options that change the answer to a prompt, as text, behind what says which code answers.
std::string arithmetic_of(const options& opts, const std::string& code) {
  std::ostringstream out;
  out << code << '\n' << to_string(opts.backend) << std::hexfloat;
  const auto put = [&out](const auto& value) {
    out << '\n';
    if (value) out << *value;
  };
  const auto& rope = opts.rope;
  out << '\n' << (rope.scaling ? static_cast<int>(*rope.scaling) : -1);
  put(rope.freq_base);
  put(rope.freq_scale);
  put(rope.ext_factor);
  put(rope.attn_factor);
  put(rope.beta_fast);
  put(rope.beta_slow);
  put(rope.original_context);
  put(rope.round_correction_dims);
  out << '\n' << to_string(opts.kv_type_k) << ' ' << to_string(opts.kv_type_v) << '\n';
  if (opts.ffn_activation) out << engine::to_string(*opts.ffn_activation) << '\n';
  return out.str();
}

/// What code of one answers_contract has in common, whatever its version is.
std::string contract() {
  return "answers " + std::to_string(answers_contract);
}

}  // namespace

std::optional<std::string> model_digest(std::span<const std::span<const std::byte>> parts,
                                        const std::stop_token& stop, const std::function<void()>& moves) {
  // Small enough that a request to stop takes effect within milliseconds.
  constexpr std::size_t piece_bytes = 4 << 20;
  engine::sha256 hash;
  for (auto part : parts) {
    while (!part.empty()) {
      if (stop.stop_requested()) return std::nullopt;
      const auto piece = part.first(std::min(piece_bytes, part.size()));
      hash.update(piece);
      if (moves) moves();
      part = part.subspan(piece.size());
    }
  }
  return "sha256:" + hash.finish();
}

std::string numerics_id(const options& opts) {
  return engine::sha256_of(arithmetic_of(opts, contract()));
}

std::string files_digest(const engine::gguf_file& file) {
  const auto files = file.identity();
  return files.empty() ? std::string() : engine::sha256_of(files);
}

std::string header_digest(const engine::gguf_file& file) {
  engine::sha256 hash;
  const auto parts = file.parts();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::uint64_t header = parts[i].size();
    for (const auto& tensor : file.tensors()) {
      if (tensor.part == i) header = std::min(header, tensor.file_offset);
    }
    hash.update(std::to_string(parts[i].size()) + "\n");
    hash.update(parts[i].first(header));
  }
  return hash.finish();
}

std::string system_fingerprint(const options& opts, const std::string& model_header,
                               const text_digests& texts) {
  constexpr std::size_t digits = 16;
  const std::string all = arithmetic_of(opts, version()) + texts.tokenizer + "\n" + texts.chat_template +
                          "\n" + texts.adapters + "\n" + model_header + texts.projector_header;
  return "fp_" + engine::sha256_of(all).substr(0, digits);
}

}  // namespace orcd::app
