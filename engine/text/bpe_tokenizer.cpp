#include "engine/text/bpe_tokenizer.hpp"

#include <algorithm>
#include <utility>

#include "engine/text/bpe.hpp"
#include "engine/text/nfc.hpp"
#include "engine/text/utf8.hpp"

namespace orcd::engine {

namespace {

constexpr std::string_view metaspace = "\xE2\x96\x81";

// Cuts that change no token where the vocabulary is spelled as SentencePiece does: at the places that they
// part no token goes on, so that none is merged over them. Lines and words are merged faster than a whole
// text.
std::vector<split_rule> harmless_cuts(const vocabulary& vocab, const bpe_settings& settings) {
  if (settings.how != spelling::sentencepiece || settings.ignore_merges || !settings.stages.empty()) {
    return settings.stages;
  }
  bool lines = true;
  bool words = true;
  for (int byte = 0; byte < 256; ++byte) {  // unknown characters would be joined over a cut
    if (vocab.of_byte(static_cast<unsigned char>(byte)) < 0) return {};
  }
  for (std::uint32_t i = 0; i < vocab.size(); ++i) {
    const auto id = static_cast<token_id>(i);
    if (vocab.kind(id) != token_kind::normal && vocab.kind(id) != token_kind::user_defined) continue;
    const std::string_view piece = vocab.piece(id);
    if (piece.find('\n') != std::string_view::npos) {
      lines = lines && piece.find_first_not_of('\n') == std::string_view::npos;
    }
    for (std::size_t at = piece.find(metaspace, 1); at != std::string_view::npos;
         at = piece.find(metaspace, at + 1)) {
      words = words && piece.substr(0, at).ends_with(metaspace);
    }
  }
  std::vector<split_rule> cuts;
  if (lines) cuts.push_back(split_rule::line_feed_run);
  if (words) cuts.push_back(split_rule::metaspace_run_start);
  return cuts;
}

std::string with_metaspaces(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  for (const char c : text) {
    if (c == ' ') {
      out.append(metaspace);
    } else {
      out.push_back(c);
    }
  }
  return out;
}

/// The parts that lie in text of `size` bytes at `offset`, from there.
std::vector<text_range> parts_within(std::span<const text_range> parts, std::size_t offset,
                                     std::size_t size) {
  std::vector<text_range> out;
  auto at = std::partition_point(parts.begin(), parts.end(),
                                 [&](const text_range& part) { return part.from + part.size <= offset; });
  for (; at != parts.end() && at->from < offset + size; ++at) {
    const std::size_t from = std::max(at->from, offset);
    out.push_back({from - offset, std::min(at->from + at->size, offset + size) - from});
  }
  return out;
}

/// The text in NFC, the parts and what is between them each for itself, so that they are still known.
std::string normalized(std::string_view text, std::vector<text_range>& parts) {
  std::string out;
  std::size_t done = 0;
  for (text_range& part : parts) {
    out += to_nfc(text.substr(done, part.from - done));
    done = part.from + part.size;
    const std::string changed = to_nfc(text.substr(part.from, part.size));
    part = {out.size(), changed.size()};
    out += changed;
  }
  return out + to_nfc(text.substr(done));
}

}  // namespace

class bpe_tokenizer::bpe_run final : public run {
 public:
  explicit bpe_run(const bpe_tokenizer& t) : t_(t) {}

  void plain(std::string_view text, std::size_t offset, const encode_options& options,
             std::vector<token_id>& out) override {
    const bpe_settings& s = t_.settings_;
    const bool first = offset == 0;
    const bool changes = s.nfc && may_need_nfc(text);
    std::string normal;
    std::vector<text_range> left;
    if (s.normalized_specials.empty()) {
      if (changes) text = normal = to_nfc(text);
      return fragment(text, first, out);
    }
    left = parts_within(options.plain, offset, text.size());
    if (changes) text = normal = normalized(text, left);
    s.normalized_specials.partition(
        text, options.parse_special,
        [&](std::string_view part) { fragment(part, first && part.data() == text.data(), out); },
        [&](token_id id) { out.push_back(id); }, left);
  }

