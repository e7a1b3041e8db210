#include "app/holder/check.hpp"

#include <boost/test/unit_test.hpp>

using namespace orcd;

BOOST_AUTO_TEST_SUITE(holder_check)

BOOST_AUTO_TEST_CASE(people_read_a_line_for_each) {
  using kind = net::listed_engine::kind;
  net::engines_frame there{8'080, 12, true, {}};
  BOOST_TEST(app::describe(there) == "holder: ready, port 8080, connections 12\nno engine is connected\n");
  BOOST_TEST(!app::has_active(there));
  there.complete = false;
  there.engines = {{0, kind::stands_by, true, 4'711, 9'090},
                   {1, kind::loads, false, 4'712, 0},
                   {2, kind::leaves, false, 0, 9'092}};
  BOOST_TEST(!app::has_active(there));
  there.engines.push_back({63, kind::serves, false, 9, 9'153});
  BOOST_TEST(app::has_active(there));
  BOOST_TEST(app::describe(there) ==
             "holder: waits for the port, port 8080, connections 12\n"
             "engine 0: stands by, silent, pid 4711, system port 9090\n"
             "engine 1: loads, pid 4712, no system port\n"
             "engine 2: leaves, of another PID namespace, system port 9092\n"
             "engine 63: serves, pid 9, system port 9153\n");
  there.engines.clear();
  there.journals_replaced = 2;
  there.closed_with_journals = 31;
  BOOST_TEST(app::describe(there) ==
             "holder: waits for the port, port 8080, connections 12\n"
             "journal: damaged and replaced 2 times, connections closed with it 31\n"
             "no engine is connected\n");
}

BOOST_AUTO_TEST_SUITE_END()
