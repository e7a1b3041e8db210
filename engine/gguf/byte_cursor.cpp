#include "engine/gguf/byte_cursor.hpp"

namespace orcd::engine {

std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 80;
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out = "'";
  for (const char c : text.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7F) {
      out += c;
    } else {
      out += "\\x";
      out += digits[byte >> 4U];
      out += digits[byte & 15U];
    }
  }
  return out + (text.size() > longest ? "...'" : "'");
}

error file_error(std::string_view file, std::string_view field, std::uint64_t offset, std::string_view text) {
  std::string message(file);
  message.append(": ").append(field).append(" at offset ").append(std::to_string(offset));
  message.append(": ").append(text);
  return {errc::model_load_failed, std::move(message), "model"};
}

std::string_view byte_cursor::read_string(std::string_view field, std::uint64_t limit) {
  const std::uint64_t at = offset_;
  const auto length = read<std::uint64_t>(field);
  if (!ok()) return {};
  if (length > limit) {
    fail(field, at,
         "length " + std::to_string(length) + " is over the limit of " + std::to_string(limit) + " bytes");
    return {};
  }
  const auto raw = take(length, field);
  return {reinterpret_cast<const char*>(raw.data()), raw.size()};
}

std::span<const std::byte> byte_cursor::take(std::uint64_t count, std::string_view field) {
  if (!ok()) return {};
  if (count > remaining()) {
    fail(field, offset_,
         "needs " + std::to_string(count) + " bytes, but only " + std::to_string(remaining()) +
             " of the file's " + std::to_string(image_.size()) + " are left");
    return {};
  }
  const auto out = image_.subspan(offset_, count);
  offset_ += count;
  return out;
}

void byte_cursor::fail(std::string_view field, std::uint64_t offset, std::string_view text) {
  if (!ok()) return;
  std::string what(field);
  if (!subject_kind_.empty())
    what.append(" of ").append(subject_kind_).append(" ").append(in_quotes(subject_name_));
  failure_ = file_error(file_, what, offset, text);
}

}  // namespace orcd::engine
