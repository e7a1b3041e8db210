// Writes flat JSON objects by appending to a string: for SSE events, /health, errors and the ready
// callback. Whatever JSON demands is escaped, so that one object is always one line.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace orcd::net {

/// Appends `text` in quotes. What is not UTF-8 becomes U+FFFD, as in engine/text/utf8_buffer.hpp: JSON is
/// always UTF-8, and bytes of a client's tokens or of a model's file need not be (RFC 8259, section 8.1).
void append_json_string(std::string& out, std::string_view text);

/// Appends a finite number in plain decimal with at most `digits` fraction digits; 0 for NaN and infinity.
void append_decimal(std::string& out, double value, int digits = 3);

/// {"key":value,...}; the closing brace is written by close().
class json_object {
 public:
  explicit json_object(std::string& out) : out_(out) { out_ += '{'; }

  json_object& text(std::string_view key, std::string_view value);
  json_object& number(std::string_view key, double value, int digits = 3);
  json_object& boolean(std::string_view key, bool value);
  json_object& null(std::string_view key);
  /// `json` is a value as JSON.
  json_object& raw(std::string_view key, std::string_view json);
  template <std::integral T>
  json_object& integer(std::string_view key, T value) {
    name(key);
    out_ += std::to_string(value);
    return *this;
  }
  /// Opens a nested object; the caller closes it before going on with this one.
  [[nodiscard]] json_object object(std::string_view key);
  void close() { out_ += '}'; }

 private:
  void name(std::string_view key);
  std::string& out_;
  bool first_ = true;
};

}  // namespace orcd::net
