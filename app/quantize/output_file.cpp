#include "app/quantize/output_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

namespace orcd::app {

using engine::errc;
using engine::error;
using engine::result;

error output_file::failure(const char* call) const {
  return {errc::model_load_failed, temporary() + ": cannot " + call + ": " + std::strerror(errno)};
}

output_file::output_file(output_file&& other) noexcept
    : path_(std::move(other.path_)), file_(std::move(other.file_)) {}

output_file::~output_file() {
  if (file_) ::unlink(temporary().c_str());
}

result<output_file> output_file::create(const std::string& path) {
  output_file out(path);
  const std::string name = out.temporary();
  engine::file_descriptor file(
      ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0666));
  if (!file) return out.failure("be created");
  struct stat opened {};
  struct stat named {};
  if (::fstat(file.get(), &opened) != 0) return out.failure("be looked at");
  if (!S_ISREG(opened.st_mode)) return error{errc::model_load_failed, name + ": is no regular file"};
  // The lock is gone with the process, however it ends. Its file may have been renamed before it was free.
  const bool locked = ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
  if (!locked && errno != EWOULDBLOCK) return out.failure("be locked");
  if (!locked || ::stat(name.c_str(), &named) != 0 || named.st_ino != opened.st_ino ||
      named.st_dev != opened.st_dev) {
    return error{errc::model_load_failed, name + ": another process writes it"};
  }
  if (::ftruncate(file.get(), 0) != 0) return out.failure("be emptied");
  out.file_ = std::move(file);
  return out;
}

result<void> output_file::resize(std::uint64_t bytes) {
  if (::ftruncate(file_.get(), static_cast<off_t>(bytes)) != 0)
    return failure("be made as long as it must be");
  return {};
}

result<void> output_file::write_at(std::uint64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return failure("be written");
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

result<void> output_file::sync() const {
  if (::fsync(file_.get()) != 0) return failure("be brought to the disk");
  return {};
}

result<void> output_file::publish() {
  if (::rename(temporary().c_str(), path_.c_str()) != 0) return failure("be renamed");
  file_.reset();
  std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  if (folder.empty()) folder = ".";
  const engine::file_descriptor held(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // The name is on the disk when the folder is; a file system that cannot say so has said nothing wrong.
  if (held && ::fsync(held.get()) != 0 && errno != EINVAL && errno != EROFS) return failure("keep its name");
  return {};
}

}  // namespace orcd::app
