// The UTF-8 boundary buffer: token bytes in, whole code points out. Invalid sequences become U+FFFD, one per
// maximal subpart (Unicode 15, section 3.9). Not thread-safe; one per stream.
#pragma once

#include <string>
#include <string_view>

namespace orcd::engine {

class utf8_buffer {
 public:
  /// Appends `bytes` and returns all text that is complete. At most 3 bytes are ever held back.
  [[nodiscard]] std::string push(std::string_view bytes);
  /// What is left at the end of the stream: empty, or U+FFFD for an unfinished sequence.
  [[nodiscard]] std::string finish();
  [[nodiscard]] bool empty() const noexcept { return pending_.empty(); }

 private:
  std::string pending_;
};

/// All of `bytes`, with what is not UTF-8 replaced as above.
[[nodiscard]] std::string valid_utf8(std::string_view bytes);

}  // namespace orcd::engine
