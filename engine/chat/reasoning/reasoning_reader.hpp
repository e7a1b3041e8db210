// Reads reasoning between marks: its text, and calls at the end of one that is never closed. Not thread-safe.
// Private to engine/chat.
#pragma once

#include <memory>
#include <string_view>

#include "engine/chat/argument_types.hpp"
#include "engine/chat/reasoning/quoted_calls.hpp"
#include "engine/chat/reasoning/reasoning_text.hpp"

namespace orcd::engine {

class reasoning_reader {
 public:
  reasoning_reader(const output_format& format, std::shared_ptr<const argument_types> types)
      : format_(format), marks_(reasoning_marks(format)), types_(std::move(types)), text_(marks_) {}

  /// Reasoning begins with what comes.
  void begin(delta_writer& out);
  void text(std::string_view text, delta_writer& out);
  /// `calls`: the mark begins calls, which are read. Whether reasoning has ended with it.
  [[nodiscard]] bool mark(std::string_view mark, bool calls, delta_writer& out);
  /// The output has ended: whether it was with calls, which are given to `out`.
  [[nodiscard]] bool end(output_end how, delta_writer& out);

  [[nodiscard]] const reasoning_syntax& marks() const noexcept { return marks_; }
  /// Whether nothing of it has come, so that another opening mark says nothing.
  [[nodiscard]] bool is_fresh() const noexcept { return text_.is_fresh(); }
  /// Whether what came last may be calls.
  [[nodiscard]] bool quotes() const noexcept { return quoted_ != nullptr; }
  [[nodiscard]] bool awaits_mark() const noexcept { return quoted_ && quoted_->awaits_mark(); }

 private:
  /// What was read as calls is reasoning.
  void unquote(delta_writer& out);

  output_format format_;
  reasoning_syntax marks_;
  std::shared_ptr<const argument_types> types_;
  reasoning_text text_;
  std::unique_ptr<quoted_calls> quoted_;  ///< behind what begins a call
};

}  // namespace orcd::engine
