// A file that appears whole or not at all: written as PATH.tmp, which is given the name PATH when it is on
// the disk. What is left of a killed process is a PATH.tmp, which the next run writes over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "engine/base/error.hpp"
#include "engine/base/file_descriptor.hpp"

namespace orcd::app {

[[nodiscard]] inline std::string temporary_of(const std::string& path) {
  return path + ".tmp";
}

class output_file {
 public:
  /// Begins an empty PATH.tmp. Refused while another process writes it.
  [[nodiscard]] static engine::result<output_file> create(const std::string& path);

  output_file(output_file&& other) noexcept;
  output_file& operator=(output_file&&) = delete;
  /// Removes PATH.tmp unless it was published.
  ~output_file();

  /// The file's size; what nobody writes is zero.
  [[nodiscard]] engine::result<void> resize(std::uint64_t bytes);
  /// Any thread.
  [[nodiscard]] engine::result<void> write_at(std::uint64_t offset, std::span<const std::byte> bytes) const;
  /// Waits until the bytes are on the disk.
  [[nodiscard]] engine::result<void> sync() const;
  /// Gives the file its name, in place of what has it; after sync().
  [[nodiscard]] engine::result<void> publish();

 private:
  explicit output_file(std::string path) : path_(std::move(path)) {}
  [[nodiscard]] engine::error failure(const char* call) const;
  [[nodiscard]] std::string temporary() const { return temporary_of(path_); }

  std::string path_;
  engine::file_descriptor file_;
};

}  // namespace orcd::app
