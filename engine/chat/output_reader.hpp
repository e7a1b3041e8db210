// The readers of output formats: one for tagged formats, one for Harmony, one for the generic form. Private
// to output_parser.
#pragma once

#include <memory>
#include <string_view>

#include "engine/chat/delta_writer.hpp"
#include "engine/chat/output_format.hpp"

namespace orcd::engine {

class output_reader {
 public:
  virtual ~output_reader() = default;
  virtual void text(std::string_view text) = 0;
  virtual void mark(std::string_view mark) = 0;
  virtual void end(output_end how) = 0;
  [[nodiscard]] virtual bool in_reasoning() const noexcept = 0;
  /// Whether only a mark can come next, or a further call was begun: the beginning of a mark at the end of
  /// the output is not text then.
  [[nodiscard]] virtual bool awaits_mark() const noexcept = 0;
  /// Whether a mark that begins so would be read as one here.
  [[nodiscard]] virtual bool may_take(std::string_view beginning) const = 0;
  /// Whether the answer has ended: what comes is none of it.
  [[nodiscard]] virtual bool over() const noexcept { return false; }
  /// Whether what comes is part of a text in which a mark is none.
  [[nodiscard]] virtual bool in_text() const noexcept { return false; }
  /// Whether there was nothing so far but calls, and none of them was left unfinished.
  [[nodiscard]] virtual bool calls_alone() const noexcept { return !out.has_content(); }

  delta_writer out;
};

/// All formats but harmony, with or without reasoning. `offered_only`: a function that is not offered is not
/// called, whatever marks stand around it.
[[nodiscard]] std::unique_ptr<output_reader> make_tagged_reader(const output_format& format,
                                                                const parse_options& options,
                                                                bool offered_only = false);
[[nodiscard]] std::unique_ptr<output_reader> make_harmony_reader(const parse_options& options);
/// The generic form, with or without reasoning.
[[nodiscard]] std::unique_ptr<output_reader> make_generic_reader(const output_format& format,
                                                                 const parse_options& options);

}  // namespace orcd::engine
