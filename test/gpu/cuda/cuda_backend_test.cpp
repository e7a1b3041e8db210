// What the worker asks of a loaded CUDA backend beside tokens: which GPU it is on, whether its memory is
// still in VRAM, how it refuses what does not fit, and that it may end on another thread.
#include "gpu/cuda/cuda_backend.hpp"

#include <cuda_runtime_api.h>

#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <thread>

#include "engine/gguf/gguf_file.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/cuda/cuda_error.hpp"
#include "gpu/memory/allocation_counter.hpp"
#include "test/unit/golden/golden_file.hpp"

namespace orcd::test {
namespace {

struct tiny_backend {
  tiny_backend()
      : golden(read_tiny_golden("llama-tied")),
        file(engine::gguf_file::open(golden.model.string()).value()),
        model(engine::load_model(file, golden.cases.front().context, golden.cases.front().rope).value()) {}

  /// A worker's options, but for the context, which other tests go on to use.
  engine::result<engine::memory_plan> load(gpu::cuda_backend_options options, std::uint32_t slots = 2) {
    options.end = gpu::device_end::keep;
    device = gpu::make_cuda_backend(options);
    return device->load(model, {slots, golden.cases.front().context, {}}, [](unsigned) {});
  }

  tiny_golden golden;
  engine::gguf_file file;
  engine::model model;
  std::unique_ptr<engine::accelerator> device;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cuda_backend, tiny_backend)

BOOST_AUTO_TEST_CASE(a_loaded_backend_names_its_gpu_and_is_resident) {
  const auto plan = load({});
  BOOST_REQUIRE_MESSAGE(plan, plan.error().message);
  const auto facts = device->device();
  BOOST_TEST(facts.index == 0);
  BOOST_TEST(!facts.name.empty());
  BOOST_TEST(facts.uuid.starts_with("GPU-"));
  BOOST_TEST(device->resident());
  BOOST_TEST(device->vram_bytes() == plan->total());
  BOOST_TEST(device->audit().empty());
  BOOST_TEST(!device->device_lost());
  BOOST_TEST(gpu::counted_allocations().after_seal == 0U);
}

BOOST_AUTO_TEST_CASE(an_arena_that_left_vram_is_reported_by_name) {
  const auto fault = std::make_shared<bool>(false);
  gpu::cuda_backend_options options;
  options.probe = [fault, real = gpu::cuda_pointer_probe()](const void* pointer) {
    auto facts = real(pointer);
    if (*fault) facts.kind = gpu::memory_kind::host;
    return facts;
  };
  const auto plan = load(options);
  BOOST_REQUIRE_MESSAGE(plan, plan.error().message);
  BOOST_TEST(device->audit().empty());
  *fault = true;
  const auto failures = device->audit();
  BOOST_REQUIRE_EQUAL(failures.size(), 3U);
  BOOST_TEST(failures[0].starts_with("weights ("), failures[0]);
  BOOST_TEST(failures[1].starts_with("KV cache ("), failures[1]);
  BOOST_TEST(failures[2].starts_with("workspace ("), failures[2]);
}

BOOST_AUTO_TEST_CASE(a_model_that_is_not_in_vram_is_not_served) {
  gpu::cuda_backend_options options;
  options.probe = [](const void*) {
    gpu::pointer_facts facts;
    facts.kind = gpu::memory_kind::managed;
    return facts;
  };
  const auto plan = load(options);
  BOOST_REQUIRE(!plan);
  BOOST_TEST(plan.error().message.find("weights") != std::string::npos, plan.error().message);
}

BOOST_AUTO_TEST_CASE(a_backend_may_end_on_another_thread_and_leaves_no_memory) {
  const auto before = gpu::counted_allocations();
  BOOST_REQUIRE(load({.pinned = false}));
  BOOST_TEST(gpu::counted_allocations().device_bytes > before.device_bytes);
  std::thread([this] { device.reset(); }).join();
  BOOST_TEST(gpu::counted_allocations().device_bytes == before.device_bytes);
  BOOST_TEST(gpu::counted_allocations().pinned_bytes == before.pinned_bytes);
}

BOOST_AUTO_TEST_CASE(a_kv_cache_over_its_limit_is_refused_with_the_numbers) {
  const auto plan = load({.kv_bytes_max = 1}, 200);
  BOOST_REQUIRE(!plan);
  BOOST_TEST((plan.error().code == engine::errc::insufficient_vram));
}

BOOST_AUTO_TEST_CASE(only_a_broken_device_counts_as_lost) {
  BOOST_TEST(gpu::is_device_lost(cudaErrorECCUncorrectable));
  BOOST_TEST(gpu::is_device_lost(cudaErrorUnknown));
  BOOST_TEST(!gpu::is_device_lost(cudaSuccess));
  BOOST_TEST(!gpu::is_device_lost(cudaErrorIllegalAddress));
  BOOST_TEST(!gpu::is_device_lost(cudaErrorMemoryAllocation));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
