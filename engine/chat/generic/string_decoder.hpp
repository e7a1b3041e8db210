// The text of a JSON string as it comes, from behind its opening quote. Not thread-safe. Private to
// generic_reader. Source: RFC 8259.
#pragma once

#include <cstdint>
#include <string>

namespace orcd::engine {

class string_decoder {
 public:
  /// Takes a byte; returns what the text has by it. After the closing quote nothing may follow.
  [[nodiscard]] std::string push(char c);
  /// The output ends within the string: returns what has begun, as it was written.
  [[nodiscard]] std::string finish();
  [[nodiscard]] bool ended() const noexcept { return ended_; }

 private:
  [[nodiscard]] std::string escape();
  [[nodiscard]] std::string code();

  std::string held_;        ///< an escape that is not whole
  std::uint32_t high_ = 0;  ///< the first half of a surrogate pair, whose second half may follow
  bool ended_ = false;
};

}  // namespace orcd::engine
