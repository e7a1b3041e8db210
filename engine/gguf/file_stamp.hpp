// Judges whether a file in use still has the bytes it had. Pure; file_watch.cpp asks the system.
#pragma once

#include <cstdint>

namespace orcd::engine {

/// What the system reports of a file that may show a change.
struct file_stamp {
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;  ///< of the contents; a writer can set it back
  std::int64_t changed_ns = 0;   ///< of contents, names, mode or owner; cannot be set
  std::uint64_t links = 0;       ///< names of the file
  std::uint32_t mode = 0;
  std::uint32_t owner = 0;
  std::uint32_t group = 0;
  std::uint64_t device = 0;  ///< with `inode` which file it is, whatever its name
  std::uint64_t inode = 0;
};

/// The events of a file since the last look (inotify), where the system reports them.
struct file_events {
  bool written = false;  ///< written to or cut
  bool moved = false;    ///< has another name now
};

/// True when the bytes may differ. A file that got another name, mode or owner, or was replaced by another
/// one of its name, still has its bytes. A change of the stamp that none of this explains is taken for a
/// write whose time was set back.
[[nodiscard]] constexpr bool may_have_been_written(const file_stamp& before, const file_stamp& now,
                                                   file_events seen) noexcept {
  if (seen.written || now.bytes != before.bytes || now.modified_ns != before.modified_ns) return true;
  if (now.changed_ns == before.changed_ns) return false;
  const bool explained = seen.moved || now.links != before.links || now.mode != before.mode ||
                         now.owner != before.owner || now.group != before.group;
  return !explained;
}

}  // namespace orcd::engine
