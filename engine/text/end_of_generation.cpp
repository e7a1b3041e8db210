#include "engine/text/end_of_generation.hpp"

#include <algorithm>
#include <array>

namespace orcd::engine {

namespace {

// Most specific first: likely_eos() takes the first that exists.
constexpr std::array<std::string_view, 35> end_texts = {
    "<|return|>", "<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<|endoftext|>", "<|end_of_text|>",
    "</s>", "<eos>", "<|call|>", "<|eom_id|>", "<EOT>", "_<EOT>", "<|flush|>", "<|calls|>", "<turn|>",
    "<|tool_response>",
    // What begins a call's result, where files name it as no end: GLM-4-0414, FunctionGemma.
    "<|observation|>", "<start_function_response>", "[EOT]", "[EOS]", "[e~[", "<end_of_utterance>",
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
    // Fill-in-the-middle padding and file separators are never part of an answer.
    "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>",
    "<reponame>", "<|file_sep|>", "<|fim_sep|>"};

/// In Gemma 4's tokenizer: the end of a turn, of a text, and what begins the result of a call.
constexpr std::array<std::string_view, 3> gemma4_ends = {"<turn|>", "<eos>", "<|tool_response>"};
constexpr std::string_view html_end = "</s>";

bool is_bracketed(std::string_view text) {
  return text.starts_with("<|") && text.ends_with("|>");
}

}  // namespace

std::vector<token_id> mark_end_tokens(vocabulary& vocab) {
  std::vector<token_id> ends;
  for (std::uint32_t i = 0; i < vocab.size(); ++i) {
    const auto id = static_cast<token_id>(i);
    const std::string_view text = vocab.piece(id);
    if (text.size() < 4) continue;
    if (std::find(end_texts.begin(), end_texts.end(), text) == end_texts.end()) continue;
    const token_kind kind = vocab.kind(id);
    if (kind == token_kind::absent || (kind == token_kind::normal && !is_bracketed(text))) continue;
    vocab.set_kind(id, token_kind::control);
    ends.push_back(id);
  }
  return ends;
}

void settle_gemma4(std::span<token_entry> tokens) {
  for (token_entry& token : tokens) {
    if (std::find(gemma4_ends.begin(), gemma4_ends.end(), token.piece) != gemma4_ends.end())
      token.kind = token_kind::control;
    if (token.piece == html_end) token.kind = token_kind::normal;
  }
}

bool is_gemma4_text(std::string_view piece) noexcept {
  return piece == html_end;
}

void apply_harmony(vocabulary& vocab, std::vector<token_id>& ends) {
  if (vocab.find_piece("<|return|>") < 0 || vocab.find_piece("<|call|>") < 0) return;
  for (const std::string_view text :
       {"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>"}) {
    const token_id id = vocab.find_piece(text);
    if (id < 0) continue;
    vocab.set_kind(id, token_kind::user_defined);
    if (text == "<|end|>") std::erase(ends, id);
  }
}

token_id likely_eos(const vocabulary& vocab, const std::vector<token_id>& ends) {
  for (const std::string_view text : end_texts) {
    for (const token_id id : ends) {
      if (vocab.piece(id) == text) return id;
    }
  }
  return -1;
}

}  // namespace orcd::engine
