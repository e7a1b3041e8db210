#include "engine/gguf/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/base/plain_file.hpp"
#include "engine/gguf/bus_guard.hpp"
#include "engine/gguf/file_watch.hpp"

namespace orcd::engine {
namespace {

error open_error(std::string_view name, std::string_view what) {
  return {errc::model_load_failed, std::string(name) + ": " + std::string(what), "model"};
}

error system_error(std::string_view name, std::string_view call, int code) {
  return open_error(name, "cannot " + std::string(call) + ": " + std::strerror(code));
}

result<file_descriptor> open_at(const model_location& location) {
  if (location.where == model_location::kind::path) return open_plain_file(location.name);
  return plain_file_of(shm_open(location.name.c_str(), O_RDONLY, 0));
}

}  // namespace

result<mapped_file> mapped_file::open(const model_location& location, std::string_view name) {
  mapped_file out;
  auto opened = open_at(location);
  if (!opened) return open_error(name, opened.error().message);
  out.descriptor_ = opened->release();
  struct stat info {};
  if (fstat(out.descriptor_, &info) != 0) return system_error(name, "stat", errno);
  if (info.st_size <= 0) return open_error(name, "is empty (0 bytes)");
  const auto size = static_cast<std::size_t>(info.st_size);
  out.stamp_ = stamp_of(out.descriptor_);
  wait_for_next_stamp(out.stamp_);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, out.descriptor_, 0);
  if (data == MAP_FAILED) return system_error(name, "map " + std::to_string(size) + " bytes", errno);
  out.data_ = static_cast<const std::byte*>(data);
  out.size_ = size;
  out.guard_ = bus_guard::watch(out.data_, size);
  if (out.guard_ < 0) {
    return open_error(name, "more than " + std::to_string(bus_guard::capacity) + " model files are mapped");
  }
  return out;
}

mapped_file::mapped_file(mapped_file&& other) noexcept {
  *this = std::move(other);
}

mapped_file& mapped_file::operator=(mapped_file&& other) noexcept {
  if (this == &other) return *this;
  close();
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  descriptor_ = std::exchange(other.descriptor_, -1);
  guard_ = std::exchange(other.guard_, -1);
  stamp_ = other.stamp_;
  return *this;
}

mapped_file::~mapped_file() {
  close();
}

void mapped_file::close() noexcept {
  bus_guard::unwatch(guard_);
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
  if (descriptor_ >= 0) ::close(descriptor_);
  data_ = nullptr;
  size_ = 0;
  descriptor_ = guard_ = -1;
}

bool mapped_file::intact() const noexcept {
  return !bus_guard::damaged(guard_);
}

}  // namespace orcd::engine
