// Memory of one process in another: what is read is what was written, nobody writes after the freeze, and
// what is not what it claims to be is refused before it is mapped.
#include "gpu/memory/memfd_driver.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <cstring>
#include <string>

#include "engine/accelerator.hpp"
#include "test/unit/gpu/child_process.hpp"

namespace orcd::test {
namespace {

using engine::file_descriptor;
using gpu::arena_mapping;

constexpr std::uint64_t arena_bytes = std::uint64_t{1} << 20;

gpu::memfd_driver& driver() {
  return gpu::memfd_driver::instance();
}

volatile char* bytes_of(const arena_mapping& arena) {
  return reinterpret_cast<volatile char*>(arena.address());
}

/// With a text at its end, frozen.
struct frozen_arena {
  frozen_arena() : arena(driver(), arena_bytes) {
    std::memcpy(reinterpret_cast<char*>(arena.address()) + arena_bytes - text.size(), text.data(),
                text.size());
    arena.freeze();
    descriptor = arena.export_fd();
  }
  const std::string text = "weights";
  arena_mapping arena;
  file_descriptor descriptor;
};

/// A memory file as an attacker or another version might make it.
file_descriptor made_file(std::uint64_t bytes, int seals) {
  file_descriptor file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  BOOST_REQUIRE(file);
  BOOST_REQUIRE_EQUAL(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  BOOST_REQUIRE_EQUAL(::fcntl(file.get(), F_ADD_SEALS, seals), 0);
  return file;
}

void expect_refused(int fd, const std::string& why) {
  try {
    const arena_mapping imported(driver(), fd, arena_bytes);
    BOOST_ERROR("was accepted: " << why);
  } catch (const engine::accelerator_failure& failure) {
    BOOST_TEST((failure.code == engine::errc::stale_weights));
    BOOST_TEST(std::string(failure.what()).find(why) != std::string::npos, failure.what());
  }
}

constexpr int sizes = F_SEAL_SHRINK | F_SEAL_GROW;

}  // namespace

BOOST_AUTO_TEST_SUITE(memfd_driver)

BOOST_AUTO_TEST_CASE(a_new_arena_is_zero_and_writable) {
  const arena_mapping arena(driver(), arena_bytes);
  for (std::uint64_t at = 0; at < arena_bytes; at += 509) BOOST_REQUIRE_EQUAL(bytes_of(arena)[at], 0);
  bytes_of(arena)[arena_bytes - 1] = 'x';
  BOOST_TEST(bytes_of(arena)[arena_bytes - 1] == 'x');
}

BOOST_FIXTURE_TEST_CASE(another_process_reads_what_was_written, frozen_arena) {
  const auto child = run_in_child([this] {
    const arena_mapping imported(driver(), descriptor.get(), arena_bytes);
    const char* const end = reinterpret_cast<const char*>(imported.address()) + arena_bytes;
    return std::string(end - text.size(), end);
  });
  BOOST_TEST(child.status == 0);
  BOOST_TEST(child.output == text);
}

BOOST_FIXTURE_TEST_CASE(what_was_imported_outlives_the_arena_it_came_from, frozen_arena) {
  const arena_mapping imported(driver(), descriptor.get(), arena_bytes);
  arena = arena_mapping();
  descriptor.reset();
  BOOST_TEST(bytes_of(imported)[arena_bytes - 1] == 's');
}

BOOST_FIXTURE_TEST_CASE(a_write_through_either_mapping_faults, frozen_arena) {
  const auto writer = run_in_child([this] {
    bytes_of(arena)[0] = 1;
    return std::string("written");
  });
  BOOST_TEST(writer.signal == SIGSEGV);
  BOOST_TEST(writer.output == "");
  const auto reader = run_in_child([this] {
    const arena_mapping imported(driver(), descriptor.get(), arena_bytes);
    bytes_of(imported)[0] = 1;
    return std::string("written");
  });
  BOOST_TEST(reader.signal == SIGSEGV);
  BOOST_TEST(reader.output == "");
}

BOOST_FIXTURE_TEST_CASE(after_the_freeze_there_is_no_other_way_to_write_either, frozen_arena) {
  const arena_mapping imported(driver(), descriptor.get(), arena_bytes);
  void* const range = reinterpret_cast<void*>(imported.address());
  BOOST_TEST(::mprotect(range, arena_bytes, PROT_READ | PROT_WRITE) == -1);
  void* const writable =
      ::mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  BOOST_TEST(writable == MAP_FAILED);
  BOOST_TEST(::pwrite(descriptor.get(), "x", 1, 0) == -1);
  BOOST_TEST(::ftruncate(descriptor.get(), 0) == -1);
  BOOST_TEST(::fallocate(descriptor.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == -1);
}

BOOST_AUTO_TEST_CASE(what_could_be_resized_or_written_is_refused) {
  expect_refused(made_file(arena_bytes, 0).get(), "not sealed");
  expect_refused(made_file(arena_bytes, F_SEAL_GROW | F_SEAL_FUTURE_WRITE).get(), "not sealed");
  expect_refused(made_file(arena_bytes, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE).get(), "not sealed");
  expect_refused(made_file(arena_bytes, sizes).get(), "not sealed");
  // Filled, but not frozen.
  const arena_mapping unfinished(driver(), arena_bytes);
  expect_refused(unfinished.export_fd().get(), "not sealed");
}

BOOST_AUTO_TEST_CASE(another_size_is_refused_instead_of_faulting_later) {
  expect_refused(made_file(arena_bytes - 4096, sizes | F_SEAL_FUTURE_WRITE).get(), "the model needs 1048576");
  expect_refused(made_file(arena_bytes + 4096, sizes | F_SEAL_FUTURE_WRITE).get(), "the model needs 1048576");
  expect_refused(made_file(0, sizes | F_SEAL_FUTURE_WRITE).get(), "have 0 bytes");
}

BOOST_AUTO_TEST_CASE(what_is_no_memory_file_is_refused) {
  const file_descriptor file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  expect_refused(file.get(), "no memory file");
  const file_descriptor device(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  expect_refused(device.get(), "no memory file");
  expect_refused(-1, "no memory file");
}

BOOST_AUTO_TEST_CASE(memory_that_is_not_there_is_an_error_and_no_signal) {
  const auto child = run_in_child([]() -> std::string {
    // The size of files is limited, and with it how much of one can be had.
    const struct rlimit limit { arena_bytes, arena_bytes };
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::signal(SIGXFSZ, SIG_IGN);
    try {
      const arena_mapping arena(driver(), 2 * arena_bytes);
    } catch (const engine::accelerator_failure& failure) {
      return failure.code == engine::errc::insufficient_vram ? "refused" : failure.what();
    }
    return "made";
  });
  BOOST_TEST(child.output == "refused");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
