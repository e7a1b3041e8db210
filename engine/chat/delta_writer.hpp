// Collects deltas: joins neighbours of a kind, and drops white space next to the marks between reasoning,
// calls and content. White space is held until the text after it is known. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "engine/chat/output_delta.hpp"

namespace orcd::engine {

class delta_writer {
 public:
  void content(std::string_view text) { write(content_, output_delta::kind::content, text); }
  void reasoning(std::string_view text) { write(reasoning_, output_delta::kind::reasoning, text); }
  void begin_call(std::string name);
  void arguments(std::string_view text);
  /// Notes a mark: white space before and after it is not content.
  void boundary();
  /// Sends the white space that is held.
  void finish();

  [[nodiscard]] std::uint32_t calls() const noexcept { return calls_; }
  /// Whether content beyond white space was written.
  [[nodiscard]] bool has_content() const noexcept { return content_.written; }
  /// Whether there was no content since the last mark.
  [[nodiscard]] bool at_boundary() const noexcept { return content_.after_mark; }
  [[nodiscard]] output_deltas take() { return std::exchange(out_, {}); }

 private:
  struct channel {
    std::string held;         ///< white space at the end
    bool after_mark = false;  ///< nothing but white space since a mark
    bool written = false;
  };
  void write(channel& to, output_delta::kind what, std::string_view text);
  void add(output_delta::kind what, std::string_view text);

  output_deltas out_;
  channel content_, reasoning_;
  std::uint32_t calls_ = 0;
};

}  // namespace orcd::engine
