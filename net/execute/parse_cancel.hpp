// The body of POST /cancel: {"job_id": "..."} and nothing else. Source: M0-W-1330, WORK-3044.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/error.hpp"

namespace orcd::net {

/// The job to cancel. Errors: invalid_request naming the field.
[[nodiscard]] engine::result<std::string> parse_cancel(std::string_view body);

/// POST /shutdown takes an empty body or an object without fields (M0-W-1340).
[[nodiscard]] engine::result<void> parse_shutdown(std::string_view body);

}  // namespace orcd::net
