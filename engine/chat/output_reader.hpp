// The readers of output formats: one for tagged formats, one for Harmony. Private to output_parser.
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
  virtual void end() = 0;
  [[nodiscard]] virtual bool in_reasoning() const noexcept = 0;
  /// Whether only a mark can come next, or a further call was begun: an output that ends with the beginning
  /// of a mark was cut there, and that beginning is not text.
  [[nodiscard]] virtual bool awaits_mark() const noexcept = 0;

  delta_writer out;
};

/// All formats but harmony, with or without reasoning.
[[nodiscard]] std::unique_ptr<output_reader> make_tagged_reader(const output_format& format,
                                                                const parse_options& options);
[[nodiscard]] std::unique_ptr<output_reader> make_harmony_reader(const parse_options& options);

}  // namespace orcd::engine
