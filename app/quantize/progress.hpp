// How far a conversion is, on one line of a terminal; nothing elsewhere.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <ostream>

namespace orcd::app {

class progress {
 public:
  /// `out` is null where there is no terminal.
  progress(std::ostream* out, std::uint64_t total) : out_(out), total_(std::max<std::uint64_t>(1, total)) {}
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;
  ~progress() {
    if (out_ != nullptr && shown_ > 0) *out_ << "\r                            \r" << std::flush;
  }

  /// Any thread.
  void add(std::uint64_t bytes) {
    if (out_ == nullptr) return;
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    const auto percent = static_cast<int>(static_cast<double>(done_) * 100.0 / static_cast<double>(total_));
    if (percent <= shown_) return;
    shown_ = percent;
    *out_ << "\rtrillim-quantize: " << percent << " %" << std::flush;
  }

 private:
  std::ostream* out_;
  std::uint64_t total_;
  std::mutex mutex_;
  std::uint64_t done_ = 0;
  int shown_ = 0;
};

}  // namespace orcd::app
