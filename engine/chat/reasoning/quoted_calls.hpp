// What may be calls within reasoning. Reasoning that is never closed may end with calls; in reasoning that is
// closed they are quoted. Only the end tells, so that calls, and nothing beside them, are read as such and
// kept as text too. Not thread-safe. Private to engine/chat.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/chat/output_reader.hpp"

namespace orcd::engine {

class quoted_calls {
 public:
  /// Begins with a mark before calls of this format.
  quoted_calls(const output_format& format, const parse_options& options, std::string_view mark);

  void text(std::string_view text);
  /// Whether the mark was taken; what begins anew where calls have failed is not.
  [[nodiscard]] bool mark(std::string_view mark);
  /// Whether it is clear that there is something else than whole calls of offered functions.
  [[nodiscard]] bool fails() const noexcept;
  /// The model has ended its output: whether what came are whole calls. They are given to `to` then.
  [[nodiscard]] bool end(delta_writer& to);
  /// All that came, as it was written.
  [[nodiscard]] const std::string& raw() const noexcept { return raw_; }
  [[nodiscard]] bool awaits_mark() const noexcept { return reader_->awaits_mark(); }

 private:
  /// The most bytes that are kept.
  static constexpr std::size_t raw_max = 2U << 20U;

  std::unique_ptr<output_reader> reader_;
  std::string raw_;
};

}  // namespace orcd::engine
