// Which changes of a file's stamp mean that its bytes may have changed.
#include "engine/gguf/file_stamp.hpp"

#include <boost/test/unit_test.hpp>

using orcd::engine::file_stamp;
using orcd::engine::may_have_been_written;

namespace {

constexpr file_stamp before{
    .bytes = 1000, .modified_ns = 5, .changed_ns = 7, .links = 1, .mode = 0644, .owner = 1, .group = 1};

template <class Change>
bool damaged(Change change, orcd::engine::file_events seen = {}) {
  file_stamp now = before;
  change(now);
  return may_have_been_written(before, now, seen);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(file_stamps)

BOOST_AUTO_TEST_CASE(the_same_stamp_is_the_same_file) {
  BOOST_TEST(!damaged([](auto&) {}));
}

BOOST_AUTO_TEST_CASE(size_time_and_the_event_of_a_write_tell) {
  BOOST_TEST(damaged([](auto& s) { s.bytes = 999; }));
  BOOST_TEST(damaged([](auto& s) { s.modified_ns = 6; }));
  BOOST_TEST(damaged([](auto&) {}, {.written = true}));
}

BOOST_AUTO_TEST_CASE(a_time_that_was_set_back_leaves_a_change_that_nothing_explains) {
  BOOST_TEST(damaged([](auto& s) { s.changed_ns = 8; }));
}

BOOST_AUTO_TEST_CASE(names_modes_and_owners_explain_a_change) {
  BOOST_TEST(!damaged([](auto& s) { s.changed_ns = 8; }, {.moved = true}));
  BOOST_TEST(!damaged([](auto& s) { s.changed_ns = 8, s.links = 0; }));
  BOOST_TEST(!damaged([](auto& s) { s.changed_ns = 8, s.mode = 0600; }));
  BOOST_TEST(!damaged([](auto& s) { s.changed_ns = 8, s.owner = 2; }));
  BOOST_TEST(!damaged([](auto& s) { s.changed_ns = 8, s.group = 2; }));
}

BOOST_AUTO_TEST_CASE(what_explains_a_change_does_not_excuse_a_write) {
  BOOST_TEST(damaged([](auto& s) { s.changed_ns = 8, s.links = 0; }, {.written = true}));
  BOOST_TEST(damaged([](auto& s) { s.changed_ns = 8, s.links = 0, s.bytes = 1; }, {.moved = true}));
}

BOOST_AUTO_TEST_SUITE_END()
