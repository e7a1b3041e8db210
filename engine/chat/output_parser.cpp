#include "engine/chat/output_parser.hpp"

#include "engine/chat/output_reader.hpp"
#include "engine/chat/tag_scanner.hpp"

namespace orcd::engine {

struct output_parser::implementation {
  tag_scanner scanner;
  std::unique_ptr<output_reader> reader;

  void text(std::string_view t) const { reader->text(t); }
  void mark(std::string_view m) const { reader->mark(m); }
};

output_parser::output_parser(const output_format& format, const parse_options& options)
    : self_(std::make_unique<implementation>(
          implementation{tag_scanner(marks_of(format)), format.calls == call_format::harmony
                                                            ? make_harmony_reader(options)
                                                            : make_tagged_reader(format, options)})) {}
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

output_deltas output_parser::finish() {
  self_->scanner.finish([&](std::string_view t) {
    if (!self_->reader->awaits_mark()) self_->text(t);
  });
  self_->reader->end();
  self_->reader->out.finish();
  return self_->reader->out.take();
}

std::uint32_t output_parser::calls() const noexcept {
  return self_->reader->out.calls();
}

bool output_parser::in_reasoning() const noexcept {
  return self_->reader->in_reasoning();
}

}  // namespace orcd::engine
