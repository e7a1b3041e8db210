#include "net/completion/logprob_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "engine/sampling/portable_exp.hpp"
#include "engine/text/utf8_buffer.hpp"
#include "net/json/json_text.hpp"

namespace orcd::net {
namespace {

std::string bytes_of(engine::token_id token, const engine::tokenizer& vocabulary) {
  std::string bytes;
  vocabulary.append_bytes(token, bytes, true);
  return bytes;
}

/// The fewest digits that give the same number again.
template <class Number>
void append_shortest(std::string& out, Number value) {
  std::array<char, 64> text;
  const auto done = std::to_chars(text.data(), text.data() + text.size(), value);
  out.append(text.data(), done.ptr);
}

/// The same with a fraction, where clients tell real numbers from integers.
void append_real(std::string& out, double value) {
  const std::size_t begin = out.size();
  append_shortest(out, value);
  if (out.find_first_of(".e", begin) == std::string::npos) out += ".0";
}

void append_logprob(std::string& out, float value) {
  if (std::isnan(value)) {  // the first token of a prompt: nothing comes before it
    out += "null";
    return;
  }
  // JSON has no infinity; OpenAI's API writes this for a probability of 0.
  append_shortest(out, std::isfinite(value) ? value : -9999.0F);
}

void append_bytes(std::string& out, std::string_view bytes) {
  out += '[';
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(static_cast<unsigned char>(bytes[i]));
  }
  out += ']';
}

/// The token's name where the client wants no texts.
std::string name_of(engine::token_id token) {
  return "token_id:" + std::to_string(token);
}

/// Clients take a probability that is not 0 for one that may be drawn.
double probability_of(const engine::token_logprob& token, engine::token_id chosen, probability_kind kind) {
  if (kind == probability_kind::greedy) return token.token == chosen ? 1.0 : 0.0;
  return engine::portable_exp(std::clamp(token.logprob, engine::portable_exp_lowest, 0.0F));
}

/// {"token","logprob","bytes" without the closing brace.
void append_token_fields(std::string& out, const engine::token_logprob& token,
                         const engine::tokenizer& vocabulary, bool as_id = false) {
  const std::string bytes = bytes_of(token.token, vocabulary);
  out += "{\"token\":";
  append_json_string(out, as_id ? name_of(token.token) : bytes);
  out += ",\"logprob\":";
  append_logprob(out, token.logprob);
  out += ",\"bytes\":";
  append_bytes(out, bytes);
}

/// A token as an object key: its text, or "bytes:\xe2" where its bytes are not text by themselves.
std::string key_of(engine::token_id token, const engine::tokenizer& vocabulary, bool as_id) {
  if (as_id) return name_of(token);
  const std::string bytes = bytes_of(token, vocabulary);
  std::string text = engine::valid_utf8(bytes);
  if (text == bytes) return text;
  text = "bytes:";
  for (const char c : bytes) {
    constexpr std::string_view hex = "0123456789abcdef";
    text += "\\x";
    text += hex[static_cast<unsigned char>(c) >> 4U];
    text += hex[static_cast<unsigned char>(c) & 15U];
  }
  return text;
}

void append_top_logprobs(std::string& out, const logprob_entry& entry, const engine::tokenizer& vocabulary,
                         bool as_ids) {
  if (std::isnan(entry.logprobs.front().logprob)) {
    out += "null";
    return;
  }
  out += '{';
  std::set<std::string> keys;  // two tokens may have the same text; the more likely one is listed
  const auto add = [&](const engine::token_logprob& token) {
    const std::string key = key_of(token.token, vocabulary, as_ids);
    if (!keys.insert(key).second) return;
    if (keys.size() > 1) out += ',';
    append_json_string(out, key);
    out += ':';
    append_logprob(out, token.logprob);
  };
  for (const auto& token : std::span(entry.logprobs).subspan(1)) add(token);
  // The token itself is listed in any case: one more than were asked for where it is none of them.
  add(entry.logprobs.front());
  out += '}';
}

template <class Each>
void append_list(std::string& out, std::span<const logprob_entry> entries, const Each& each) {
  out += '[';
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i > 0) out += ',';
    each(entries[i]);
  }
  out += ']';
}