 private:
  void fragment(std::string_view text, bool first, std::vector<token_id>& out) {
    const bpe_settings& s = t_.settings_;
    const bool spaced =
        text.front() == ' ' || (s.how == spelling::sentencepiece && text.starts_with(metaspace));
    std::string changed;
    if (s.prefix == space_prefix::always || (s.prefix == space_prefix::unless_spaced && !spaced) ||
        (s.prefix == space_prefix::first_unless_spaced && first && !spaced)) {
      text = changed = ' ' + std::string(text);
    }
    if (s.how == spelling::sentencepiece) text = changed = with_metaspaces(text);
    t_.words_.split(text, [&](std::string_view w) { word(w, out); });
  }

  void word(std::string_view w, std::vector<token_id>& out) {
    const token_id whole = t_.vocab_.find(w);
    if (whole < 0 || t_.vocab_.kind(whole) != token_kind::normal) return append_merged(w, out);
    if (t_.settings_.ignore_merges) return out.push_back(whole);
    std::atomic<reach>& known = t_.reachable_[static_cast<std::size_t>(whole)];
    const reach r = known.load(std::memory_order_relaxed);
    if (r == reach::yes) return out.push_back(whole);
    append_merged(w, out);
    if (r == reach::untried) {
      const bool reached = scratch_.symbols.size() == 1 && scratch_.symbols[0] == whole;
      known.store(reached ? reach::yes : reach::no, std::memory_order_relaxed);
    }
  }

  void append_merged(std::string_view w, std::vector<token_id>& out) {
    scratch_.symbols.clear();
    if (t_.settings_.how == spelling::byte_level) {
      for (const char c : w) append_byte(static_cast<unsigned char>(c));
    } else {
      append_characters(w);
    }
    scratch_.merge(t_.merges_);
    out.insert(out.end(), scratch_.symbols.begin(), scratch_.symbols.end());
  }

  // A byte without a token is dropped, as in Hugging Face's model.
  void append_byte(unsigned char byte) {
    if (const token_id id = t_.vocab_.of_byte(byte); id >= 0) scratch_.symbols.push_back(id);
  }

  void append_characters(std::string_view w) {
    const char* const end = w.data() + w.size();
    bool unknown_before = false;
    for (const char* p = w.data(); p != end;) {
      const std::string_view c(p, utf8::decode(p, end).size);
      p += c.size();
      const token_id id = t_.vocab_.find(c);
      const bool known = id >= 0 || has_bytes(c);
      if (id >= 0) {
        scratch_.symbols.push_back(id);
      } else if (known) {
        for (const char b : c) append_byte(static_cast<unsigned char>(b));
      } else if (t_.settings_.unknown >= 0 && !(unknown_before && t_.settings_.fuse_unknown)) {
        scratch_.symbols.push_back(t_.settings_.unknown);
      }
      unknown_before = !known;
    }
  }

  [[nodiscard]] bool has_bytes(std::string_view c) const {
    for (const char b : c) {
      if (t_.vocab_.of_byte(static_cast<unsigned char>(b)) < 0) return false;
    }
    return true;
  }

  const bpe_tokenizer& t_;
  bpe_scratch scratch_;
};

bpe_tokenizer::bpe_tokenizer(vocabulary vocab, merge_table merges, bpe_settings settings, vocab_rules rules)
    : vocab_tokenizer(std::move(vocab), std::move(rules)),
      merges_(std::move(merges)),
      settings_(std::move(settings)),
      words_(harmless_cuts(vocab_, settings_)),
      reachable_(std::make_unique<std::atomic<reach>[]>(vocab_.size())) {}

std::unique_ptr<vocab_tokenizer::run> bpe_tokenizer::start() const {
  return std::make_unique<bpe_run>(*this);
}

}  // namespace orcd::engine
