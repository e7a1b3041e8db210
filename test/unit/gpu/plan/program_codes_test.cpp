// Which kernels have code for what a decode program needs: a model must not get one without its formats.
#include "kernels/decode_program/program_codes.hpp"

#include <boost/test/unit_test.hpp>

#include "gpu/plan/decode_program_plan.hpp"

namespace orcd::test {
namespace {

using kernels::packed_format;

kernels::packed_matmul_args product(packed_format format) {
  kernels::packed_matmul_args args;
  args.matrices = 1;
  args.columns = 1;
  args.w[0].format = format;
  args.w[0].rows = args.w[0].cols = 512;
  return args;
}

/// Of a plan with these products, and with a router if there are experts.
kernels::program_needs needs_of(std::initializer_list<packed_format> formats, bool experts) {
  gpu::decode_program_plan plan(4);
  kernels::packed_matmul_args o = product(packed_format::q8_0);
  o.output = kernels::matmul_output::add;
  plan.add_begin(o, nullptr);
  for (const packed_format format : formats) plan.add_matmul(product(format), nullptr, nullptr);
  if (experts) plan.add_route({.width = 512, .experts = 8, .used = 2, .columns = 1}, nullptr, nullptr);
  return plan.needs();
}

BOOST_AUTO_TEST_SUITE(program_codes)

BOOST_AUTO_TEST_CASE(a_plan_needs_the_formats_of_its_products) {
  const auto needs = needs_of({packed_format::q4_k, packed_format::q6_k}, false);
  BOOST_TEST(needs.formats ==
             (kernels::format_bit(packed_format::q4_k) | kernels::format_bit(packed_format::q6_k)));
  BOOST_TEST(!needs.experts);
  BOOST_TEST(needs_of({packed_format::q4_k}, true).experts);
}

BOOST_AUTO_TEST_CASE(k_mixtures_have_kernels_of_their_own) {
  const auto dense = needs_of({packed_format::q4_k, packed_format::q5_0, packed_format::q8_0}, false);
  BOOST_TEST(dense.within(kernels::dense_code::has));
  BOOST_TEST(!dense.within(kernels::fp4_code::has));
  BOOST_TEST(needs_of({packed_format::q8_0}, false).within(kernels::dense_code::has));
  const auto routed = needs_of({packed_format::q4_k}, true);
  BOOST_TEST(!routed.within(kernels::dense_code::has));
  BOOST_TEST(!needs_of({packed_format::q4_k, packed_format::bf16}, false).within(kernels::dense_code::has));
}

BOOST_AUTO_TEST_CASE(fp4_experts_have_kernels_of_their_own) {
  BOOST_TEST(needs_of({packed_format::mxfp4, packed_format::q8_0}, true).within(kernels::fp4_code::has));
  BOOST_TEST(!needs_of({packed_format::mxfp4, packed_format::f16}, true).within(kernels::fp4_code::has));
}

BOOST_AUTO_TEST_CASE(files_of_fewer_bits_have_kernels_of_their_own) {
  const auto three = needs_of({packed_format::q3_k, packed_format::q5_k, packed_format::q6_k}, false);
  BOOST_TEST(three.within(kernels::few_bit_code::has));
  BOOST_TEST(!three.within(kernels::dense_code::has));
  const auto looked_up = needs_of({packed_format::iq4_xs, packed_format::q5_k, packed_format::q6_k}, false);
  BOOST_TEST(looked_up.within(kernels::table_code::has));
  BOOST_TEST(!looked_up.within(kernels::few_bit_code::has));
  BOOST_TEST(!needs_of({packed_format::iq4_xs}, true).within(kernels::table_code::has));
}

BOOST_AUTO_TEST_CASE(one_kernel_has_code_for_everything) {
  for (std::uint32_t f = 0; f <= static_cast<std::uint32_t>(packed_format::f32); ++f)
    BOOST_TEST(needs_of({static_cast<packed_format>(f)}, true).within(kernels::any_code::has));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::test
