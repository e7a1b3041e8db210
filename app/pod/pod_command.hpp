// worker-orcd-pod: its commands over streams, so that tests can call them.
#pragma once

#include <iosfwd>
#include <span>
#include <string_view>

namespace orcd::app {

/// `generate SPEC` writes the manifest to `out`, `validate SPEC` nothing; SPEC is a path, or - for `in`. What
/// is wrong goes to `err`, a line each. Returns the exit status: 0 done, 1 the SPEC is wrong, 2 wrong usage
/// or a file that cannot be read.
int run_pod_command(std::span<const std::string_view> words, std::istream& in, std::ostream& out,
                    std::ostream& err);

}  // namespace orcd::app
