#include "net/openai/message_reader.hpp"

#include <algorithm>

namespace orcd::net {

using engine::output_delta;

message_reader::message_reader(const reader_options& options, const engine::tokenizer& vocabulary)
    : parser_(options.format, options.parsing),
      stops_(options.stop),
      parallel_(options.parallel),
      keep_stop_(options.keep_stop) {
  if (options.marks_are_text) return;
  engine::encode_options bare;
  bare.add_special = false;
  for (const std::string_view text : engine::marks_of(options.format)) {
    const auto ids = vocabulary.encode(text, bare);
    if (ids.size() == 1 && vocabulary.is_control(ids.front())) marks_.push_back({ids.front(), text});
  }
}

message_reader::step message_reader::token(engine::token_id id, std::string_view text) {
  step out;
  const bool before = parser_.in_reasoning();
  take(parser_.push(text), out);
  const auto found = std::find_if(marks_.begin(), marks_.end(), [id](const mark& m) { return m.id == id; });
  if (found != marks_.end()) take(parser_.push_mark(found->text), out);
  if (before || parser_.in_reasoning()) ++reasoning_tokens_;
  return out;
}

message_reader::step message_reader::text(std::string_view text) {
  step out;
  take(parser_.push(text), out);
  return out;
}

message_reader::step message_reader::finish() {
  step out;
  if (over_) return out;
  take(parser_.finish(), out);
  if (!over_) flush_content(out);
  return out;
}

void message_reader::take(engine::output_deltas deltas, step& out) {
  for (output_delta& delta : deltas) {
    if (over_) break;
    if (delta.what == output_delta::kind::content) {
      take_content(delta.text, out);
      continue;
    }
    flush_content(out);
    const bool call = delta.what == output_delta::kind::call || delta.what == output_delta::kind::arguments;
    if (call && delta.index > 0 && !parallel_) {
      over_ = true;
    } else {
      out.deltas.push_back(std::move(delta));
    }
  }
  out.over = over_;
}

void message_reader::take_content(std::string_view text, step& out) {
  content_in_ += text.size();
  auto safe = stops_.push(text);
  if (keep_stop_) safe.text += safe.stop;
  content_out_ += safe.text.size();
  if (!safe.text.empty()) out.deltas.push_back({output_delta::kind::content, std::move(safe.text), {}, 0});
  if (!safe.stopped) return;
  over_ = true;
  out.cut_bytes = content_in_ - content_out_;
  out.stop = std::move(safe.stop);
}

/// A stop string cannot continue behind reasoning or a call: text that was held back for it is content.
void message_reader::flush_content(step& out) {
  std::string held = stops_.finish();
  if (held.empty()) return;
  content_out_ += held.size();
  out.deltas.push_back({output_delta::kind::content, std::move(held), {}, 0});
}

}  // namespace orcd::net
