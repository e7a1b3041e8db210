// Preloaded into a worker by tests of files of a host that is gone, which hold whoever opens them: an open of
// FILE waits while there is a pipe FILE.held that nobody has opened for writing. The file is the one that was
// there when the wait began, whatever has its name when it ends.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>

namespace {

using open_function = int (*)(const char*, int, ...);

int open_and_wait(const char* path, int flags, mode_t mode) {
  static const auto next = reinterpret_cast<open_function>(::dlsym(RTLD_NEXT, "open"));
  const int opened = next(path, flags, mode);
  const int code = errno;
  std::array<char, 4096> pipe{};
  const int length = std::snprintf(pipe.data(), pipe.size(), "%s.held", path);
  struct stat facts {};
  if (opened >= 0 && length > 0 && static_cast<std::size_t>(length) < pipe.size() &&
      ::stat(pipe.data(), &facts) == 0 && S_ISFIFO(facts.st_mode)) {
    const int waited = next(pipe.data(), O_RDONLY | O_CLOEXEC);
    if (waited >= 0) ::close(waited);
  }
  errno = code;
  return opened;
}

mode_t mode_of(int flags, va_list more) {
  const bool makes = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return makes ? va_arg(more, mode_t) : 0;
}

}  // namespace

extern "C" int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const int opened = open_and_wait(path, flags, mode_of(flags, more));
  va_end(more);
  return opened;
}

extern "C" int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const int opened = open_and_wait(path, flags, mode_of(flags, more));
  va_end(more);
  return opened;
}
