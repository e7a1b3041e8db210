#include "net/openai/logprob_text.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "engine/text/utf8_buffer.hpp"
#include "net/json/json_text.hpp"

namespace orcd::net {
namespace {

std::string bytes_of(engine::token_id token, const engine::tokenizer& vocabulary) {
  std::string bytes;
  vocabulary.append_bytes(token, bytes, true);
  return bytes;
}

/// The fewest digits that give the same float again.
void append_logprob(std::string& out, float value) {
  if (std::isnan(value)) {  // the first token of a prompt: nothing comes before it
    out += "null";
    return;
  }
  // JSON has no infinity; OpenAI's API writes this for a probability of 0.
  if (!std::isfinite(value)) value = -9999.0F;
  std::array<char, 64> text;
  const auto done = std::to_chars(text.data(), text.data() + text.size(), value);
  out.append(text.data(), done.ptr);
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
  for (const auto& token : std::span(entry.logprobs).subspan(1)) {
    const std::string key = key_of(token.token, vocabulary, as_ids);
    if (!keys.insert(key).second) continue;
    if (keys.size() > 1) out += ',';
    append_json_string(out, key);
    out += ':';
    append_logprob(out, token.logprob);
  }
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

}  // namespace

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

std::string render_probabilities(std::span<const logprob_entry> entries,
                                 const engine::tokenizer& vocabulary) {
  const auto token_fields = [&](std::string& out, const engine::token_logprob& token) {
    append_token_fields(out, token, vocabulary);
    out += ",\"id\":" + std::to_string(token.token);
  };
  std::string out;
  append_list(out, entries, [&](const auto& entry) {
    token_fields(out, entry.logprobs.front());
    out += ",\"top_logprobs\":[";
    for (std::size_t i = 1; i < entry.logprobs.size(); ++i) {
      if (i > 1) out += ',';
      token_fields(out, entry.logprobs[i]);
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
