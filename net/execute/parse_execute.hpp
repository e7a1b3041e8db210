// The body of POST /execute: bytes to a validated request. Pure, no socket, no tokenizer; about 1.5 ns per
// byte, 50 us for 32 KiB (bench/parse_execute.cpp). Source: M0-W-1300, 1302, 1603, WORK-3040, 3071, 3120.
#pragma once

#include <string_view>

#include "engine/base/error.hpp"
#include "net/execute/execute_request.hpp"
#include "net/limits.hpp"

namespace orcd::net {

/// Errors: invalid_request naming the field, the limit and the value. A field that is null counts as
/// absent, except job_id and prompt; unknown and repeated fields are refused.
[[nodiscard]] engine::result<execute_request> parse_execute(std::string_view body,
                                                            const request_limits& limits);

}  // namespace orcd::net
