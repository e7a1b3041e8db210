#include "net/discovery/registration.hpp"

#include <algorithm>

namespace orcd::net {
namespace {

/// Others write the key at the same moment once, hardly more often.
constexpr unsigned lost_puts_max = 3;
/// No store counts so far; what says so is no epoch, and would leave no higher one.
constexpr std::uint64_t epoch_max = std::uint64_t{1} << 62U;

}  // namespace

registration_step registration::next(time now) const {
  return now < due_ ? registration_step::wait : now_;
}

void registration::put_off(time now) {
  due_ = now + delay_;
  delay_ = std::min(delay_ * 2, times_.retry_max);
}

/// Three times within the lease, should the store have given a shorter one than was asked for.
void registration::look_again(time now) {
  now_ = registration_step::keep;
  due_ = now + std::min(times_.keep_every, ttl_ / 3);
}

void registration::on_granted(std::int64_t lease, std::chrono::milliseconds ttl, time now) {
  succeed();
  lease_ = lease;
  ttl_ = ttl;
  lease_end_ = now + ttl;
  mine_ = false;
  now_ = registration_step::read;
}

void registration::on_read(const registered_entry& found, std::int64_t revision, time now) {
  succeed();
  const bool there = found.mod_revision != 0;
  const std::uint64_t stands = there && found.epoch < epoch_max ? found.epoch : 0;
  if (there && is_mine(found)) {
    mine_ = true;
    superseded_ = false;
    look_again(now);
    return;
  }
  mine_ = false;
  superseded_ = epoch_ != 0 && stands > epoch_;
  if (superseded_) {
    look_again(now);
    return;
  }
  if (epoch_ == 0)
    epoch_ = std::max(static_cast<std::uint64_t>(std::max<std::int64_t>(revision, 1)), stands + 1);
  replaces_ = found.mod_revision;
  now_ = registration_step::put;
}

void registration::on_put(bool written, time now) {
  if (!written) {
    now_ = registration_step::read;
    if (++lost_puts_ >= lost_puts_max) put_off(now);
    return;
  }
  succeed();
  lost_puts_ = 0;
  mine_ = true;
  look_again(now);
}

void registration::on_kept(std::optional<std::chrono::milliseconds> ttl, time now) {
  succeed();
  if (!ttl) {
    mine_ = false;
    now_ = registration_step::grant;
    return;
  }
  ttl_ = *ttl;
  lease_end_ = now + ttl_;
  // What stands at the key is looked at as well: somebody may have taken it, or taken it away.
  now_ = registration_step::read;
}

void registration::on_failure(registration_step what, time now) {
  if (what == registration_step::put) {
    mine_ = false;
    now_ = registration_step::grant;
  }
  put_off(now);
}

}  // namespace orcd::net
