// Cuts what a pipe brings into lines. Pure; its memory is bounded by the longest line that is asked for.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"

namespace orcd::app {

class line_buffer {
 public:
  void add(std::string_view bytes);
  /// No more will come: what is left is a line, too.
  void close() noexcept { closed_ = true; }
  [[nodiscard]] bool closed() const noexcept { return closed_; }

  /// The next line, without its end; nullopt where it is not there yet, or nothing is left. The view is valid
  /// until the next call. Errors: a line of more than `most` bytes, as soon as so many are there; `field` is
  /// what the line is said to be.
  [[nodiscard]] engine::result<std::optional<std::string_view>> next(std::string_view field,
                                                                     std::size_t most);

 private:
  std::string bytes_;
  std::size_t at_ = 0;        ///< of what was not taken
  std::size_t searched_ = 0;  ///< up to here there is no line end
  bool closed_ = false;
};

}  // namespace orcd::app
