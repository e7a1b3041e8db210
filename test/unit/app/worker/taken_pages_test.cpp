// When pages of the engine before are used: no cache, no device.
#include "app/worker/taken_pages.hpp"

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "test/unit/app/worker/told_events.hpp"

namespace {

using namespace orcd;
using names = std::vector<std::string>;

struct alignas(64) cache_line {
  std::byte bytes[64];
};

/// The pages of a device that only notes what is asked of it.
class noted_pages {
 public:
  noted_pages() : memory_(engine::page_ledger::bytes(geometry) / sizeof(cache_line) + 1) {}
  void take_over() {
    const std::span<cache_line> lines(memory_);
    pages.take_over(engine::page_ledger::of(std::as_writable_bytes(lines), geometry).value());
  }

  names steps;
  test::told_events log;
  boost::asio::io_context io;
  app::taken_pages pages{io,
                         log,
                         {.take =
                              [this](engine::page_ledger, const auto& done) {
                                steps.emplace_back("take");
                                done(3, 1);
                              },
                          .open = [this] { steps.emplace_back("open"); }}};

 private:
  static constexpr engine::kv_geometry geometry{engine::kv_page_positions, 4};
  std::vector<cache_line> memory_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(taken_pages)

BOOST_AUTO_TEST_CASE(they_are_opened_once_and_only_after_they_were_taken) {
  noted_pages device;
  device.pages.open();
  BOOST_TEST(device.steps.empty());
  device.take_over();
  device.pages.open();
  device.pages.open();
  BOOST_TEST(device.steps == (names{"take", "open"}), boost::test_tools::per_element());
  BOOST_TEST(device.log.all() == (names{"pages_taken_over", "pages_open"}), boost::test_tools::per_element());
  // Nor does the time that nobody's word may take open them again.
  device.io.run();
  BOOST_TEST(device.steps.size() == 2U);
}

BOOST_AUTO_TEST_CASE(pages_of_another_engine_are_left_alone) {
  noted_pages device;
  device.take_over();
  device.pages.forget();
  device.pages.open();
  device.io.run();
  BOOST_TEST(device.steps == names{"take"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
