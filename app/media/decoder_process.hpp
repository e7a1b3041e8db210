// Decodes pictures by worker-orcd-decoder, a process of its own beside the worker's program. It is started
// before the device is, and again when it has ended. What it says is checked like a stranger's.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "engine/base/file_descriptor.hpp"
#include "engine/media/image_header.hpp"
#include "engine/media/picture_decoder.hpp"

namespace orcd::app {

class decoder_process final : public engine::picture_decoder {
 public:
  /// `program`: its path.
  explicit decoder_process(std::string program) : program_(std::move(program)) {}
  ~decoder_process() override;
  /// Errors: worker_start_failed.
  [[nodiscard]] engine::result<void> start();
  [[nodiscard]] engine::result<engine::picture> decode(std::span<const std::byte> file,
                                                       std::uint64_t pixels_max) override;
  [[nodiscard]] engine::decoder_counts counts() const noexcept override;
  /// Beside the program that runs.
  [[nodiscard]] static std::string usual_program();
  /// Of the process, for tests; -1: there is none.
  [[nodiscard]] int process() const noexcept;

 private:
  struct pipes;
  [[nodiscard]] engine::result<void> start_locked();
  void end_locked() noexcept;
  [[nodiscard]] engine::result<pipes> order(std::size_t bytes, std::uint64_t pixels_max);
  void count(std::uint64_t engine::decoder_counts::*what) noexcept;

  const std::string program_;
  mutable std::mutex mutex_;  ///< of everything below; never held while a picture is decoded
  engine::file_descriptor socket_;
  int process_ = -1;
  engine::decoder_counts counts_;
};

}  // namespace orcd::app
