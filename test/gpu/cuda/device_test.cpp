// The real GPU: found, chosen by index and UUID, configured, and its memory given back.
#include <cuda_runtime_api.h>

#include <boost/test/unit_test.hpp>
#include <string>

#include "gpu/cuda/cuda_device.hpp"
#include "gpu/cuda/vram_arena.hpp"
#include "gpu/memory/allocation_counter.hpp"
#include "gpu/plan/device_memory_plan.hpp"

namespace orcd::test {
namespace {

/// The tests share one process, so that the context stays when a device object ends.
engine::result<gpu::cuda_device> open_device(const gpu::gpu_choice& choice) {
  return gpu::cuda_device::open(choice, gpu::device_end::keep);
}

constexpr std::uint64_t mib = 1U << 20;

}  // namespace

BOOST_AUTO_TEST_SUITE(device)

BOOST_AUTO_TEST_CASE(the_first_gpu_says_what_it_is) {
  const auto device = open_device({});
  BOOST_REQUIRE_MESSAGE(device, device.error().message);
  const gpu::gpu_info& info = device->info();
  BOOST_TEST_MESSAGE("GPU " << gpu::describe({&info, 1}) << ", " << info.sm_count << " SMs");
  BOOST_TEST(info.index == 0);
  BOOST_TEST(!info.name.empty());
  BOOST_TEST(info.uuid.size() == 40U);
  BOOST_TEST(info.uuid.starts_with("GPU-"));
  BOOST_TEST(info.capability_major == 9);
  BOOST_TEST(info.capability_minor == 0);
  BOOST_TEST(info.sm_count > 0);
  const auto memory = device->memory();
  BOOST_TEST(memory.free_bytes > 0U);
  BOOST_TEST(memory.free_bytes <= memory.total_bytes);
  BOOST_TEST(memory.total_bytes <= info.memory_bytes + 1024 * mib);
}

BOOST_AUTO_TEST_CASE(a_gpu_is_found_by_its_uuid_and_by_a_prefix) {
  const auto gpus = gpu::list_gpus().value();
  const gpu::gpu_info& last = gpus.back();
  const auto whole = open_device({.index = 99, .uuid = last.uuid});
  BOOST_REQUIRE_MESSAGE(whole, whole.error().message);
  BOOST_TEST(whole->index() == last.index);
  const auto prefix = open_device({.index = 99, .uuid = last.uuid.substr(0, 30)});
  BOOST_REQUIRE_MESSAGE(prefix, prefix.error().message);
  BOOST_TEST(prefix->index() == last.index);
  BOOST_REQUIRE_EQUAL(cudaSetDevice(0), cudaSuccess);
}

BOOST_AUTO_TEST_CASE(a_gpu_that_is_not_there_is_refused_with_the_list) {
  const auto gpus = gpu::list_gpus().value();
  const auto index = open_device({.index = static_cast<std::uint32_t>(gpus.size()), .uuid = {}});
  BOOST_REQUIRE(!index);
  BOOST_TEST(index.error().message.find(gpus[0].uuid) != std::string::npos, index.error().message);
  const auto uuid = open_device({.index = 0, .uuid = "GPU-ffffffff-ffff-ffff-ffff-ffffffffffff"});
  BOOST_REQUIRE(!uuid);
  BOOST_TEST(uuid.error().message.find(gpus[0].name) != std::string::npos, uuid.error().message);
}

// The requirement speaks of unified memory. What decides it is that arenas are device memory (see the
// residency tests); the limit only sizes the heap of malloc() in kernels, 8 MiB by default.
BOOST_AUTO_TEST_CASE(the_device_heap_is_not_larger_than_the_drivers_default) {
  const auto device = open_device({});
  BOOST_REQUIRE_MESSAGE(device, device.error().message);
  BOOST_TEST_MESSAGE("device heap: " << device->device_heap_bytes() << " bytes");
  BOOST_TEST(device->device_heap_bytes() <= 8 * mib);
  BOOST_TEST(cudaGetLastError() == cudaSuccess);
}

BOOST_AUTO_TEST_CASE(an_arena_takes_its_memory_zeroed_and_gives_it_back) {
  const auto device = open_device({});
  BOOST_REQUIRE_MESSAGE(device, device.error().message);
  const std::uint64_t before = device->memory().free_bytes;
  {
    const gpu::vram_arena arena(device->index(), 256 * mib);
    BOOST_TEST(arena.bytes() >= 256 * mib);
    BOOST_TEST(device->memory().free_bytes + 256 * mib <= before);
    std::uint64_t last = 1;
    BOOST_REQUIRE_EQUAL(cudaMemcpy(&last, arena.at<std::byte>(arena.bytes() - sizeof(last)), sizeof(last),
                                   cudaMemcpyDeviceToHost),
                        cudaSuccess);
    BOOST_TEST(last == 0U);
  }
  BOOST_TEST(device->memory().free_bytes + 32 * mib >= before);
}

BOOST_AUTO_TEST_CASE(an_arena_larger_than_the_gpu_is_vram_oom_and_costs_nothing) {
  const auto device = open_device({});
  BOOST_REQUIRE_MESSAGE(device, device.error().message);
  const auto memory = device->memory();
  const auto counted = gpu::counted_allocations();
  const auto is_oom = [](const engine::accelerator_failure& failure) {
    return failure.code == engine::errc::vram_oom;
  };
  BOOST_CHECK_EXCEPTION(gpu::vram_arena(device->index(), memory.total_bytes + (1ULL << 30)),
                        engine::accelerator_failure, is_oom);
  gpu::fail_allocation_after(0);
  BOOST_CHECK_EXCEPTION(gpu::vram_arena(device->index(), 2 * mib), engine::accelerator_failure, is_oom);
  BOOST_TEST(gpu::counted_allocations().device_bytes == counted.device_bytes);
  BOOST_TEST(device->memory().free_bytes + 32 * mib >= memory.free_bytes);
  const gpu::vram_arena after(device->index(), 2 * mib);
  BOOST_TEST(after.bytes() >= 2 * mib);
}

BOOST_AUTO_TEST_CASE(a_plan_larger_than_the_free_memory_is_refused_with_the_gpus_numbers) {
  const auto device = open_device({});
  BOOST_REQUIRE_MESSAGE(device, device.error().message);
  const auto memory = device->memory();
  const gpu::vram_supply supply{
      .free_bytes = memory.free_bytes, .total_bytes = memory.total_bytes, .gpu = device->info()};
  const engine::memory_plan plan{.weights_bytes = memory.total_bytes + 1};
  const auto checked = gpu::check_vram(plan, 0, supply);
  BOOST_REQUIRE(!checked);
  BOOST_TEST((checked.error().code == engine::errc::insufficient_vram));
  BOOST_TEST(checked.error().message.find(device->info().uuid) != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
