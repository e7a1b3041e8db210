// The residency audit over real memory: an arena passes, every other kind of memory is found.
#include <cuda_runtime_api.h>

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "gpu/cuda/cuda_resources.hpp"
#include "gpu/cuda/vram_arena.hpp"
#include "gpu/memory/allocation_counter.hpp"
#include "gpu/memory/residency_audit.hpp"

namespace orcd::test {
namespace {

struct audited_arena {
  audited_arena() {
    BOOST_REQUIRE_EQUAL(cudaGetDevice(&device), cudaSuccess);
    arena = gpu::vram_arena(device, 5U << 20);
    audit.emplace_back(device, gpu::cuda_pointer_probe());
    audit[0].watch("weights", arena.at<std::byte>(0), arena.bytes());
  }
  [[nodiscard]] std::string only_failure(const std::string& name, const void* pointer, std::uint64_t bytes) {
    audit[0].watch(name, pointer, bytes);
    const auto report = audit[0].audit();
    BOOST_TEST(!report.resident());
    BOOST_REQUIRE_EQUAL(report.failures.size(), 1U);
    BOOST_TEST(report.bytes == arena.bytes());
    return report.failures[0];
  }
  int device = -1;
  gpu::vram_arena arena;
  std::vector<gpu::residency_audit> audit;  ///< one; made when the device is known
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(residency)

BOOST_FIXTURE_TEST_CASE(an_arena_and_plain_device_memory_are_resident, audited_arena) {
  const gpu::device_buffer plain(12345);
  audit[0].watch("staging", plain.data(), plain.size());
  const auto report = audit[0].audit();
  for (const std::string& failure : report.failures) BOOST_ERROR(failure);
  BOOST_TEST(report.resident());
  BOOST_TEST(report.checked == 2U);
  BOOST_TEST(report.bytes == arena.bytes() + 12345);
}

BOOST_FIXTURE_TEST_CASE(pinned_host_memory_is_found, audited_arena) {
  const gpu::pinned_buffer pinned(4096);
  BOOST_TEST(
      contains(only_failure("workspace", pinned.data(), pinned.size()), "workspace (4096 bytes) is in host"));
}

BOOST_FIXTURE_TEST_CASE(ordinary_host_memory_is_found, audited_arena) {
  const std::vector<char> ordinary(4096);
  // CUDA knows nothing of it, or can reach it on a machine with one address space: either way a failure.
  BOOST_TEST_MESSAGE(only_failure("workspace", ordinary.data(), ordinary.size()));
}

BOOST_FIXTURE_TEST_CASE(managed_memory_is_found, audited_arena) {
  void* managed = nullptr;
  if (cudaMallocManaged(&managed, 4096) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    BOOST_TEST_MESSAGE("this GPU has no managed memory");
    return;
  }
  const std::string failure = only_failure("KV cache", managed, 4096);
  BOOST_TEST(cudaFree(managed) == cudaSuccess);
  BOOST_TEST(contains(failure, "managed memory"), failure);
}

BOOST_FIXTURE_TEST_CASE(memory_that_was_freed_is_found, audited_arena) {
  const std::byte* freed = nullptr;
  {
    const gpu::vram_arena other(device, 2U << 20);
    freed = other.at<std::byte>(0);
  }
  BOOST_TEST_MESSAGE(only_failure("KV cache", freed, 1));
  BOOST_TEST(cudaGetLastError() == cudaSuccess);
}

BOOST_FIXTURE_TEST_CASE(an_injected_fault_is_found, audited_arena) {
  audit[0].pretend_on_host("weights");
  BOOST_TEST(!audit[0].audit().resident());
  audit[0].pretend_on_host({});
  BOOST_TEST(audit[0].audit().resident());
}

BOOST_FIXTURE_TEST_CASE(an_allocation_after_the_seal_is_counted_and_an_audit_makes_none, audited_arena) {
  gpu::seal_allocations();
  BOOST_TEST(audit[0].audit().resident());
  BOOST_TEST(gpu::counted_allocations().after_seal == 0U);
  { const gpu::vram_arena late(device, 1); }
  BOOST_TEST(gpu::counted_allocations().after_seal == 1U);
  gpu::unseal_allocations();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
