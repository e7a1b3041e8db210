#include "engine/base/plain_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>

namespace orcd::engine {
namespace {

error wrong(std::string what) {
  return {errc::invalid_request, std::move(what)};
}

error failed(std::string_view call, int code) {
  return wrong("cannot be " + std::string(call) + ": " + std::generic_category().message(code));
}

std::string_view kind_of(mode_t mode) noexcept {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "something else";
}

/// How many bytes to expect. Files of /proc say 0 and have some all the same.
std::size_t size_told(int descriptor) noexcept {
  struct stat facts {};
  return ::fstat(descriptor, &facts) == 0 && facts.st_size > 0 ? static_cast<std::size_t>(facts.st_size) : 0;
}

result<std::string> read_from(const file_descriptor& file, std::size_t most) {
  constexpr std::size_t block = 1U << 16U;
  std::string text;
  // With room for one byte more, so that the end is met without another block.
  text.resize(std::min(most, size_told(file.get()) + 1));
  std::size_t used = 0;
  while (used < most) {
    if (used == text.size()) text.resize(std::min(most, used + block));
    const ssize_t count = ::read(file.get(), text.data() + used, text.size() - used);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed("read", errno);
    if (count == 0) break;
    used += static_cast<std::size_t>(count);
  }
  text.resize(used);
  return text;
}

error larger_than(std::size_t bytes_max) {
  return wrong("is larger than the limit of " + std::to_string(bytes_max) + " bytes");
}

}  // namespace

result<file_descriptor> plain_file_of(int opened) {
  if (opened < 0) return failed("opened", errno);
  file_descriptor held(opened);
  struct stat facts {};
  if (::fstat(opened, &facts) != 0) return failed("looked at", errno);
  if (S_ISREG(facts.st_mode)) return held;
  return wrong("is " + std::string(kind_of(facts.st_mode)) + "; it must be a plain file");
}

result<file_descriptor> open_plain_file(const std::string& path) {
  // O_NONBLOCK: to open a pipe must not wait for its writer. On a plain file it has no effect.
  return plain_file_of(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
}

result<std::string> read_beginning(const std::string& path, std::size_t most) {
  const auto file = open_plain_file(path);
  if (!file) return file.error();
  return read_from(*file, most);
}

result<std::string> read_plain_file(const std::string& path, std::size_t bytes_max) {
  const auto file = open_plain_file(path);
  if (!file) return file.error();
  if (size_told(file->get()) > bytes_max) return larger_than(bytes_max);
  auto text = read_from(*file, bytes_max + 1);
  if (text && text->size() > bytes_max) return larger_than(bytes_max);
  return text;
}

}  // namespace orcd::engine
