#include "app/options/options.hpp"

namespace orcd::app {

const char* to_string(backend_kind kind) noexcept {
  return kind == backend_kind::host ? "host" : "cuda";
}

}  // namespace orcd::app
