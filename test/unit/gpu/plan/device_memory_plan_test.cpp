// The VRAM plan in numbers that were computed by hand, and the refusal that names every class.
#include "gpu/plan/device_memory_plan.hpp"

#include <boost/test/unit_test.hpp>
#include <limits>
#include <string>

#include "engine/gguf/gguf_file.hpp"
#include "test/support/tiny_model.hpp"

namespace orcd::test {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

engine::model_spec spec_of(std::uint32_t layers, std::uint32_t kv_heads, std::uint32_t width) {
  engine::model_spec spec;
  spec.layers.resize(layers);
  for (auto& layer : spec.layers) {
    layer.kv_heads = kv_heads;
    layer.key_length = layer.value_length = width;
  }
  return spec;
}

const gpu::gpu_info some_gpu{.index = 3,
                             .name = "NVIDIA H200",
                             .uuid = "GPU-abc",
                             .capability_major = 9,
                             .capability_minor = 0,
                             .sm_count = 132,
                             .memory_bytes = 0};

}  // namespace

BOOST_AUTO_TEST_SUITE(device_memory_plan)

BOOST_AUTO_TEST_CASE(kv_bytes_of_the_target_shapes) {
  // 24 layers, 2 heads of 64: 2 * 2 * 64 * 2 bytes a token and layer.
  BOOST_TEST(gpu::planned_kv_bytes(spec_of(24, 2, 64), 1, 2048) == 24ULL * 512 * 2048);
  // 96 is a multiple of 32, 80 is not and takes 96.
  BOOST_TEST(gpu::planned_kv_bytes(spec_of(32, 32, 96), 2, 4096) == 393'216ULL * 4096 * 2);
  BOOST_TEST(gpu::kv_page_bytes(spec_of(1, 1, 80)) == gpu::kv_page_bytes(spec_of(1, 1, 96)));
  // One position takes a whole page, 257 take two.
  BOOST_TEST(gpu::planned_kv_bytes(spec_of(1, 1, 32), 1, 1) == gpu::kv_page_bytes(spec_of(1, 1, 32)));
  BOOST_TEST(gpu::planned_kv_bytes(spec_of(1, 1, 32), 3, 257) == 6 * gpu::kv_page_bytes(spec_of(1, 1, 32)));
}

BOOST_AUTO_TEST_CASE(kv_bytes_follow_the_types) {
  using engine::kv_type;
  const auto page = [](std::uint32_t width, kv_type k, kv_type v) {
    return gpu::kv_page_bytes(spec_of(3, 2, width), {k, v});
  };
  BOOST_TEST(page(64, kv_type::f16, kv_type::f16) == 3ULL * 2 * 256 * (128 + 128));
  BOOST_TEST(page(64, kv_type::bf16, kv_type::f16) == 3ULL * 2 * 256 * (128 + 128));
  BOOST_TEST(page(64, kv_type::q8_0, kv_type::f16) == 3ULL * 2 * 256 * (68 + 128));
  BOOST_TEST(page(64, kv_type::f16, kv_type::q8_0) == 3ULL * 2 * 256 * (128 + 68));
  BOOST_TEST(page(128, kv_type::q8_0, kv_type::q8_0) == 3ULL * 2 * 256 * (136 + 136));
  BOOST_TEST(page(80, kv_type::q8_0, kv_type::q8_0) == page(96, kv_type::q8_0, kv_type::q8_0));
  BOOST_TEST(engine::kv_row_bytes(kv_type::f32, 80) == 320U);
  // Every layer's part starts where the arena's 256-byte alignment puts it.
  for (const std::uint32_t width : {32U, 64U, 96U, 128U}) {
    BOOST_TEST(gpu::kv_half_page_bytes(kv_type::q8_0, 1, width) % 256 == 0U);
  }
}

BOOST_AUTO_TEST_CASE(an_absurd_configuration_saturates_and_is_refused) {
  constexpr auto most = std::numeric_limits<std::uint32_t>::max();
  const std::uint64_t kv = gpu::planned_kv_bytes(spec_of(1024, 65'536, 65'536), most, most);
  BOOST_TEST(kv == std::numeric_limits<std::uint64_t>::max());
  engine::memory_plan plan;
  plan.kv_bytes = kv;
  plan.weights_bytes = 1;
  BOOST_TEST(
      !gpu::check_vram(plan, 1, {.free_bytes = 1ULL << 40, .total_bytes = 1ULL << 40, .gpu = some_gpu}));
}

BOOST_AUTO_TEST_CASE(a_plan_has_every_class_and_holds_the_kv_limit) {
  const bytes image = make_tiny_model({});
  const auto file = engine::gguf_file::parse(image, "tiny").value();
  const auto model = engine::load_model(file).value();
  gpu::device_plan_request request{.slots = 3, .context = 300, .workspace_bytes = 12'345, .kv_bytes_max = 0};
  const auto plan = gpu::plan_device_memory(model, request);
  BOOST_REQUIRE(plan);
  BOOST_TEST(plan->weights_bytes > 0U);
  BOOST_TEST(plan->kv_bytes == 3 * 2 * gpu::kv_page_bytes(model.spec));
  BOOST_TEST(plan->workspace_bytes == 12'345U);
  BOOST_TEST(plan->logits_bytes == 3ULL * model.spec.vocab * 4);
  auto typed = request;
  typed.kv = {engine::kv_type::q8_0, engine::kv_type::q8_0};
  BOOST_TEST(gpu::plan_device_memory(model, typed)->kv_bytes ==
             3 * 2 * gpu::kv_page_bytes(model.spec, typed.kv));
  typed.kv = {engine::kv_type::f16, engine::kv_type::f32};
  BOOST_TEST(gpu::plan_device_memory(model, typed).error().param == "kv-type-v");
  request.kv_bytes_max = plan->kv_bytes;
  BOOST_TEST(gpu::plan_device_memory(model, request).has_value());
  request.kv_bytes_max = plan->kv_bytes - 1;
  const auto refused = gpu::plan_device_memory(model, request);
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().code == engine::errc::insufficient_vram));
  BOOST_TEST(contains(refused.error().message, std::to_string(plan->kv_bytes)));
  BOOST_TEST(contains(refused.error().message, std::to_string(plan->kv_bytes - 1)));
}

BOOST_AUTO_TEST_CASE(latents_are_planned_as_one_row_a_position_in_f16) {
  tiny_model_options options;
  options.file = "deepseek2-glm";
  const bytes image = make_tiny_model(options);
  const auto file = engine::gguf_file::parse(image, "tiny").value();
  const auto model = engine::load_model(file).value();
  // 32 and 16 values, padded to 64, of three layers.
  BOOST_TEST(gpu::kv_page_bytes(model.spec) == 3U * 256U * 64U * 2U);
  gpu::device_plan_request request{.slots = 2, .context = 300, .workspace_bytes = 0, .kv_bytes_max = 0};
  BOOST_TEST(gpu::plan_device_memory(model, request)->kv_bytes == 2 * 2 * gpu::kv_page_bytes(model.spec));
  request.kv = {engine::kv_type::q8_0, engine::kv_type::f16};
  BOOST_TEST(gpu::plan_device_memory(model, request).error().param == "kv-type-k");
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused_with_numbers_by_class) {
  const engine::memory_plan plan{.weights_bytes = 111'000'000'001,
                                 .kv_bytes = 222'000'002,
                                 .workspace_bytes = 33'000'003,
                                 .logits_bytes = 4'000'004,
                                 .adapters_bytes = 6'000'006};
  const std::uint64_t staging = 5'000'005;
  const std::uint64_t required = plan.total() + staging + gpu::driver_reserve_bytes;
  gpu::vram_supply supply{.free_bytes = required, .total_bytes = required + 9, .gpu = some_gpu};
  BOOST_TEST(gpu::check_vram(plan, staging, supply).has_value());
  --supply.free_bytes;
  const auto refused = gpu::check_vram(plan, staging, supply);
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().code == engine::errc::insufficient_vram));
  for (const std::uint64_t number :
       {required, plan.weights_bytes, plan.kv_bytes, plan.workspace_bytes, plan.logits_bytes,
        plan.adapters_bytes, staging, supply.free_bytes, supply.total_bytes}) {
    BOOST_TEST(contains(refused.error().message, std::to_string(number)), number);
  }
  BOOST_TEST(contains(refused.error().message, "GPU 3 (NVIDIA H200, GPU-abc)"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
