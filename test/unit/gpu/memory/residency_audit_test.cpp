// The audit's rules over a scripted driver, and the counter of allocations after READY.
#include "gpu/memory/residency_audit.hpp"

#include <boost/test/unit_test.hpp>
#include <map>
#include <string>

#include "gpu/memory/allocation_counter.hpp"

namespace orcd::test {
namespace {

using gpu::memory_kind;
using gpu::pointer_facts;

const std::byte* address(std::uintptr_t at) {
  return reinterpret_cast<const std::byte*>(at);
}

/// A driver that knows some addresses; all others are device memory of GPU 1.
struct scripted_driver {
  std::map<const void*, pointer_facts> known;
  gpu::pointer_probe probe() {
    return [this](const void* at) {
      const auto found = known.find(at);
      return found != known.end()
                 ? found->second
                 : pointer_facts{
                       .kind = memory_kind::device, .device = 1, .host_pointer = nullptr, .failure = {}};
    };
  }
};

struct two_allocations {
  two_allocations() {
    audit.watch("weights", address(0x10000), 1000);
    audit.watch("KV cache", address(0x20000), 24);
  }
  scripted_driver driver;
  gpu::residency_audit audit{1, driver.probe()};
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(residency_audit)

BOOST_FIXTURE_TEST_CASE(device_memory_of_the_right_gpu_is_resident, two_allocations) {
  const auto report = audit.audit();
  BOOST_TEST(report.resident());
  BOOST_TEST(report.checked == 2U);
  BOOST_TEST(report.bytes == 1024U);
}

BOOST_FIXTURE_TEST_CASE(each_way_of_not_being_resident_is_named, two_allocations) {
  const auto* last_byte = address(0x20000 + 23);
  const auto fails_with = [&](pointer_facts facts, const std::string& why) {
    driver.known[last_byte] = std::move(facts);
    const auto report = audit.audit();
    BOOST_TEST(!report.resident());
    BOOST_TEST(report.bytes == 1000U);
    BOOST_REQUIRE(report.failures.size() == 1U);
    BOOST_TEST(contains(report.failures[0], "KV cache (24 bytes)"));
    BOOST_TEST(contains(report.failures[0], why), report.failures[0]);
  };
  fails_with({.kind = memory_kind::host, .device = 1, .host_pointer = nullptr, .failure = {}}, "host memory");
  fails_with({.kind = memory_kind::managed, .device = 1, .host_pointer = nullptr, .failure = {}}, "managed");
  fails_with({.kind = memory_kind::unknown, .device = 1, .host_pointer = nullptr, .failure = {}}, "unknown");
  fails_with({.kind = memory_kind::device, .device = 1, .host_pointer = last_byte, .failure = {}},
             "reached from the host");
  fails_with({.kind = memory_kind::device, .device = 0, .host_pointer = nullptr, .failure = {}}, "GPU 0");
  fails_with({.kind = memory_kind::device, .device = 1, .host_pointer = nullptr, .failure = "lost"}, "lost");
}

BOOST_FIXTURE_TEST_CASE(an_injected_fault_is_found_and_can_end, two_allocations) {
  audit.pretend_on_host("weights");
  const auto report = audit.audit();
  BOOST_REQUIRE(report.failures.size() == 1U);
  BOOST_TEST(contains(report.failures[0], "weights (1000 bytes) is in host memory"));
  audit.pretend_on_host({});
  BOOST_TEST(audit.audit().resident());
}

BOOST_FIXTURE_TEST_CASE(an_audit_of_nothing_proves_nothing, two_allocations) {
  audit.clear();
  BOOST_TEST(!audit.audit().resident());
}

BOOST_AUTO_TEST_CASE(allocations_after_the_seal_are_counted) {
  const auto before = gpu::counted_allocations();
  gpu::device_memory_taken(100);
  gpu::pinned_memory_taken(30);
  BOOST_TEST(gpu::counted_allocations().after_seal == 0U);
  gpu::seal_allocations();
  BOOST_TEST(gpu::counted_allocations().after_seal == 0U);
  gpu::device_memory_taken(1);
  const auto after = gpu::counted_allocations();
  BOOST_TEST(after.after_seal == 1U);
  BOOST_TEST(after.device_allocations == before.device_allocations + 2);
  BOOST_TEST(after.device_bytes == before.device_bytes + 101);
  BOOST_TEST(after.pinned_bytes == before.pinned_bytes + 30);
  gpu::device_memory_freed(101);
  gpu::pinned_memory_freed(30);
  BOOST_TEST(gpu::counted_allocations().device_bytes == before.device_bytes);
  BOOST_TEST(gpu::counted_allocations().after_seal == 1U);
  gpu::unseal_allocations();
  BOOST_TEST(gpu::counted_allocations().after_seal == 0U);
}

BOOST_AUTO_TEST_CASE(an_injected_failure_hits_exactly_one_allocation) {
  BOOST_TEST(!gpu::allocation_must_fail());
  gpu::fail_allocation_after(1);
  BOOST_TEST(!gpu::allocation_must_fail());
  BOOST_TEST(gpu::allocation_must_fail());
  BOOST_TEST(!gpu::allocation_must_fail());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
