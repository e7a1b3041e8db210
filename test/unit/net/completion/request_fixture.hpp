// What tests of request bodies have in common: the limits under which they are read, and results that have to
// be values or refusals.
#pragma once

#include <boost/test/unit_test.hpp>
#include <string_view>
#include <utility>

#include "net/completion/completion_request.hpp"

namespace orcd::net::test {

/// What was read; the test ends where it was refused.
template <class T>
T accepted(engine::result<T> read, std::string_view text) {
  BOOST_TEST_REQUIRE(read.has_value(), text << ": " << (read ? "" : read.error().message));
  return std::move(*read);
}

/// Why it was refused; the test ends where it was not.
template <class T>
engine::error refusal(const engine::result<T>& read, std::string_view text) {
  BOOST_TEST_REQUIRE(!read.has_value(), text << " was accepted");
  return read.error();
}

struct request_fixture {
  request_fixture() {
    lengths.context_tokens = 100;
    served.model_name = "served";
  }
  completion_limits limits() const {
    completion_limits out{lengths, served};
    out.vocab = 300;
    return out;
  }
  request_limits lengths;
  engine::worker_identity served;
};

}  // namespace orcd::net::test
