// Gate and up of columns that LoRA adapters change: activated bit for bit as the product itself does it, and
// no other column.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <vector>

#include "kernels/layer/lora.hpp"
#include "test/gpu/kernels/packed_matrices.hpp"

namespace orcd::test {
namespace {

constexpr std::uint32_t columns = 11;

template <class T>
bool same_bytes(const T* a, const T* b, std::size_t count) {
  return std::memcmp(a, b, count * sizeof(T)) == 0;
}

/// Slot 0 has no adapter, slot 1 one that leaves gate and up, slot 2 that and one that changes them.
struct adapted {
  std::vector<kernels::lora_held> held{{0, 1.0F}, {4, 1.0F}, {3, 1.0F}, {0, 1.0F}};  // two places
  std::vector<kernels::lora_slot> slots{{}, {1, {{0, 1.0F}}}, {2, {{0, 1.0F}, {1, 1.0F}}}};
  std::vector<kernels::step_token> steps;

  adapted() {
    for (std::uint32_t c = 0; c < columns; ++c) steps.push_back({0, 0, static_cast<std::int32_t>(c % 3)});
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(lora_activate)

BOOST_DATA_TEST_CASE(changed_columns_are_activated_as_by_the_product,
                     boost::unit_test::data::make(formats) * boost::unit_test::data::make({false, true}),
                     format, clamped) {
  constexpr std::uint32_t rows = 200, cols = 512, act_stride = 256;
  const test_matrix gate(format, rows, cols, 51), up(format, rows, cols, 52);
  const test_input x(cols, columns, 53);
  const device_array<float> gate_up(std::size_t{columns} * 2 * rows);
  const std::vector<__half> poison(std::size_t{columns} * act_stride, __float2half_rn(-7.0F));
  const device_array<__half> product{std::span<const __half>(poison)}, act{std::span<const __half>(poison)};
  const auto launch = [&](kernels::matmul_output output, const device_array<__half>& to) {
    kernels::tiled_matmul_args all{};
    all.matmul = arguments(gate, x, 0, columns, gate_up);
    all.matmul.w[1] = up.view;
    all.matmul.matrices = 2;
    all.matmul.output = output;
    all.matmul.out_stride = 2 * rows;
    all.matmul.act = to.data();
    all.matmul.act_stride = act_stride;
    BOOST_REQUIRE_EQUAL(kernels::launch_packed_matmul(all, nullptr), 0);
  };
  launch(clamped ? kernels::matmul_output::swiglu_clamped : kernels::matmul_output::swiglu, product);
  launch(kernels::matmul_output::store, act);

  const adapted with;
  const device_array<kernels::lora_held> held{std::span<const kernels::lora_held>(with.held)};
  const device_array<kernels::lora_slot> slots{std::span<const kernels::lora_slot>(with.slots)};
  const device_array<kernels::step_token> steps{std::span<const kernels::step_token>(with.steps)};
  kernels::lora_activate_args args;
  args.of = {steps.data(), nullptr, slots.data(), columns, false};
  args.held = held.data();
  args.places = 2;
  args.place[0] = 0;
  args.count = 1;
  args.gate_up = gate_up.data();
  args.width = rows;
  args.clamped = clamped;
  args.act = act.data();
  args.act_stride = act_stride;
  BOOST_REQUIRE_EQUAL(kernels::launch_lora_activate(args, nullptr), 0);

  const auto got = act.read(), want = product.read();
  for (std::uint32_t c = 0; c < columns; ++c) {
    const bool changed = with.steps[c].slot == 2;
    const std::size_t at = std::size_t{c} * act_stride;
    BOOST_TEST(same_bytes(&got[at], changed ? &want[at] : &poison[at], rows), c);
    BOOST_TEST(same_bytes(&got[at + rows], &poison[at + rows], act_stride - rows), c);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
