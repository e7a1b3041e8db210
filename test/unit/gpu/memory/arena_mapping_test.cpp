// An arena whose steps fail one after the other leaves nothing behind.
#include "gpu/memory/arena_mapping.hpp"

#include <boost/test/unit_test.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace orcd::test {
namespace {

/// Writes down every call; step number `failing` (from 1) throws.
class recording_driver final : public gpu::arena_driver {
 public:
  explicit recording_driver(unsigned failing) : failing_(failing) {}
  std::uint64_t create(std::uint64_t) override {
    step("create");
    return 0;  // a handle may be anything
  }
  void release(std::uint64_t) noexcept override { calls.emplace_back("release"); }
  std::uintptr_t reserve(std::uint64_t) override {
    step("reserve");
    return 4096;
  }
  void give_back(std::uintptr_t, std::uint64_t) noexcept override { calls.emplace_back("give_back"); }
  void map(std::uintptr_t, std::uint64_t, std::uint64_t) override { step("map"); }
  void unmap(std::uintptr_t, std::uint64_t) noexcept override { calls.emplace_back("unmap"); }
  void open(std::uintptr_t, std::uint64_t, gpu::arena_access access) override {
    step(access == gpu::arena_access::read ? "open to read" : "open");
  }
  void zero(std::uintptr_t, std::uint64_t) override { step("zero"); }
  engine::file_descriptor export_fd(std::uint64_t) override {
    step("export");
    return {};
  }
  std::uint64_t import_fd(int, std::uint64_t, gpu::arena_access) override {
    step("import");
    return 0;
  }
  void seal(std::uint64_t) override { step("seal"); }

  std::vector<std::string> calls;

 private:
  void step(const char* name) {
    if (++steps_ == failing_) throw std::runtime_error(name);
    calls.emplace_back(name);
  }
  unsigned failing_;
  unsigned steps_ = 0;
};

using names = std::vector<std::string>;

}  // namespace

BOOST_AUTO_TEST_SUITE(arena_mapping)

BOOST_AUTO_TEST_CASE(a_step_that_fails_undoes_the_steps_before_it) {
  const std::vector<names> expected{
      {},
      {"create", "release"},
      {"create", "reserve", "give_back", "release"},
      {"create", "reserve", "map", "unmap", "give_back", "release"},
      {"create", "reserve", "map", "open", "unmap", "give_back", "release"},
  };
  for (unsigned failing = 1; failing <= expected.size(); ++failing) {
    recording_driver driver(failing);
    BOOST_CHECK_THROW(gpu::arena_mapping(driver, 256), std::runtime_error);
    BOOST_TEST(driver.calls == expected[failing - 1], boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(an_import_that_fails_undoes_the_steps_before_it) {
  const std::vector<names> expected{
      {},
      {"import", "release"},
      {"import", "reserve", "give_back", "release"},
      {"import", "reserve", "map", "unmap", "give_back", "release"},
  };
  for (unsigned failing = 1; failing <= expected.size(); ++failing) {
    recording_driver driver(failing);
    BOOST_CHECK_THROW(gpu::arena_mapping(driver, 7, 256), std::runtime_error);
    BOOST_TEST(driver.calls == expected[failing - 1], boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(what_is_imported_is_opened_to_read_and_not_zeroed) {
  recording_driver driver(0);
  { const gpu::arena_mapping imported(driver, 7, 256); }
  BOOST_TEST(
      driver.calls == (names{"import", "reserve", "map", "open to read", "unmap", "give_back", "release"}),
      boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_frozen_arena_is_sealed_and_then_only_read) {
  recording_driver driver(0);
  gpu::arena_mapping arena(driver, 256);
  driver.calls.clear();
  arena.freeze();
  BOOST_TEST(driver.calls == (names{"seal", "open to read"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_arena_that_is_moved_is_undone_once) {
  recording_driver driver(0);
  {
    gpu::arena_mapping first(driver, 256);
    BOOST_TEST(first.address() == 4096U);
    gpu::arena_mapping second(std::move(first));
    gpu::arena_mapping third;
    third = std::move(second);
    BOOST_TEST(third.bytes() == 256U);
    BOOST_TEST(driver.calls.size() == 5U);
  }
  BOOST_TEST(
      driver.calls == (names{"create", "reserve", "map", "open", "zero", "unmap", "give_back", "release"}),
      boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
