#include "net/completion/message_reader.hpp"

#include <algorithm>

namespace orcd::net {

using engine::output_delta;

message_reader::message_reader(const reader_options& options, const engine::tokenizer& vocabulary)
    : parser_(options.format, options.parsing),
      stops_(options.stop),
      end_mark_(engine::end_mark_of(options.format)),
      parallel_(options.parallel),
      keep_stop_(options.keep_stop) {
  if (options.marks_are_text) return;
  engine::encode_options bare;
  bare.add_special = false;
  for (const std::string_view text : engine::reading_marks(options.format)) {
    const auto ids = vocabulary.encode(text, bare);
    if (ids.size() == 1 && vocabulary.is_control(ids.front())) marks_.push_back({ids.front(), text});
  }
}

message_reader::step message_reader::token(engine::token_id id, std::string_view text) {
  step out;
  const bool before = parser_.in_reasoning();
  take(parser_.push(text), out);
  if (parser_.over()) end(bytes_of_end(text), out);
  if (!end_mark_.empty()) {
    recent_ += text;
    recent_.erase(0, recent_.size() - std::min(recent_.size(), end_mark_.size()));
  }
  const auto found = std::find_if(marks_.begin(), marks_.end(), [id](const mark& m) { return m.id == id; });
  if (found != marks_.end()) take(parser_.push_mark(found->text), out);
  if (parser_.over()) end(0, out);
  if (before || parser_.in_reasoning()) ++reasoning_tokens_;
  return out;
}

message_reader::step message_reader::text(std::string_view text) {
  step out;
  take(parser_.push(text), out);
  return out;
}

message_reader::step message_reader::finish(engine::output_end how) {
  step out;
  if (over_) return out;
  take(parser_.finish(how), out);
  if (!over_) flush_content(out);
  return out;
}

std::size_t message_reader::bytes_of_end(std::string_view text) const {
  if (end_mark_.empty()) return text.size();
  const std::string whole = recent_ + std::string(text);
  const std::size_t from =
      whole.find(end_mark_, recent_.size() - std::min(recent_.size(), end_mark_.size() - 1));
  return from == std::string::npos ? text.size() : whole.size() - from;
}

/// The model goes on with what is not its to write: that is no part of the answer, nor is this token's text.
void message_reader::end(std::size_t cut_bytes, step& out) {
  if (over_) return;
  flush_content(out);
  over_ = out.over = true;
  out.cut_bytes = cut_bytes;
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
