// The decoder: a small process beside the worker, without threads, that makes a child for each picture or
// sound. It holds one socket, on which the worker sends the ends of two pipes (decoder_protocol.hpp), and
// ends with it.
#pragma once

namespace orcd::app {

/// Serves orders until the other end of `socket` is closed. Returns the exit code.
[[nodiscard]] int run_decoder(int socket) noexcept;

}  // namespace orcd::app
