// Where groups of layers lie in the cache's arena, and how many positions there is room for because windowed
// layers keep only what they read.
#include "gpu/plan/kv_layout.hpp"

#include <boost/test/unit_test.hpp>

#include "gpu/plan/device_memory_plan.hpp"

using namespace orcd;

namespace {

struct heads {
  std::uint32_t kv_heads = 1, width = 64, window = 0;
};

/// `full` in every `period`-th layer, else `windowed`.
engine::model_spec spec_of(std::uint32_t layers, std::uint32_t period, const heads& full,
                           const heads& windowed) {
  engine::model_spec out;
  for (std::uint32_t i = 0; i < layers; ++i) {
    const heads& of = (i + 1) % period == 0 ? full : windowed;
    engine::layer_spec layer;
    layer.heads = layer.kv_heads = of.kv_heads;
    layer.key_length = layer.value_length = of.width;
    layer.window = of.window;
    out.layers.push_back(layer);
  }
  return out;
}

/// How many times the positions there are in the same memory, with no boundaries and no drafts.
double gain(const engine::model_spec& spec, std::uint32_t slots, std::uint32_t context, std::uint32_t chunk) {
  gpu::cuda_extents extents{slots, context, chunk};
  const auto whole = static_cast<double>(gpu::kv_layout(spec, extents).bytes);
  extents.window_groups = true;
  extents.boundaries = {.bytes = 0};
  return whole / static_cast<double>(gpu::kv_layout(spec, extents).bytes);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(kv_layouts)

BOOST_AUTO_TEST_CASE(every_group_has_its_pages_and_a_spare_one) {
  const auto spec = spec_of(4, 2, {.kv_heads = 2}, {.kv_heads = 3, .width = 80, .window = 300});
  gpu::cuda_extents extents{2, 8'192, 512};
  extents.window_groups = true;
  extents.scratch_page = true;
  const gpu::kv_layout layout(spec, extents);
  BOOST_TEST_REQUIRE(layout.groups.count() == 2U);
  BOOST_TEST(layout.groups.pages(0) == 64U);
  const std::uint64_t full = 2 * 64 * 2 * 256;
  const std::uint64_t windowed = 3 * 96 * 2 * 256;  // heads of 80 are padded to 96
  const std::uint64_t windowed_pages = layout.groups.pages(1) + 1;
  BOOST_TEST(layout.layers[0].group == 1U);
  BOOST_TEST(layout.layers[0].key_page_bytes == windowed);
  BOOST_TEST(layout.layers[1].group == 0U);
  BOOST_TEST(layout.layers[1].keys == 2 * windowed_pages * windowed);
  BOOST_TEST(layout.layers[1].values - layout.layers[1].keys == 65 * full);
  BOOST_TEST(layout.bytes == 2 * 2 * (windowed_pages * windowed + 65 * full));
  BOOST_TEST(layout.bytes == layout.groups.bytes(1));
  BOOST_TEST(gpu::page_tables_bytes(spec, extents) == 2 * 2 * 32 * 4U);
}

BOOST_AUTO_TEST_CASE(a_cache_of_one_group_is_what_all_layers_take) {
  const auto spec = spec_of(4, 2, {.kv_heads = 2}, {.kv_heads = 3, .width = 80, .window = 300});
  gpu::cuda_extents extents{2, 8'192, 512};
  BOOST_TEST(gpu::kv_layout(spec, extents).bytes == 64 * gpu::kv_page_bytes(spec));
  extents.kv = {engine::kv_type::q8_0, engine::kv_type::f16};
  extents.kv_pages = 40;
  extents.scratch_page = true;
  BOOST_TEST(gpu::kv_layout(spec, extents).bytes == 41 * gpu::kv_page_bytes(spec, extents.kv));
}

BOOST_AUTO_TEST_CASE(layers_without_a_cache_of_their_own_take_nothing) {
  auto spec = spec_of(4, 2, {.kv_heads = 2}, {.kv_heads = 2, .window = 300});
  const gpu::cuda_extents extents{1, 1'024, 512};
  const std::uint64_t before = gpu::kv_layout(spec, extents).bytes;
  spec.layers[3].reads_other_cache = true;
  spec.layers[3].kv_source = 1;
  BOOST_TEST(gpu::kv_layout(spec, extents).bytes == before / 4 * 3);
}

// Published sizes; contexts as long as people ask for. What the last of 64 slots' steps may need at once is
// in all of them.
BOOST_AUTO_TEST_CASE(windows_make_room_for_positions) {
  const auto gpt_oss_20b = spec_of(24, 2, {.kv_heads = 8}, {.kv_heads = 8, .window = 128});
  const auto gemma_3_12b =
      spec_of(48, 6, {.kv_heads = 8, .width = 256}, {.kv_heads = 8, .width = 256, .window = 1'024});
  const auto gemma_4_31b =
      spec_of(60, 6, {.kv_heads = 4, .width = 512}, {.kv_heads = 16, .width = 256, .window = 1'024});
  BOOST_TEST(gain(gpt_oss_20b, 256, 8'192, 2'048) > 1.8);
  const auto gpt_oss_120b = spec_of(36, 2, {.kv_heads = 8}, {.kv_heads = 8, .window = 128});
  BOOST_TEST(gain(gpt_oss_120b, 140, 2'048, 2'048) > 1.42);
  BOOST_TEST(gain(gemma_3_12b, 64, 16'384, 1'024) > 4.0);
  BOOST_TEST(gain(gemma_4_31b, 64, 32'768, 512) > 7.4);
}

BOOST_AUTO_TEST_SUITE_END()
