// The API keys that hold now, for all threads that judge requests: SIGHUP replaces them while requests come.
// Copies share them. Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "net/http/api_keys.hpp"

namespace orcd::net {

class current_keys {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): keys that are never replaced are given as they are.
  current_keys(api_keys keys = {}) : shared_(std::make_shared<shared>()) { replace(std::move(keys)); }

  /// Never null; it stays as it is when others replace it.
  [[nodiscard]] std::shared_ptr<const api_keys> get() const {
    const std::lock_guard held(shared_->mutex);
    return shared_->keys;
  }
  void replace(api_keys keys) {
    auto made = std::make_shared<const api_keys>(std::move(keys));
    const std::lock_guard held(shared_->mutex);
    shared_->keys = std::move(made);
  }

 private:
  struct shared {
    std::mutex mutex;
    std::shared_ptr<const api_keys> keys;
  };
  std::shared_ptr<shared> shared_;
};

}  // namespace orcd::net
