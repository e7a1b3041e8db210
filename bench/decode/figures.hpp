// Figures of a run as one flat JSON object, in the order in which they were added.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace orcd::bench {

class figures {
 public:
  /// Six significant digits; a value that is not finite is written as null.
  void add(std::string key, double value);
  void add(std::string key, std::uint64_t value);
  void add(std::string key, bool value);
  void add(std::string key, std::string_view text);
  void add(std::string key, const char* text) { add(std::move(key), std::string_view(text)); }

  /// Throws runtime_error when the file cannot be written whole.
  void write(const std::string& path) const;

 private:
  std::vector<std::pair<std::string, std::string>> entries_;  ///< key, JSON value
};

}  // namespace orcd::bench
