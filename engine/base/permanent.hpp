// Errors of a start that only other options cure.
#pragma once

#include "engine/base/error.hpp"

namespace orcd::engine {

/// The same error, of something that can never succeed as it was asked for.
[[nodiscard]] inline error made_permanent(error e) noexcept {
  e.permanent = true;
  return e;
}

}  // namespace orcd::engine
