// Decodes pictures and sounds by worker-orcd-decoder, a process of its own beside the worker's program. It is
// started before the device is, and again when it has ended. What it says is checked like a stranger's.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "app/decoder/decoder_protocol.hpp"
#include "engine/base/file_descriptor.hpp"
#include "engine/media/image_header.hpp"
#include "engine/media/media_decoder.hpp"

namespace orcd::app {

class decoder_process final : public engine::media_decoder {
 public:
  /// `program`: its path.
  explicit decoder_process(std::string program) : program_(std::move(program)) {}
  ~decoder_process() override;
  /// Errors: worker_start_failed.
  [[nodiscard]] engine::result<void> start();
  [[nodiscard]] engine::result<engine::picture> decode(std::span<const std::byte> file,
                                                       std::uint64_t pixels_max) override;
  [[nodiscard]] engine::result<engine::sound> decode_sound(std::span<const std::byte> file,
                                                           std::uint32_t seconds_max) override;
  [[nodiscard]] engine::decoder_counts counts() const noexcept override;
  /// Beside the program that runs.
  [[nodiscard]] static std::string usual_program();
  /// Of the process, for tests; -1: there is none.
  [[nodiscard]] int process() const noexcept;

 private:
  struct pipes;
  [[nodiscard]] engine::result<void> start_locked();
  void end_locked() noexcept;
  [[nodiscard]] engine::result<pipes> order(decode_order what);
  /// `read` takes what follows the head of an answer that is no refusal.
  template <class T, class Read>
  [[nodiscard]] engine::result<T> run(const decode_order& what, std::span<const std::byte> file,
                                      engine::decoded_files engine::decoder_counts::*kind, decode_time time,
                                      const Read& read);

  const std::string program_;
  mutable std::mutex mutex_;  ///< of everything below; never held while a file is decoded
  engine::file_descriptor socket_;
  int process_ = -1;
  engine::decoder_counts counts_;
};

}  // namespace orcd::app
