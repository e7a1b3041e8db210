// The output pipeline of one job: token ids in, text that is safe to emit out. Token bytes go through the
// UTF-8 boundary buffer and then the stop matcher. Not thread-safe; one per job; no I/O.
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
  /// `tok` must outlive the stream. Control tokens are printed only with `render_special`; with `keep_stop`
  /// the stop string that ends the text is the last of it.
  token_stream(const tokenizer& tok, std::vector<std::string> stops, bool render_special = false,
               bool keep_stop = false);

  struct piece {
    std::string text;      ///< valid UTF-8, often empty; no part of a stop string unless it is kept
    bool stopped = false;  ///< a stop string was completed; later tokens add nothing
    std::string stop{};    ///< that stop string, once
  };
  [[nodiscard]] piece push(token_id token);

  /// The text that is still held back, once, when generation ended for another reason than a stop string. An
  /// unfinished code point becomes U+FFFD; a stop string that this completes still cuts the text.
  [[nodiscard]] std::string finish();

 private:
  const tokenizer* tokenizer_;
  utf8_buffer utf8_;
  stop_matcher stops_;
  std::string bytes_;  // scratch for one token
  bool render_special_;
  bool keep_stop_;
};

}  // namespace orcd::engine
