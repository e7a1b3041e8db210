// How the io thread takes its turns with the threads that compute, where processors are few.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>

namespace orcd::app {

/// Asks the kernel to give this thread a processor soon, for short slices (Linux 6.12 and newer). A kernel or
/// a system-call filter that refuses it costs some latency.
void ask_for_short_turns() noexcept;

/// Runs the handlers of `io` until it is stopped. Streams may be computed on the same processor, and the
/// kernel switches between threads only at its tick, every few milliseconds: so this thread yields now and
/// then while it has much to do.
///
/// A handler that runs out of memory may have been the only thing that would continue a stream or a timer,
/// and nobody can say which: `wind_up` is called, again after each further failure, and the streams that
/// still move may finish. Throws std::bad_alloc where `gives_up` holds then, or it never ends; what else a
/// handler throws.
void run_handlers(boost::asio::io_context& io, const std::function<bool()>& gives_up,
                  const std::function<void()>& wind_up);

}  // namespace orcd::app
