#include "gpu/memory/arena_mapping.hpp"

#include <utility>

namespace orcd::gpu {

// Delegating constructors: from here on the object counts as constructed, so that its destructor undoes what
// was done.
arena_mapping::arena_mapping(arena_driver& driver, std::uint64_t bytes) : arena_mapping() {
  driver_ = &driver;
  bytes_ = bytes;
  handle_ = driver.create(bytes);
  place(arena_access::read_write);
  driver.zero(address_, bytes);
}

arena_mapping::arena_mapping(arena_driver& driver, int fd, std::uint64_t bytes, arena_access access)
    : arena_mapping() {
  driver_ = &driver;
  bytes_ = bytes;
  handle_ = driver.import_fd(fd, bytes, access);
  place(access);
}

void arena_mapping::place(arena_access access) {
  created_ = true;
  address_ = driver_->reserve(bytes_);
  driver_->map(address_, bytes_, handle_);
  mapped_ = true;
  driver_->open(address_, bytes_, access);
}

void arena_mapping::freeze() {
  driver_->seal(handle_);
  driver_->open(address_, bytes_, arena_access::read);
}

void arena_mapping::drop() noexcept {
  if (std::exchange(mapped_, false)) driver_->unmap(address_, bytes_);
  if (std::exchange(created_, false)) driver_->release(handle_);
}

void arena_mapping::map_again(int fd) {
  handle_ = driver_->import_fd(fd, bytes_, arena_access::read);
  created_ = true;
  try {
    driver_->map(address_, bytes_, handle_);
    mapped_ = true;
    driver_->open(address_, bytes_, arena_access::read);
  } catch (...) {
    drop();
    throw;
  }
}

arena_mapping::~arena_mapping() {
  if (mapped_) driver_->unmap(address_, bytes_);
  if (address_ != 0) driver_->give_back(address_, bytes_);
  if (created_) driver_->release(handle_);
}

void arena_mapping::swap(arena_mapping& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(bytes_, other.bytes_);
  std::swap(handle_, other.handle_);
  std::swap(address_, other.address_);
  std::swap(created_, other.created_);
  std::swap(mapped_, other.mapped_);
}

}  // namespace orcd::gpu
