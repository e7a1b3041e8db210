// Drafts that a GPU's step has room for.
#include "gpu/plan/draft_room.hpp"

#include <boost/test/unit_test.hpp>

#include "engine/accelerator.hpp"
#include "gpu/plan/step_results.hpp"

namespace orcd::test {
namespace {

engine::model_spec of(std::uint32_t vocab, std::uint32_t heads) {
  engine::model_spec spec;
  spec.vocab = vocab;
  spec.layers.resize(2);
  for (engine::layer_spec& layer : spec.layers) layer.key_length = layer.value_length = 64;
  spec.layers.front().heads = heads / 2;
  spec.layers.back().heads = heads;
  return spec;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(draft_room)

BOOST_AUTO_TEST_CASE(a_draft_takes_its_logits_and_its_heads_partial_results) {
  const gpu::draft_room room = gpu::plan_drafts(of(1000, 14), 8, 3, 64);
  BOOST_TEST(room.tokens == 64U);
  BOOST_TEST(room.bytes == 64 * (1000 + 14 * 3 * (64 + 2)) * 4U);
}

BOOST_AUTO_TEST_CASE(few_slots_and_wide_results_have_fewer) {
  BOOST_TEST(gpu::plan_drafts(of(1000, 14), 1, 3, 64).tokens == engine::drafts_max);
  BOOST_TEST(gpu::plan_drafts(of(1000, 14), 8, 3, 0).bytes == 0U);
  const gpu::draft_room wide = gpu::plan_drafts(of(4'000'000, 14), 64, 3, 64);
  BOOST_TEST(wide.tokens == 16U);
  BOOST_TEST(wide.bytes <= gpu::draft_bytes_max);
  BOOST_TEST(gpu::plan_drafts(of(1000, 14), 220, 3, 64).tokens == 36U);
}

BOOST_AUTO_TEST_CASE(models_that_embed_have_none) {
  engine::model_spec spec = of(1000, 14);
  spec.pooling.emplace();
  BOOST_TEST(gpu::plan_drafts(spec, 8, 3, 64).tokens == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
