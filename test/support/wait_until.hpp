// Waits that end with a failure where what they wait for never comes, instead of a test that never ends.
#pragma once

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <future>
#include <thread>

namespace orcd::test {

/// Longer than anything takes on a busy machine.
inline constexpr std::chrono::seconds wait_patience{60};

template <class Condition>
void wait_until(const Condition& holds) {
  const auto limit = std::chrono::steady_clock::now() + wait_patience;
  while (!holds()) {
    BOOST_TEST_REQUIRE((std::chrono::steady_clock::now() < limit), "what is waited for does not come");
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
