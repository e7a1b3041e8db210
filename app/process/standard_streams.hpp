// Makes sure that standard input, output and error are open: a program may be started with some of them
// closed.
#pragma once

#include <string_view>

namespace orcd::app {

/// Opens /dev/null for each of the three that is closed: otherwise the next file or socket would get its
/// number, and the log would be written into that. To be called before anything is opened. Where /dev/null
/// cannot be opened, as at the limit of descriptors, nothing else could be opened either.
void open_standard_streams() noexcept;

/// One write to standard error, and only where it takes something at once: who reads it may do so when the
/// process has ended.
void write_error_at_once(std::string_view line) noexcept;

}  // namespace orcd::app
