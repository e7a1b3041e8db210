// Separates a model's output into content, reasoning and tool calls while it comes.
//
// - The result does not depend on how the text was cut into pieces: only the sizes of the deltas do.
// - The fragments of a call's arguments are together one JSON object, as the model wrote it. Where the
//   output was cut or the model spoilt it they are no JSON: a call that was not ended never looks like one
//   that was.
// - Text that turns out not to be a call is content, marks included. Dropped are only white space next to
//   marks and, where the output was cut, what began a call or a mark and is none yet. Nothing is ever an
//   error.
// - The time is linear in the text. Text is UTF-8 from a token_stream. One per output; not thread-safe; no
//   I/O.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "engine/chat/output_delta.hpp"
#include "engine/chat/output_format.hpp"

namespace orcd::engine {

class output_parser {
 public:
  explicit output_parser(const output_format& format, const parse_options& options = {});
  ~output_parser();
  output_parser(output_parser&&) noexcept;
  output_parser& operator=(output_parser&&) noexcept;

  /// Takes text, which may contain marks.
  [[nodiscard]] output_deltas push(std::string_view text);
  /// Takes a control token that is one of marks_of().
  [[nodiscard]] output_deltas push_mark(std::string_view mark);
  /// The output has ended: returns what is still held. To be called once.
  [[nodiscard]] output_deltas finish(output_end how = output_end::whole);

  /// Calls begun so far; at least one makes the finish reason "tool_calls".
  [[nodiscard]] std::uint32_t calls() const noexcept;
  /// Whether the answer ended before what comes: the model goes on with what is not its to write.
  [[nodiscard]] bool over() const noexcept;
  /// Whether text that comes next is reasoning.
  [[nodiscard]] bool in_reasoning() const noexcept;

 private:
  struct implementation;
  std::unique_ptr<implementation> self_;
};

}  // namespace orcd::engine
