// Who may use the worker: keys that a request shows as "Authorization: Bearer KEY". Only their SHA-256 is
// kept, and a comparison takes the same time whatever is shown (CVE-2025-59425). Any thread, once made.
// Source: issue 5, reliability 3.1.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"

namespace orcd::net {

class api_keys {
 public:
  static constexpr std::size_t count_max = 1'024;
  static constexpr std::size_t bytes_max = 512;

  /// No keys: everybody may.
  api_keys() = default;

  /// One key a line; blank lines and lines that begin with # are skipped. Errors (invalid_request) name the
  /// line, never the key: no key at all, too many, too long, characters beyond printable ASCII.
  [[nodiscard]] static engine::result<api_keys> parse(std::string_view text);

  [[nodiscard]] bool empty() const noexcept { return digests_.empty(); }
  /// Whether the value of an Authorization header shows one of the keys; always, if there are none.
  [[nodiscard]] bool accepts(std::string_view authorization) const;

 private:
  std::vector<std::string> digests_;  ///< hexadecimal
};

}  // namespace orcd::net
