// The phases of a model with integer activations in a decode step that is one kernel.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <set>
#include <utility>
#include <vector>

#include "kernels/decode_program/program_codes.hpp"
#include "test/unit/gpu/plan/plan_products.hpp"

namespace orcd::test {
namespace {

namespace data = boost::unit_test::data;

kernels::ternary_matrix ternary(std::uint32_t rows, std::uint32_t cols, float scale = 0.5F) {
  return {reinterpret_cast<const std::byte*>(std::uintptr_t{1} << 40), rows, cols, scale};
}

kernels::ternary_matmul_args ternary_product(std::vector<kernels::ternary_matrix> stack, bool add = false) {
  kernels::ternary_matmul_args args;
  args.matrices = static_cast<std::uint32_t>(stack.size());
  for (std::size_t i = 0; i < stack.size(); ++i) args.w[i] = stack[i];
  args.add = add;
  return args;
}

struct ternary_shape {
  std::uint32_t width = 2560, heads = 20, kv_heads = 5, head = 128, ffn = 6912;
};

/// A layer, as BitNet b1.58 2B-4T has it.
class ternary_plan {
 public:
  explicit ternary_plan(const ternary_shape& s, std::uint32_t blocks = 132) : plan(blocks) {
    const std::uint32_t q = s.heads * s.head;
    const std::uint32_t kv = s.kv_heads * s.head;
    kernels::norm_to_int8_args floats;
    floats.weight = norm;
    kernels::norm_to_int8_args halves;
    halves.halves = reinterpret_cast<const __half*>(norm);
    kernels::norm_to_int8_args activated;
    activated.weight = norm + 1;
    activated.squared = true;
    plan.add_begin(ternary(s.width, q), nullptr, nullptr);
    plan.add_ternary(
        ternary_product({ternary(q, s.width, 1.0F), ternary(kv, s.width, 2.0F), ternary(kv, s.width, 3.0F)}),
        floats, nullptr, nullptr, nullptr);
    plan.add_attention(attention_of(s.heads, s.kv_heads, s.head), nullptr, nullptr);
    plan.add_ternary(ternary_product({ternary(s.width, q)}, true), halves, nullptr, nullptr, nullptr);
    plan.add_ternary(ternary_product({ternary(s.ffn, s.width), ternary(s.ffn, s.width)}), floats, &activated,
                     nullptr, nullptr);
    plan.add_ternary(ternary_product({ternary(s.width, s.ffn)}, true), activated, nullptr, nullptr, nullptr);
  }

  [[nodiscard]] std::vector<kernels::block_share> shares_of(std::uint32_t phase) const {
    const std::size_t blocks = plan.shares().size() / rows();
    const auto first =
        plan.shares().begin() + static_cast<std::ptrdiff_t>(std::size_t{plan.row_of(phase).first} * blocks);
    return {first, first + static_cast<std::ptrdiff_t>(blocks)};
  }
  [[nodiscard]] std::size_t rows() const {
    std::set<std::uint32_t> firsts;
    for (std::uint32_t i = 0; i < plan.phases().size(); ++i) firsts.insert(plan.row_of(i).first);
    return firsts.size();
  }

