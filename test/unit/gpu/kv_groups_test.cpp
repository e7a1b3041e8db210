// Which layers share pages, and how many pages each group has.
#include "gpu/kv_groups.hpp"

#include <boost/test/unit_test.hpp>

using namespace orcd;

namespace {

/// Of layers with these windows, each with a kv head of 64 values: 65,536 bytes a page.
engine::model_spec spec_of(const std::vector<std::uint32_t>& windows) {
  engine::model_spec out;
  for (const std::uint32_t window : windows) {
    engine::layer_spec layer;
    layer.kv_heads = 1;
    layer.key_length = layer.value_length = 64;
    layer.window = window;
    out.layers.push_back(layer);
  }
  return out;
}

constexpr std::uint64_t page = 256 * 64 * 2 * 2;

}  // namespace

BOOST_AUTO_TEST_SUITE(groups_of_layers)

BOOST_AUTO_TEST_CASE(layers_of_one_window_are_a_group_and_the_others_group_0) {
  const auto plan = gpu::kv_groups::of(spec_of({0, 128, 1'024, 128, 0}),
                                       {.slots = 4, .context = 16'384, .ahead = {2, 512, 15}});
  BOOST_TEST(plan.of_layer == (std::vector<std::uint32_t>{0, 1, 2, 1, 0}), boost::test_tools::per_element());
  BOOST_TEST(plan.count() == 3U);
  BOOST_TEST(plan.geometry.pages == 256U);
  BOOST_TEST(plan.geometry.page_bytes == 2 * page);
  const auto& near = plan.geometry.groups[0];
  const auto& far = plan.geometry.groups[1];
  BOOST_TEST(near.window == 128U);
  BOOST_TEST(near.page_bytes == 2 * page);
  BOOST_TEST(far.window == 1'024U);
  BOOST_TEST(far.page_bytes == page);
  // An eighth of 256 pages of five layers, for three layers.
  BOOST_TEST(near.boundary_pages == 53U);
  BOOST_TEST(far.boundary_pages == 53U);
  BOOST_TEST(near.pages == 4U * 3 + 4 + 53);
  BOOST_TEST(far.pages == 4U * 6 + 4 + 53);
  BOOST_TEST(plan.bytes() == 256 * 2 * page + near.pages * 2 * page + far.pages * page);
}

BOOST_AUTO_TEST_CASE(a_model_that_gains_nothing_has_group_0_alone) {
  const gpu::kv_demand demand{.slots = 4, .context = 16'384};
  const auto alone = [&](const engine::model_spec& spec, const gpu::kv_demand& d) {
    const auto plan = gpu::kv_groups::of(spec, d);
    return plan.count() == 1 && plan.of_layer == std::vector<std::uint32_t>(spec.layers.size(), 0) &&
           plan.bytes() == plan.geometry.pages * spec.layers.size() * page;
  };
  BOOST_TEST(!alone(spec_of({0, 128}), demand));
  BOOST_TEST(alone(spec_of({0, 0}), demand));
  BOOST_TEST(alone(spec_of({128, 128}), demand));  // nothing says what was there before
  BOOST_TEST(alone(spec_of({0, 16'384}), demand));
  BOOST_TEST(alone(spec_of({0, 1}), demand));
  BOOST_TEST(alone(spec_of({0, 128}), {.slots = 2, .context = 1'024}));
  BOOST_TEST(alone(spec_of({0, 128}), {.slots = 64, .context = 16'384, .pages = 100}));
  BOOST_TEST(alone(spec_of({0, 128}), {.slots = 4, .context = 16'384, .window_groups = false}));
  auto encoder = spec_of({0, 128});
  encoder.causal = false;
  BOOST_TEST(alone(encoder, demand));
  auto embeds = spec_of({0, 128});
  embeds.pooling = engine::pooling_kind::last;
  BOOST_TEST(alone(embeds, demand));
  auto latents = spec_of({0, 128});
  latents.latent.rank = 32;
  BOOST_TEST(gpu::kv_groups::of(latents, demand).count() == 1U);
}

BOOST_AUTO_TEST_CASE(boundaries_have_what_is_asked_for_but_never_make_the_cache_larger) {
  const auto given = [](engine::boundary_budget budget) {
    return gpu::kv_groups::of(spec_of({0, 128}), {.slots = 2, .context = 8'192, .boundaries = budget})
        .geometry.groups[0]
        .boundary_pages;
  };
  const auto pages = [&](std::uint64_t wanted) { return given({.bytes = wanted * page}); };
  BOOST_TEST(pages(0) == 0U);
  BOOST_TEST(pages(1) == 0U);  // less than a window
  BOOST_TEST(pages(2) == 2U);
  BOOST_TEST(pages(17) == 17U);
  BOOST_TEST(pages(1'000) == 64U - 6);
  BOOST_TEST(given({.thousandths = 0}) == 0U);
  BOOST_TEST(given({.thousandths = 1}) == 2U);  // a window at least
  BOOST_TEST(given({.thousandths = 250}) == 32U);
  BOOST_TEST(given({.thousandths = 1'000}) == 64U - 6);
}

BOOST_AUTO_TEST_CASE(there_are_only_so_many_groups) {
  const auto plan = gpu::kv_groups::of(spec_of({500, 400, 300, 200, 0}), {.slots = 1, .context = 65'536});
  BOOST_TEST(plan.of_layer == (std::vector<std::uint32_t>{0, 3, 2, 1, 0}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(states_are_the_last_group_and_take_no_part_in_the_others) {
  auto spec = spec_of({0, 128, 0, 0});
  spec.recurrence = {.conv_kernel = 4,
                     .key_heads = 2,
                     .value_heads = 4,
                     .key_length = 16,
                     .value_length = 16,
                     .norm_groups = 4};
  for (const std::size_t layer : {2U, 3U}) {
    spec.layers[layer].mixer = engine::mixer_kind::delta_net;
    spec.layers[layer].heads = spec.layers[layer].kv_heads = 0;
  }
  const gpu::kv_demand demand{.slots = 4, .context = 16'384};
  const auto plan = gpu::kv_groups::of(spec, demand);
  BOOST_TEST_REQUIRE(plan.count() == 3U);
  BOOST_TEST(plan.geometry.has_states());
  const engine::kv_group& states = plan.geometry.groups[1];
  BOOST_TEST((states.need == engine::kv_need::state));
  BOOST_TEST(states.page_bytes == 2U * (4 * 16 * 16 + 3 * (2 * 2 * 16 + 4 * 16)) * sizeof(float));
  BOOST_TEST(plan.geometry.page_bytes == page);
  BOOST_TEST(states.pages == plan.geometry.pages + 4);  // an eighth would be more
  BOOST_TEST(states.boundary_pages == states.pages);
  auto few = demand;
  few.boundaries = {.bytes = 100 * states.page_bytes + 1};
  BOOST_TEST(gpu::kv_groups::of(spec, few).geometry.further().back().pages == 100U);
  few = demand;
  few.context = 256;
  BOOST_TEST(gpu::kv_groups::of(spec, few).geometry.further().back().pages == 8U);
  few.boundaries = {.bytes = 0};
  BOOST_TEST(gpu::kv_groups::of(spec, few).geometry.further().back().pages == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
