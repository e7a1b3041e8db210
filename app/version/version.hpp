// Which build this is.
#pragma once

namespace orcd::app {

/// As cmake/version.sh makes it: "0.1.0+690.gd77fcfd1a2b3".
[[nodiscard]] const char* version() noexcept;

}  // namespace orcd::app
