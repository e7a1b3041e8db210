#include "engine/chat/output_parser.hpp"

#include "engine/chat/output_reader.hpp"
#include "engine/chat/tag_scanner.hpp"

namespace orcd::engine {

namespace {

std::unique_ptr<output_reader> make_reader(const output_format& format, const parse_options& options) {
  if (format.calls == call_format::harmony) return make_harmony_reader(options);
  if (format.calls == call_format::generic && options.tools) return make_generic_reader(format, options);
  return make_tagged_reader(format, options);
}

}  // namespace

struct output_parser::implementation {
  tag_scanner scanner;
  std::unique_ptr<output_reader> reader;
  std::string_view end_mark;  ///< of the format, or empty
  bool ended = false;         ///< that mark has come

  void text(std::string_view t) const {
    if (!ended) reader->text(t);
  }
  void mark(std::string_view m) {
    if (ended) return;
    if (end_mark.empty() || m != end_mark) return reader->mark(m);
    if (reader->in_text()) return reader->text(m);
    ended = true;
    reader->end(output_end::whole);
  }
  /// Whether a text at the end of the output is the beginning of a mark, and no text.
  [[nodiscard]] bool begins_mark(std::string_view t, output_end how) const {
    if (ended || reader->awaits_mark()) return true;
    if (how != output_end::cut) return false;
    return reader->may_take(t) || (end_mark.starts_with(t) && !reader->in_text());
  }
};

output_parser::output_parser(const output_format& format, const parse_options& options)
    : self_(std::make_unique<implementation>(implementation{
          tag_scanner(reading_marks(format)), make_reader(format, options), end_mark_of(format)})) {}
output_parser::~output_parser() = default;
output_parser::output_parser(output_parser&&) noexcept = default;
output_parser& output_parser::operator=(output_parser&&) noexcept = default;

output_deltas output_parser::push(std::string_view text) {
  self_->scanner.push(
      text, [&](std::string_view t) { self_->text(t); }, [&](std::string_view m) { self_->mark(m); });
  return self_->reader->out.take();
}

output_deltas output_parser::push_mark(std::string_view mark) {
  self_->scanner.finish([&](std::string_view t) { self_->text(t); });
  self_->mark(mark);
  return self_->reader->out.take();
}

output_deltas output_parser::finish(output_end how) {
  self_->scanner.finish([&](std::string_view t) {
    if (!self_->begins_mark(t, how)) self_->text(t);
  });
  if (self_->ended) return {};
  self_->reader->end(how);
  self_->reader->out.finish();
  return self_->reader->out.take();
}

std::uint32_t output_parser::calls() const noexcept {
  return self_->reader->out.calls();
}

bool output_parser::over() const noexcept {
  return self_->ended || self_->reader->over();
}

bool output_parser::in_reasoning() const noexcept {
  return self_->reader->in_reasoning();
}

}  // namespace orcd::engine
