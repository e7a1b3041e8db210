#include "engine/gguf/file_watch.hpp"

#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <string>

namespace orcd::engine {
namespace {

std::int64_t nanoseconds(const timespec& time) noexcept {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

file_stamp stamp_of(int descriptor) noexcept {
  struct stat info {};
  if (fstat(descriptor, &info) != 0) return {};
  return {.bytes = static_cast<std::uint64_t>(info.st_size),
          .modified_ns = nanoseconds(info.st_mtim),
          .changed_ns = nanoseconds(info.st_ctim),
          .links = info.st_nlink,
          .mode = info.st_mode,
          .owner = info.st_uid,
          .group = info.st_gid,
          .device = info.st_dev,
          .inode = info.st_ino};
}

void wait_for_next_stamp(const file_stamp& stamp) noexcept {
  constexpr int tries_max = 20;  // the clock of a network file system's server may be ahead
  for (int i = 0; i < tries_max; ++i) {
    timespec now{};
    if (clock_gettime(CLOCK_REALTIME_COARSE, &now) != 0 || nanoseconds(now) > stamp.changed_ns) return;
    constexpr timespec pause{0, 1'000'000};
    nanosleep(&pause, nullptr);
  }
}

file_watch::file_watch() : inotify_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {}

file_watch::~file_watch() {
  if (inotify_ >= 0) close(inotify_);
}

void file_watch::add(int descriptor, const file_stamp& opened) {
  const std::lock_guard lock(mutex_);
  file added{.descriptor = descriptor, .last = opened};
  if (inotify_ >= 0) {
    // By descriptor, because the name may be another file's by now.
    const auto path = "/proc/self/fd/" + std::to_string(descriptor);
    added.watch = inotify_add_watch(inotify_, path.c_str(), IN_MODIFY | IN_MOVE_SELF);
  }
  files_.push_back(added);
  seen_.resize(files_.size());
}

void file_watch::read_events() noexcept {
  alignas(inotify_event) std::array<char, 4096> buffer{};
  while (inotify_ >= 0) {
    const auto bytes = ::read(inotify_, buffer.data(), buffer.size());
    if (bytes <= 0) return;
    for (const char* at = buffer.data(); at < buffer.data() + bytes;) {
      inotify_event event{};
      std::memcpy(&event, at, sizeof event);
      at += sizeof event + event.len;
      for (std::size_t i = 0; i < files_.size(); ++i) {
        const bool lost = (event.mask & IN_Q_OVERFLOW) != 0;  // a lost event may have been a write
        if (!lost && event.wd != files_[i].watch) continue;
        seen_[i].written |= lost || (event.mask & IN_MODIFY) != 0;
        seen_[i].moved |= (event.mask & IN_MOVE_SELF) != 0;
      }
    }
  }
}

// The stamps are read before the events, so that the event that explains a new stamp is in the queue by then.
std::optional<std::size_t> file_watch::first_written() noexcept {
  const std::lock_guard lock(mutex_);
  std::fill(seen_.begin(), seen_.end(), file_events{});
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    file& f = files_[i];
    const file_stamp now = stamp_of(f.descriptor);
    read_events();
    if (may_have_been_written(f.last, now, seen_[i])) {
      // A move changes the stamp some microseconds before its event is queued.
      constexpr timespec pause{0, 2'000'000};
      nanosleep(&pause, nullptr);
      read_events();
      f.written = f.written || may_have_been_written(f.last, now, seen_[i]);
    }
    f.last = now;
    if (f.written && !first) first = i;
  }
  return first;
}

}  // namespace orcd::engine
