// Stop strings over a text stream: the stop text is never emitted, and no more than the longest
// possible beginning of one is held back. Not thread-safe; one per stream.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace orcd::engine {

class stop_matcher {
 public:
  /// Empty stop strings are not allowed (request validation refuses them).
  explicit stop_matcher(std::vector<std::string> stops);

  struct output {
    std::string text;      ///< safe to emit now
    bool stopped = false;  ///< a stop string was completed; nothing more will come
  };
  [[nodiscard]] output push(std::string_view text);
  /// The held-back text at the end of the stream.
  [[nodiscard]] std::string finish();

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace orcd::engine
