// Waits that end with a failure where what they wait for never comes, instead of a test that never ends.
#pragma once

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <future>
#include <string>
#include <thread>

namespace orcd::test {

/// Longer than anything takes on a busy machine.
inline constexpr std::chrono::seconds wait_patience{60};

/// Asks again and again: for what another thread or process does and tells nobody. Any thread, as long as it
/// comes.
template <class Condition>
void wait_until(const Condition& holds, const std::string& what = "what is waited for") {
  const auto limit = std::chrono::steady_clock::now() + wait_patience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > limit) BOOST_FAIL("not within a minute: " + what);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

template <class T>
T got_from(std::future<T> coming) {
  const bool came = coming.wait_for(wait_patience) == std::future_status::ready;
  BOOST_TEST_REQUIRE(came, "what is waited for does not come");
  return coming.get();
}

}  // namespace orcd::test
