#include "engine/chat/reasoning/reasoning_reader.hpp"

namespace orcd::engine {

void reasoning_reader::begin(delta_writer& out) {
  out.boundary();
  text_.begin();
}

void reasoning_reader::text(std::string_view text, delta_writer& out) {
  if (!quoted_) return text_.text(text, out);
  quoted_->text(text);
  if (quoted_->fails()) unquote(out);
}

bool reasoning_reader::mark(std::string_view mark, bool calls, delta_writer& out) {
  // Written twice it is still one mark.
  if (mark == marks_.open && text_.is_fresh()) return false;
  text_.end(false, out);
  if (mark == marks_.close) {
    unquote(out);
    out.boundary();
    return true;
  }
  if (quoted_) {
    if (quoted_->mark(mark)) return false;
    unquote(out);
  }
  if (calls) {
    quoted_ = std::make_unique<quoted_calls>(format_, parse_options{true, false, types_, true}, mark);
  } else {
    out.reasoning(mark);
  }
  return false;
}

bool reasoning_reader::end(output_end how, delta_writer& out) {
  if (quoted_ && how == output_end::whole && quoted_->end(out)) return true;
  text_.end(how == output_end::cut, out);
  unquote(out);
  return false;
}

void reasoning_reader::unquote(delta_writer& out) {
  if (quoted_) out.reasoning(quoted_->raw());
  quoted_.reset();
}

}  // namespace orcd::engine
