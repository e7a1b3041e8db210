#include "net/logprob_text.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "engine/text/utf8_buffer.hpp"
#include "net/json_text.hpp"

namespace orcd::net {
namespace {

std::string bytes_of(engine::token_id token, const engine::tokenizer& vocabulary) {
  std::string bytes;
  vocabulary.append_bytes(token, bytes, true);
  return bytes;
}

std::string text_of(std::string_view bytes) {
  engine::utf8_buffer buffer;
  std::string text = buffer.push(bytes);
  return text + buffer.finish();
}

/// The fewest digits that give the same float again.
void append_logprob(std::string& out, float value) {
  // JSON has no infinity; this is what the field writes for "never".
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

/// {"token","logprob","bytes" without the closing brace.
void append_token_fields(std::string& out, const engine::token_logprob& token,
                         const engine::tokenizer& vocabulary) {
  const std::string bytes = bytes_of(token.token, vocabulary);
  out += "{\"token\":";
  append_json_string(out, text_of(bytes));
  out += ",\"logprob\":";
  append_logprob(out, token.logprob);
  out += ",\"bytes\":";
  append_bytes(out, bytes);
}

std::string render_chat(std::span<const logprob_entry> entries, const engine::tokenizer& vocabulary) {
  std::string out = "{\"content\":[";
  for (const auto& entry : entries) {
    if (out.back() == '}') out += ',';
    append_token_fields(out, entry.logprobs.front(), vocabulary);
    out += ",\"top_logprobs\":[";
    for (std::size_t i = 1; i < entry.logprobs.size(); ++i) {
      if (i > 1) out += ',';
      append_token_fields(out, entry.logprobs[i], vocabulary);
      out += '}';
    }
    out += "]}";
  }
  return out + "],\"refusal\":null}";
}

/// A token as a key: text, or "bytes:\xe2" where it is none, so that different tokens have different keys.
std::string key_of(engine::token_id token, const engine::tokenizer& vocabulary) {
  const std::string bytes = bytes_of(token, vocabulary);
  std::string text = text_of(bytes);
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

void append_likeliest(std::string& out, const logprob_entry& entry, const engine::tokenizer& vocabulary) {
  if (entry.logprobs.size() < 2) {
    out += "null";
    return;
  }
  out += '{';
  std::set<std::string> keys;  // two tokens may have the same text; the likelier one is listed
  for (const auto& token : std::span(entry.logprobs).subspan(1)) {
    const std::string key = key_of(token.token, vocabulary);
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

std::string render_text(std::span<const logprob_entry> entries, const engine::tokenizer& vocabulary) {
  std::string out = "{\"tokens\":";
  append_list(out, entries,
              [&](const auto& e) { append_json_string(out, key_of(e.logprobs.front().token, vocabulary)); });
  out += ",\"token_logprobs\":";
  append_list(out, entries, [&](const auto& e) { append_logprob(out, e.logprobs.front().logprob); });
  out += ",\"top_logprobs\":";
  append_list(out, entries, [&](const auto& e) { append_likeliest(out, e, vocabulary); });
  out += ",\"text_offset\":";
  append_list(out, entries, [&](const auto& e) { out += std::to_string(e.text_offset); });
  return out + "}";
}

}  // namespace

std::string render_logprobs(completion_kind kind, std::span<const logprob_entry> entries,
                            const engine::tokenizer& vocabulary) {
  return kind == completion_kind::chat ? render_chat(entries, vocabulary) : render_text(entries, vocabulary);
}

}  // namespace orcd::net
