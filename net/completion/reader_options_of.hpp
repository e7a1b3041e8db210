// How the output of a request is to be separated into its parts. Pure. Private to net/.
#pragma once

#include "engine/chat/output_frame.hpp"
#include "net/completion/completion_request.hpp"
#include "net/completion/message_reader.hpp"

namespace orcd::net {

/// Calls are read only where there are tools, but Harmony's framing always has to be read. `frame`: of the
/// output that follows the request's prompt.
[[nodiscard]] reader_options reader_options_of(const completion_request& asked,
                                               const engine::output_frame& frame);

}  // namespace orcd::net
