// Time that is itself a part of a test. The check of style refuses any other sleep.
#pragma once

#include <chrono>
#include <thread>

namespace orcd::test {

/// A pace, a silence, a delay, or how long something must not happen. A test that waits for
/// something to happen waits for that (wait_until.hpp). `why` is for the reader.
template <class Rep, class Period>
void pause(std::chrono::duration<Rep, Period> time, [[maybe_unused]] const char* why) {
  std::this_thread::sleep_for(time);
}

}  // namespace orcd::test
