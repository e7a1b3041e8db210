// The worker's log: engine::narrator on Boost.Log. narrate() copies the event into a bounded queue and
// returns; one thread of the log formats and writes. When the queue is full the event is dropped and
// counted, and the log says so itself. Lines go to standard error: standard output belongs to --help
// and --version, and systemd and containers collect both. Source: M0-W-1900, WORK-3080..3082.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "app/process/narration_format.hpp"

namespace orcd::app {

struct narration_config {
  log_format format = log_format::json;
  engine::severity least = engine::severity::info;
  int descriptor = 2;           ///< written to, never closed
  bool colour = false;          ///< console format only
  bool journal_prefix = false;  ///< "<N>" before each line, which journald turns into PRIORITY=N
};

class log_narrator final : public engine::narrator {
 public:
  log_narrator(narration_config config, narration_context context);
  /// Writes what is queued and ends the log's thread.
  ~log_narrator() override;
  log_narrator(const log_narrator&) = delete;
  log_narrator& operator=(const log_narrator&) = delete;

  void narrate(engine::severity level, std::string_view event, std::string_view human,
               std::initializer_list<engine::narration_field> fields = {}) noexcept override;
  /// The index that lines carry from now on: --gpu-device may name a UUID, whose index is known only
  /// when the GPU is open.
  void set_gpu_device(std::int64_t index) noexcept;
  /// Sets the least severity that is written. Any thread.
  void set_least(engine::severity least) noexcept;
  /// Waits until everything narrated so far is written.
  void flush() noexcept;
  /// Events lost to a full queue.
  [[nodiscard]] std::uint64_t dropped() const noexcept;

  /// Events that may wait to be written.
  static constexpr std::size_t queue_max = 4'096;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

/// A log of what is at least as severe as `least`: colour on a terminal only, the prefix only when standard
/// error is the journal, as systemd's JOURNAL_STREAM ("device:inode"; empty: not set) says.
[[nodiscard]] narration_config make_narration_config(log_format format, engine::severity least,
                                                     std::string_view journal_stream);

}  // namespace orcd::app
