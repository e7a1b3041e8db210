// Base64 (RFC 4648, with padding) of bytes. Pure. Private to net/.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace orcd::net {

void append_base64(std::string& out, std::string_view bytes);

/// Nothing where `text` is no base64.
[[nodiscard]] std::optional<std::string> decode_base64(std::string_view text);

}  // namespace orcd::net
