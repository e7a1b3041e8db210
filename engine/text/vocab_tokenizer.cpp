#include "engine/text/vocab_tokenizer.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/ensure.hpp"

namespace orcd::engine {

namespace {

// A longer text is a programmer error: positions are 32 bits wide, and a space may grow to three bytes.
// Requests are bounded far below.
constexpr std::size_t max_text_bytes = 1u << 30;

}  // namespace

vocab_tokenizer::vocab_tokenizer(vocabulary vocab, vocab_rules rules)
    : vocab_(std::move(vocab)), rules_(std::move(rules)) {
  auto& ids = rules_.end_of_generation;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

std::vector<token_id> vocab_tokenizer::encode(std::string_view text, const encode_options& options) const {
  ORCD_ENSURE(text.size() <= max_text_bytes);
  std::vector<token_id> out;
  out.reserve(text.size() / 3 + 8);
  if (options.add_special) out = rules_.prefix;
  const std::size_t added = out.size();
  const std::unique_ptr<run> state = start();
  rules_.specials.partition(
      text, options.parse_special,
      [&](std::string_view plain) {
        const auto offset = static_cast<std::size_t>(plain.data() - text.data());
        state->plain(plain, offset, options, out);
      },
      [&](token_id id) { out.push_back(id); }, options.plain);
  // A text that begins with the BOS has it already.
  if (rules_.one_bos && added > 0 && out.size() > added && out[added] == rules_.bos &&
      out[added - 1] == rules_.bos) {
    out.erase(out.begin() + static_cast<std::ptrdiff_t>(added));
  }
  if (options.add_special) out.insert(out.end(), rules_.suffix.begin(), rules_.suffix.end());
  return out;
}

void vocab_tokenizer::append_bytes(token_id token, std::string& out, bool render_special) const {
  if (render_special || !is_control(token)) out.append(vocab_.bytes(token));
}

std::string vocab_tokenizer::decode(std::span<const token_id> tokens, bool render_special) const {
  std::string out;
  bool strip = rules_.strip_leading_space;
  for (const token_id token : tokens) {
    const std::size_t before = out.size();
    append_bytes(token, out, render_special);
    if (strip && !is_control(token) && out.size() > before) {
      if (out[before] == ' ') out.erase(before, 1);
      strip = false;
    }
  }
  return out;
}

bool vocab_tokenizer::is_end_of_generation(token_id token) const noexcept {
  return std::binary_search(rules_.end_of_generation.begin(), rules_.end_of_generation.end(), token);
}

bool vocab_tokenizer::is_control(token_id token) const noexcept {
  switch (vocab_.kind(token)) {
    case token_kind::normal:
    case token_kind::user_defined:
    case token_kind::byte: return false;
    default: return true;
  }
}

}  // namespace orcd::engine
