#include "engine/text/token_stream.hpp"

#include <utility>

#include "engine/text/tokenizer.hpp"

namespace orcd::engine {

token_stream::token_stream(const tokenizer& tok, std::vector<std::string> stops, bool render_special,
                           bool keep_stop)
    : tokenizer_(&tok), stops_(std::move(stops)), render_special_(render_special), keep_stop_(keep_stop) {}

token_stream::piece token_stream::push(token_id token) {
  bytes_.clear();
  tokenizer_->append_bytes(token, bytes_, render_special_);
  stop_matcher::output out = stops_.push(utf8_.push(bytes_));
  if (keep_stop_) out.text += out.stop;
  return {std::move(out.text), out.stopped, std::move(out.stop)};
}

std::string token_stream::finish() {
  stop_matcher::output out = stops_.push(utf8_.finish());
  if (!out.stopped) out.text += stops_.finish();
  if (keep_stop_) out.text += out.stop;
  return std::move(out.text);
}

}  // namespace orcd::engine
