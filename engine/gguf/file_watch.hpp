// Files in use, and whether they were written to since they were opened. The size and times that the system
// keeps for a file are compared, and inotify tells a write whose time was set back from a mere move. Without
// inotify a move looks like a write.
//
// A write changes the times before the bytes, and its event is queued before the system call returns: a look
// that finds nothing means that no write had ended by then, and that none had begun, except one whose time
// was set back. Not noticed: stores through a shared mapping that was written through before the file was
// opened.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/gguf/file_stamp.hpp"

namespace orcd::engine {

/// The stamp of an open file; all zero when the system does not report it.
[[nodiscard]] file_stamp stamp_of(int descriptor) noexcept;
/// Waits until a write would give the file another time than it has now, some milliseconds: the system's
/// stamps are as coarse as its timer.
void wait_for_next_stamp(const file_stamp& stamp) noexcept;

class file_watch {
 public:
  file_watch();
  ~file_watch();
  file_watch(const file_watch&) = delete;
  file_watch& operator=(const file_watch&) = delete;

  /// `descriptor` stays open as long as this object; `opened` is its stamp from before it was first read.
  void add(int descriptor, const file_stamp& opened);
  /// The first file, in the order of add(), that may have been written to; once found it is returned for
  /// good. Any thread; one system call, and one more for each file.
  [[nodiscard]] std::optional<std::size_t> first_written() noexcept;

 private:
  struct file {
    int descriptor = -1;
    int watch = -1;
    file_stamp last;
    bool written = false;
  };
  void read_events() noexcept;

  std::mutex mutex_;  ///< held for a few system calls that do not wait
  int inotify_ = -1;
  std::vector<file> files_;
  std::vector<file_events> seen_;  ///< by file, since the last look
};

}  // namespace orcd::engine
