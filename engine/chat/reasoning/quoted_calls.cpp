#include "engine/chat/reasoning/quoted_calls.hpp"

namespace orcd::engine {

namespace {

/// The same calls, and nothing around them.
output_format without_frame(output_format format) {
  format.think = false;
  format.answer = answer_style::bare;
  return format;
}

}  // namespace

quoted_calls::quoted_calls(const output_format& format, const parse_options& options, std::string_view mark)
    : reader_(make_tagged_reader(without_frame(format), {true, false, options.types, true}, true)),
      raw_(mark) {
  reader_->mark(mark);
}

void quoted_calls::text(std::string_view text) {
  raw_ += text;
  reader_->text(text);
}

bool quoted_calls::mark(std::string_view mark) {
  if (reader_->may_take(mark)) {
    reader_->mark(mark);
  } else {
    reader_->text(mark);
  }
  if (fails()) return false;
  raw_ += mark;
  return true;
}

bool quoted_calls::fails() const noexcept {
  return !reader_->calls_alone() || raw_.size() > raw_max;
}

bool quoted_calls::end(delta_writer& to) {
  reader_->end(output_end::whole);
  if (fails() || reader_->out.calls() == 0) return false;
  for (const output_delta& delta : reader_->out.take()) {
    if (delta.what == output_delta::kind::call) to.begin_call(delta.name);
    if (delta.what == output_delta::kind::arguments) to.arguments(delta.text);
  }
  return true;
}

}  // namespace orcd::engine
