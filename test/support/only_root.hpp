// For tests of what only root can do, as to give files away: a precondition, so that a skip is told.
#pragma once

#include <unistd.h>

#include <boost/test/unit_test.hpp>

namespace orcd::test {

inline boost::test_tools::assertion_result is_root(boost::unit_test::test_unit_id /*test*/) {
  boost::test_tools::assertion_result out(::geteuid() == 0);
  out.message() << "only root can";  // test_main.cpp knows it
  return out;
}

}  // namespace orcd::test
