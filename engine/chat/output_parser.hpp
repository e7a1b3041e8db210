// A model's output as it comes, parted into content, reasoning and tool calls.
//
// - The result does not depend on how the text was cut into pieces: only the sizes of the deltas do.
// - The fragments of a call's arguments are together one JSON object, also when the output ends too early
//   (what is missing is closed) or goes wrong after the call began (the call is closed, the rest is content).
// - What is no call after all is content, marks included. White space next to marks is not content, nor is
//   the beginning of the mark behind a call where the output was cut in it; all other bytes come out.
//   Nothing is ever an error.
// Text is UTF-8 from a token_stream. One per output; not thread-safe; no I/O.
// Source: issue 5 item 3, model-facts 6.5 to 6.7, features.md (c) 11, 13 and 14.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "engine/chat/output_delta.hpp"
#include "engine/chat/output_format.hpp"

namespace orcd::engine {

struct parse_options {
  bool tools = true;          ///< false: calls are left in the content (harmony: calls are content)
  bool in_reasoning = false;  ///< the prompt ended with an open <think> (ends_in_reasoning)
};

class output_parser {
 public:
  explicit output_parser(const output_format& format, const parse_options& options = {});
  ~output_parser();
  output_parser(output_parser&&) noexcept;
  output_parser& operator=(output_parser&&) noexcept;

  /// Text in which marks may be spelled.
  [[nodiscard]] output_deltas push(std::string_view text);
  /// A control token that is one of marks_of().
  [[nodiscard]] output_deltas push_mark(std::string_view mark);
  /// The output has ended: what is still held. Once.
  [[nodiscard]] output_deltas finish();

  /// Calls begun so far; at least one makes the finish reason "tool_calls".
  [[nodiscard]] std::uint32_t calls() const noexcept;
  /// What comes next is reasoning, unless it is a mark.
  [[nodiscard]] bool in_reasoning() const noexcept;

 private:
  struct implementation;
  std::unique_ptr<implementation> self_;
};

}  // namespace orcd::engine
