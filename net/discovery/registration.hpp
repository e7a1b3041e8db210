// How a serving worker comes to stand in etcd and stays there, as decisions: what to ask for next, and what
// an answer means. No socket, no clock of its own. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace orcd::net {

struct registration_times {
  std::chrono::milliseconds ttl{10'000};        ///< of the lease: how long a dead worker stays listed
  std::chrono::milliseconds keep_every{3'000};  ///< the lease is kept alive and the key looked at this often
  std::chrono::milliseconds retry_first{200};   ///< after a failure; doubled after each further one
  std::chrono::milliseconds retry_max{5'000};
};

/// What stands at the worker's key.
struct registered_entry {
  std::uint64_t epoch = 0;        ///< of its value; 0 where the value says none
  std::int64_t lease = 0;         ///< 0: none
  std::int64_t mod_revision = 0;  ///< 0: nothing stands there
};

enum class registration_step {
  grant,  ///< ask for a lease
  read,   ///< read the key
  put,    ///< write the key, if it is what was read
  keep,   ///< keep the lease alive
  wait,   ///< nothing before `due()`
};

/// The epoch of a registration is the revision of the store when the worker first looked, or more than what
/// stood there: each successor's is higher than that of whom it replaces, even where the key has expired
/// meanwhile. A worker that finds a higher epoch than its own has been succeeded, and leaves the key alone
/// as long as it stands.
class registration {
 public:
  using time = std::chrono::steady_clock::time_point;

  explicit registration(registration_times times) : times_(times), delay_(times.retry_first) {}

  /// What to do now.
  [[nodiscard]] registration_step next(time now) const;
  [[nodiscard]] time due() const noexcept { return due_; }

  // Answers, in the order of the steps; `now` is when they were asked for, so that a slow store lengthens no
  // lease.
  void on_granted(std::int64_t lease, std::chrono::milliseconds ttl, time now);
  void on_read(const registered_entry& found, std::int64_t revision, time now);
  /// `written`: the key was as it had been read.
  void on_put(bool written, time now);
  /// `ttl` is nullopt where the store does not know the lease any more.
  void on_kept(std::optional<std::chrono::milliseconds> ttl, time now);
  /// No answer, or one that makes no sense. A put that is refused loses the lease, which may be why.
  void on_failure(registration_step what, time now);

  /// The key is this worker's, as far as the store has said within the time of the lease.
  [[nodiscard]] bool registered(time now) const { return mine_ && now < lease_end_; }
  [[nodiscard]] time lease_end() const noexcept { return lease_end_; }
  /// Another worker has taken the key since.
  [[nodiscard]] bool superseded() const noexcept { return superseded_; }
  [[nodiscard]] std::int64_t lease() const noexcept { return lease_; }
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }
  /// The revision of the key that is to be replaced; 0: there is none.
  [[nodiscard]] std::int64_t replaces() const noexcept { return replaces_; }

 private:
  void succeed() { delay_ = times_.retry_first; }
  void put_off(time now);
  void look_again(time now);
  [[nodiscard]] bool is_mine(const registered_entry& found) const {
    return epoch_ != 0 && found.epoch == epoch_ && found.lease == lease_;
  }

  registration_times times_;
  registration_step now_ = registration_step::grant;
  time due_{};
  time lease_end_{};
  std::chrono::milliseconds ttl_{};
  std::chrono::milliseconds delay_;
  std::int64_t lease_ = 0;
  std::int64_t replaces_ = 0;
  std::uint64_t epoch_ = 0;
  unsigned lost_puts_ = 0;
  bool mine_ = false;
  bool superseded_ = false;
};

}  // namespace orcd::net
