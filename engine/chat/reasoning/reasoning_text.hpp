// Passes on reasoning without the label that some formats write behind its opening mark. Not thread-safe.
// Private to engine/chat.
#pragma once

#include <string>
#include <string_view>

#include "engine/chat/delta_writer.hpp"
#include "engine/chat/output_format.hpp"

namespace orcd::engine {

class reasoning_text {
 public:
  explicit reasoning_text(const reasoning_syntax& marks) : label_(marks.label) {}

  /// Reasoning begins with what comes.
  void begin();
  void text(std::string_view text, delta_writer& out);
  /// Whether nothing of it has come but white space, so that another opening mark says nothing.
  [[nodiscard]] bool is_fresh() const noexcept { return awaits_label_ && held_.empty(); }
  /// It ends, or something else comes within it. A label that was begun where the output was cut is dropped.
  void end(bool cut, delta_writer& out);

 private:
  std::string_view label_;
  bool awaits_label_ = false;
  std::string held_;  ///< what may be the label
};

}  // namespace orcd::engine
