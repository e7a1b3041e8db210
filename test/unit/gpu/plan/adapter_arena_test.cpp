// What LoRA adapters take of a GPU, in numbers that were computed by hand.
#include "gpu/plan/adapter_arena.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "engine/gguf/gguf_file.hpp"
#include "gpu/plan/arena_plan.hpp"
#include "gpu/plan/decode_program_plan.hpp"
#include "kernels/layer/lora_args.hpp"
#include "test/support/tiny_model.hpp"

namespace orcd::test {
namespace {

using gpu::vram_aligned;

struct given {
  bytes image = make_tiny_model({});
  engine::gguf_file file = engine::gguf_file::parse(image, "tiny").value();
  engine::model model = engine::load_model(file).value();

  [[nodiscard]] gpu::adapter_arena arena(engine::adapter_room room, std::uint32_t slots,
                                         std::uint32_t columns) const {
    return {model, room, gpu::adapter_layout(model, room), slots, columns};
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(adapter_arena)

BOOST_FIXTURE_TEST_CASE(without_room_there_is_none, given) {
  BOOST_TEST(arena({}, 4, 512).bytes == 0U);
  BOOST_TEST(gpu::adapter_arena().bytes == 0U);
}

BOOST_FIXTURE_TEST_CASE(a_model_whose_products_activate, given) {
  const engine::adapter_room room{3, 8};
  const gpu::adapter_layout layout(model, room);
  const std::uint64_t ffn = model.spec.layers.front().ffn_size;
  const auto all = arena(room, 4, 100);
  BOOST_TEST(all.values == 0U);
  BOOST_TEST(all.held == vram_aligned(3 * layout.floats() * 4));
  BOOST_TEST(all.slots - all.held == vram_aligned(3 * layout.places().size() * sizeof(kernels::lora_held)));
  BOOST_TEST(all.found - all.slots == vram_aligned(4 * sizeof(kernels::lora_slot)));
  BOOST_TEST(all.inner - all.found == vram_aligned(16ULL * layout.places().size() * 8 * 16));
  BOOST_TEST(all.gate_up - all.inner == vram_aligned(100ULL * 3 * 8 * 8 * 4));
  BOOST_TEST(all.floats - all.gate_up == vram_aligned(100 * 2 * ffn * 4));
  BOOST_TEST(all.matrices == all.floats);
  const std::uint64_t phases = gpu::phases_max(model.spec);
  BOOST_TEST(all.pairs - all.matrices == vram_aligned(phases * sizeof(kernels::phase_matrices)));
  BOOST_TEST(all.staging - all.pairs == vram_aligned(phases * sizeof(kernels::phase_pairs)));
  BOOST_TEST(all.bytes - all.staging == 1U << 19U);
}

BOOST_FIXTURE_TEST_CASE(a_model_whose_products_read_integers, given) {
  model.spec.integer_activations = true;
  const engine::layer_spec& layer = model.spec.layers.front();
  const std::uint64_t widest = std::max({model.spec.embedding, layer.ffn_size, layer.attended_rows()});
  const auto all = arena({1, 8}, 4, 100);
  BOOST_TEST(all.floats == all.gate_up);
  BOOST_TEST(all.staging - all.floats == vram_aligned(100 * widest * 4));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