  float norm[2] = {};
  decode_program_plan plan;
};

BOOST_AUTO_TEST_SUITE(ternary_program)

BOOST_DATA_TEST_CASE(every_tile_is_one_block_s, data::make({7U, 78U, 132U}), blocks) {
  const ternary_plan its({}, blocks);
  for (const std::uint32_t phase : {1U, 3U, 4U, 5U}) {
    const kernels::packed_matmul_args& product = its.plan.phases()[phase].matmul;
    std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
    std::uint32_t least = UINT32_MAX;
    std::uint32_t most = 0;
    std::size_t all = 0;
    for (std::uint32_t m = 0; m < product.matrices; ++m)
      all += product.w[m].rows / kernels::ternary_tile_rows;
    for (const kernels::block_share& share : its.shares_of(phase)) {
      for (std::uint32_t m = 0; m < product.matrices; ++m) {
        for (std::uint32_t t = 0; t < share.tiles[m]; ++t)
          BOOST_TEST(seen.emplace(m, share.first_tile[m] + t).second);
      }
      BOOST_TEST(share.chunks == share.tiles[0] + share.tiles[1] + share.tiles[2]);
      if (phase == 4) BOOST_TEST(share.tiles[0] == share.tiles[1]);
      least = std::min(least, share.chunks);
      most = std::max(most, share.chunks);
    }
    BOOST_TEST(seen.size() == all);
    BOOST_TEST(most - least <= (phase == 4 ? 2U : 1U));
  }
}

BOOST_AUTO_TEST_CASE(phases_say_what_a_product_does) {
  const ternary_plan its({});
  const auto& phases = its.plan.phases();
  BOOST_TEST_REQUIRE(phases.size() == 6U);
  BOOST_TEST((phases[1].kind == kernels::phase_kind::ternary));
  BOOST_TEST(phases[1].ternary.code_scale[2] == 3.0F);
  BOOST_TEST((phases[1].matmul.output == kernels::matmul_output::store));
  BOOST_TEST((phases[1].attention_next && !phases[1].ternary.from_halves));
  BOOST_TEST((phases[3].ternary.from_halves && phases[3].ternary.norm_weight == nullptr));
  BOOST_TEST((phases[3].matmul.output == kernels::matmul_output::add));
  BOOST_TEST((kernels::is_paired(phases[4].matmul) && phases[4].ternary.squared));
  BOOST_TEST((phases[4].ternary.next_norm == its.norm + 1 && phases[4].ternary.next_cols == 6912U));
  BOOST_TEST((!phases[5].ternary.squared && phases[5].ternary.next_norm == nullptr));
  BOOST_TEST(phases[5].chunk_bytes[0] == 6912U);
}

// While outputs are stored the next input comes.
BOOST_AUTO_TEST_CASE(sums_clear_both_inputs) {
  const ternary_plan its({});
  const auto& phases = its.plan.phases();
  BOOST_TEST((phases[3].overlaps_next && phases[4].overlaps_next));
  BOOST_TEST(phases[3].sums_at == kernels::ternary_input_bytes(2560));
  BOOST_TEST(phases[4].sums_at == kernels::ternary_input_bytes(6912));
  BOOST_TEST(its.plan.work_bytes() >= phases[4].sums_at + kernels::ternary_sums_bytes(28));
}

BOOST_AUTO_TEST_CASE(what_the_kernel_can_do_is_taken) {
  BOOST_TEST(ternary_plan({}).plan.fits());
  BOOST_TEST(!ternary_plan({}).plan.fits(2));
  BOOST_TEST(ternary_plan({.ffn = 8704}).plan.fits());
  BOOST_TEST(!ternary_plan({.ffn = 16'384}).plan.fits());                          // no room for a chunk
  BOOST_TEST(!ternary_plan({.heads = 32, .head = 80, .ffn = 7000}).plan.fits());   // no whole blocks of codes
  BOOST_TEST(!ternary_plan({.heads = 64, .kv_heads = 1, .head = 2}).plan.fits());  // no whole tile of keys
  decode_program_plan mixed(132);
  mixed.add_begin(output_product(2560), nullptr);
  mixed.add_ternary(ternary_product({ternary(2560, 2560)}, true), {}, nullptr, nullptr, nullptr);
  BOOST_TEST(!mixed.fits());
}

BOOST_AUTO_TEST_CASE(it_needs_a_kernel_of_its_own) {
  const auto needs = ternary_plan({}).plan.needs();
  BOOST_TEST(needs.within(kernels::ternary_code::has));
  BOOST_TEST(!needs.within(kernels::any_code::has));
  BOOST_TEST(!kernels::has_adapted_kernel(needs));
  BOOST_TEST(!kernels::program_needs{}.within(kernels::ternary_code::has));
}

BOOST_AUTO_TEST_CASE(the_output_head_comes_last) {
  ternary_plan its({});
  const float norm[1] = {};
  float logits[1] = {};
  packed_matmul_args head = product({matrix(128'256, 2560, packed_format::f16)});
  head.norm_x = head.norm_weight = norm;
  head.out = logits;
  BOOST_TEST_REQUIRE(its.plan.add_head(head, nullptr));
  BOOST_TEST(its.plan.phases()[5].overlaps_next);
  BOOST_TEST(its.plan.phases()[5].sums_at >= 2 * 2560U);  // past the head's f16 input
  BOOST_TEST(its.plan.needs().within(kernels::ternary_code::has));
  BOOST_TEST(its.plan.phases()[0].next_norm == norm);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::test
