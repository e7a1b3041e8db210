// Shared memory of a decode step in one kernel: where inputs, sums and attention lie, and which models have
// room.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <vector>

#include "gpu/plan/decode_program_plan.hpp"
#include "test/unit/gpu/plan/plan_products.hpp"

namespace orcd::test {
namespace {

// So many as one kernel takes, or fewer where their rows, sums and a chunk a warp have no room.
BOOST_AUTO_TEST_CASE(as_many_sequences_fit_as_shared_memory_holds) {
  const auto sequences_of = [](std::uint32_t cols, std::uint32_t rows) {
    decode_program_plan plan(132, kernels::program_sequences_max);
    plan.add_begin(output_product(rows), nullptr);
    packed_matmul_args down = product({matrix(rows, cols)});
    down.output = kernels::matmul_output::add;
    plan.add_matmul(down, nullptr, nullptr);
    std::uint32_t sequences = 0;
    while (plan.fits(sequences + 1)) ++sequences;
    for (std::uint32_t n = 1; n <= sequences; ++n) {
      BOOST_TEST(plan.work_bytes(n) >= n * cols * 2);
      BOOST_TEST(kernels::stream_bytes(plan.work_bytes(n) + plan.kept_bytes(n)) >= 16 * 144U);
    }
    return sequences;
  };
  BOOST_TEST((sequences_of(4864, 896) == 2U && sequences_of(8192, 3072) == 2U));
  BOOST_TEST(sequences_of(32'768, 2048) == 2U);
  BOOST_TEST(sequences_of(49'152, 2048) == 1U);  // no room for a second
  BOOST_TEST((sequences_of(3072, 5120) == 2U && sequences_of(3072, 8192) == 1U));
}

constexpr std::uint32_t sums_of(std::uint32_t tiles, std::uint32_t chunks) {
  return tiles * chunks * kernels::tile_rows * static_cast<std::uint32_t>(sizeof(float));
}

// While outputs of a product of one column are folded, the next phase's input is on its way.
BOOST_AUTO_TEST_CASE(sums_of_a_product_lie_where_the_next_input_does_not) {
  const float norm[1] = {};
  float logits[1] = {};
  decode_program_plan plan(132);
  plan.add_begin(output_product(2880), nullptr);
  plan.add_matmul(product({matrix(5120, 2880)}), nullptr, nullptr);
  plan.add_attention(attention_of(64, 8, 64), nullptr, nullptr);
  plan.add_matmul(output_product(2880), nullptr, nullptr);
  add_route(plan);
  plan.add_matmul(of_experts(gate_up(2880, 2880)), nullptr, nullptr);
  plan.add_matmul(of_experts(product({matrix(2880, 2880)})), nullptr, nullptr);
  plan.add_combine({.width = 2880, .used = 4, .columns = 1}, nullptr, nullptr);
  const std::vector<bool> overlaps = {false, true, false, true, false, true, true, false};
  for (std::size_t i = 0; i < overlaps.size(); ++i) BOOST_TEST(plan.phases()[i].overlaps_next == overlaps[i]);
  BOOST_TEST(plan.phases()[1].attention_next);
  const auto end = [&](std::size_t phase, std::uint32_t sums) { return plan.phases()[phase].sums_at + sums; };
  BOOST_TEST(plan.phases()[1].sums_at == 2 * 2880U);
  BOOST_TEST(plan.attention_at() + kernels::attention_page_bytes(64) >= end(1, sums_of(3, 12)));
  BOOST_TEST(plan.phases()[3].sums_at == kernels::route_work_bytes(2880, 1));  // wider than its own 3,072
  BOOST_TEST(plan.phases()[5].sums_at == 2 * 2880U);
  BOOST_TEST(plan.work_bytes() >= end(3, sums_of(2, 12)));
  BOOST_TEST(plan.work_bytes() >= end(5, sums_of(2 * 6, 12)));
  BOOST_TEST(plan.work_bytes() >= plan.attention_at() + kernels::attention_work_bytes(64));
  packed_matmul_args head = product({matrix(201'088, 2880, packed_format::q8_0)});
  head.norm_x = head.norm_weight = norm;
  head.out = logits;
  BOOST_TEST_REQUIRE(plan.add_head(head, nullptr));
  BOOST_TEST(plan.work_bytes() >= 2 * 2880 + gpu::head_sums_max / 2);
}

BOOST_AUTO_TEST_CASE(sums_clear_the_wider_of_two_inputs) {
  decode_program_plan plan(132);
  plan.add_begin(output_product(3072), nullptr);
  plan.add_matmul(gate_up(8192, 3072), nullptr, nullptr);
  packed_matmul_args down = product({matrix(3072, 8192)});
  down.output = kernels::matmul_output::add;
  plan.add_matmul(down, nullptr, nullptr);
  plan.add_matmul(product({matrix(9216, 3072)}), nullptr, nullptr);
  BOOST_TEST(plan.phases()[1].sums_at == 2 * 8192U);
  BOOST_TEST(plan.phases()[2].sums_at == 2 * 8192U);
  BOOST_TEST(plan.phases()[3].sums_at == 2 * 3072U);
  BOOST_TEST(plan.work_bytes() >= 2 * 8192 + sums_of(8, 12));
}

// Narrow heads after a wide input: attention moves up.
BOOST_AUTO_TEST_CASE(attention_begins_where_its_input_meets_no_sums) {
  decode_program_plan plan(6);
  plan.add_begin(output_product(8192), nullptr);
  plan.add_matmul(product({matrix(768, 8192)}), nullptr, nullptr);
  plan.add_attention(attention_of(8, 8, 32), nullptr, nullptr);
  BOOST_TEST(plan.phases()[1].sums_at == 2 * 8192U);
  BOOST_TEST(plan.attention_at() > 0U);
  BOOST_TEST(plan.attention_at() + kernels::attention_page_bytes(32) >= 2 * 8192 + sums_of(8, 32));
}

// A dense model of 70 billion weights: its widest input and its most sums are not those of one product.
BOOST_AUTO_TEST_CASE(the_widest_dense_models_have_room) {
  decode_program_plan plan(132);
  const auto wide = [](std::uint32_t rows, std::uint32_t cols) {
    return matrix(rows, cols, packed_format::q8_0);
  };
  packed_matmul_args o = product({wide(8192, 8192)});
  o.output = kernels::matmul_output::add;
  packed_matmul_args up = product({wide(28'672, 8192), wide(28'672, 8192)});
  up.output = kernels::matmul_output::swiglu;
  up.act_stride = 28'672;
  packed_matmul_args down = product({wide(8192, 28'672)});
  down.output = kernels::matmul_output::add;
  plan.add_begin(o, nullptr);
  plan.add_matmul(product({wide(10'240, 8192)}), nullptr, nullptr);
  plan.add_attention(attention_of(64, 8, 128), nullptr, nullptr);
  plan.add_matmul(o, nullptr, nullptr);
  plan.add_matmul(up, nullptr, nullptr);
  plan.add_matmul(down, nullptr, nullptr);
  BOOST_TEST(plan.fits());
  BOOST_TEST(plan.phases()[3].overlaps_next);
  BOOST_TEST(!plan.phases()[4].overlaps_next);  // sums of 14 tiles and an input of 56 KiB
}

}  // namespace
}  // namespace orcd::test
