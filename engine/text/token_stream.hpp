// The output pipeline of one job: token ids in, text that is safe to emit out. Token bytes go through
// the UTF-8 boundary buffer and then the stop matcher. Not thread-safe; one per job; no I/O.
// Source: M0 14.1 items 1 and 2; features.md (c) 9.
#pragma once

#include <string>
#include <vector>

#include "engine/base/ids.hpp"
#include "engine/text/stop_matcher.hpp"
#include "engine/text/utf8_buffer.hpp"

namespace orcd::engine {

class tokenizer;

class token_stream {
 public:
  /// `tok` must outlive the stream. Control tokens are printed only with `render_special`.
  token_stream(const tokenizer& tok, std::vector<std::string> stops, bool render_special = false);

  struct piece {
    std::string text;      ///< valid UTF-8, often empty; never any part of a stop string
    bool stopped = false;  ///< a stop string was completed; later tokens add nothing
  };
  [[nodiscard]] piece push(token_id token);

  /// What is still held back, once, when generation ended for another reason than a stop string.
  /// An unfinished code point becomes U+FFFD; a stop string that it completes still cuts the text.
  [[nodiscard]] std::string finish();

 private:
  const tokenizer* tokenizer_;
  utf8_buffer utf8_;
  stop_matcher stops_;
  std::string bytes_;  // scratch for one token
  bool render_special_;
};

}  // namespace orcd::engine
