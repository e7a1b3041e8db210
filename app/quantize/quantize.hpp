// trillim-quantize: its commands over streams, so that tests can call them.
#pragma once

#include <iosfwd>
#include <span>
#include <string_view>

namespace orcd::app {

/// Parses the arguments and does what they ask. `err` gets one line about a failure, and how far the work is
/// if it is a `terminal`. Returns the exit status: 0 done, 1 a file is wrong or cannot be written, 2 wrong
/// usage.
int run_quantize(std::span<const std::string_view> words, std::ostream& out, std::ostream& err,
                 bool terminal);

}  // namespace orcd::app