std::string render_text(std::span<const logprob_entry> entries, const engine::tokenizer& vocabulary,
                        bool as_ids) {
  std::string out = "{\"tokens\":";
  append_list(out, entries, [&](const auto& e) {
    append_json_string(out, key_of(e.logprobs.front().token, vocabulary, as_ids));
  });
  out += ",\"token_logprobs\":";
  append_list(out, entries, [&](const auto& e) { append_logprob(out, e.logprobs.front().logprob); });
  out += ",\"top_logprobs\":";
  append_list(out, entries, [&](const auto& e) { append_top_logprobs(out, e, vocabulary, as_ids); });
  out += ",\"text_offset\":";
  append_list(out, entries, [&](const auto& e) { out += std::to_string(e.text_offset); });
  return out + "}";
}

/// "5":{"logprob":-0.5,"rank":1,"decoded_token":"a"}
void append_ranked(std::string& out, const engine::token_logprob& token, std::uint32_t rank,
                   const engine::tokenizer& vocabulary) {
  if (out.back() != '{') out += ',';
  out += '"' + std::to_string(token.token) + "\":{\"logprob\":";
  append_logprob(out, token.logprob);
  out += ",\"rank\":" + (rank > 0 ? std::to_string(rank) : "null") + ",\"decoded_token\":";
  append_json_string(out, bytes_of(token.token, vocabulary));
  out += '}';
}

}  // namespace

std::string render_prompt_values(std::span<const prompt_value> values, const engine::tokenizer& vocabulary) {
  std::string out = "[null";
  for (const prompt_value& value : values) {
    out += ",{";
    const auto& own = value.logprobs.front();
    append_ranked(out, own, value.rank, vocabulary);
    for (std::uint32_t i = 1; i < value.logprobs.size(); ++i) {
      if (value.logprobs[i].token != own.token) append_ranked(out, value.logprobs[i], i, vocabulary);
    }
    out += '}';
  }
  return out + "]";
}

std::string render_token_list(std::span<const logprob_entry> entries, const engine::tokenizer& vocabulary,
                              bool tokens_as_ids) {
  std::string out = "[";
  for (const auto& entry : entries) {
    if (out.back() == '}') out += ',';
    append_token_fields(out, entry.logprobs.front(), vocabulary, tokens_as_ids);
    out += ",\"top_logprobs\":[";
    for (std::size_t i = 1; i < entry.logprobs.size(); ++i) {
      if (i > 1) out += ',';
      append_token_fields(out, entry.logprobs[i], vocabulary, tokens_as_ids);
      out += '}';
    }
    out += "]}";
  }
  return out + "]";
}

std::string render_probabilities(std::span<const logprob_entry> entries, const engine::tokenizer& vocabulary,
                                 probability_kind kind) {
  const bool raw = kind == probability_kind::logprob;
  std::string out;
  append_list(out, entries, [&](const auto& entry) {
    const auto chosen = entry.logprobs.front().token;
    const auto token_fields = [&](const engine::token_logprob& token) {
      if (raw) {
        append_token_fields(out, token, vocabulary);
      } else {
        const std::string bytes = bytes_of(token.token, vocabulary);
        out += "{\"token\":";
        append_json_string(out, bytes);
        out += ",\"prob\":";
        append_real(out, probability_of(token, chosen, kind));
        out += ",\"bytes\":";
        append_bytes(out, bytes);
      }
      out += ",\"id\":" + std::to_string(token.token);
    };
    token_fields(entry.logprobs.front());
    out += raw ? ",\"top_logprobs\":[" : ",\"top_probs\":[";
    for (std::size_t i = 1; i < entry.logprobs.size(); ++i) {
      if (i > 1) out += ',';
      token_fields(entry.logprobs[i]);
      out += '}';
    }
    out += "]}";
  });
  return out;
}

std::string render_logprobs(completion_kind kind, std::span<const logprob_entry> entries,
                            const engine::tokenizer& vocabulary, bool tokens_as_ids) {
  if (kind == completion_kind::text) return render_text(entries, vocabulary, tokens_as_ids);
  return "{\"content\":" + render_token_list(entries, vocabulary, tokens_as_ids) + ",\"refusal\":null}";
}

}  // namespace orcd::net
