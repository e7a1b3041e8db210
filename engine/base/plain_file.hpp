// Files that somebody named, opened where they are plain files and refused where they are anything else: to
// open a pipe or to read a terminal holds the reader for as long as nobody writes there, and a device may
// give bytes without end. Links are followed. Any thread.
#pragma once

#include <cstddef>
#include <string>

#include "engine/base/error.hpp"
#include "engine/base/file_descriptor.hpp"

namespace orcd::engine {

// Errors of all four have the code invalid_request, and a message that goes on behind the file's name, which
// the caller knows: "is a pipe; it must be a plain file".

/// Opens a file for reading, without waiting for anybody who writes to it.
[[nodiscard]] result<file_descriptor> open_plain_file(const std::string& path);

/// What another call has opened, if that is a plain file or a memory file. A negative number: it failed, and
/// errno says why.
[[nodiscard]] result<file_descriptor> plain_file_of(int opened);

/// The first `most` bytes of a file, or all of one that has fewer.
[[nodiscard]] result<std::string> read_beginning(const std::string& path, std::size_t most);

/// A whole file of at most `bytes_max` bytes.
[[nodiscard]] result<std::string> read_plain_file(const std::string& path, std::size_t bytes_max);

}  // namespace orcd::engine
