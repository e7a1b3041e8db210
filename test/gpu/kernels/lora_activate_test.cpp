// Gate and up of steps with LoRA adapters: activated bit for bit as the product itself does it in columns
// that none changes.
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

/// Slot 0 has no adapter, slot 1 one that leaves gate and up, slot 2 that and one that changes up.
struct adapted {
  static constexpr std::uint32_t rank = 3, room = 4096;
  std::vector<kernels::lora_held> held{{0, 1.0F}, {0, 1.0F}, {0, 1.0F}, {rank, 0.5F}};  // two places
  std::vector<kernels::lora_slot> slots{{}, {1, {{0, 1.0F}}}, {2, {{0, 1.0F}, {1, 1.0F}}}};
  std::vector<kernels::step_token> steps;
  std::vector<float> values;

  adapted() {
    for (std::uint32_t c = 0; c < columns; ++c) steps.push_back({0, 0, static_cast<std::int32_t>(c % 3)});
    for (std::uint32_t i = 0; i < 2 * room; ++i) values.push_back(static_cast<float>(i % 37) / 37.0F - 0.5F);
  }
};

/// A product's gate and up, and what becomes of them.
struct gated_problem {
  static constexpr std::uint32_t rows = 200, cols = 512, act_stride = 256;

  explicit gated_problem(const format_pair& format)
      : gate(format, rows, cols, 51), up(format, rows, cols, 52), x(cols, columns, 53) {}

  void multiply(kernels::matmul_output output, const device_array<__half>& act) const {
    kernels::tiled_matmul_args all{};
    all.matmul = arguments(gate, x, 0, columns, gate_up);
    all.matmul.w[1] = up.view;
    all.matmul.matrices = 2;
    all.matmul.output = output;
    all.matmul.out_stride = 2 * rows;
    all.matmul.act = act.data();
    all.matmul.act_stride = act_stride;
    BOOST_REQUIRE_EQUAL(kernels::launch_packed_matmul(all, nullptr), 0);
  }

  /// What adapters make of gate_up; with `act` activated there, else in gate_up.
  void add(const adapted& with, __half* act, bool clamped) const {
    const device_array<kernels::lora_held> held{std::span<const kernels::lora_held>(with.held)};
    const device_array<kernels::lora_slot> slots{std::span<const kernels::lora_slot>(with.slots)};
    const device_array<kernels::step_token> steps{std::span<const kernels::step_token>(with.steps)};
    const device_array<float> values{std::span<const float>(with.values)};
    device_array<float> inner(std::size_t{columns} * kernels::lora_matrices_max * kernels::lora_adapters_max *
                              adapted::rank);
    kernels::lora_add_args args;
    args.of = {steps.data(), nullptr, slots.data(), columns, false};
    args.tables.held = held.data();
    args.tables.places = 2;
    args.tables.values = values.data();
    args.tables.room = adapted::room;
    args.matrices[0] = {0, rows, 0, 0, 4};
    args.matrices[1] = {1, rows, rows, 8, 8 + adapted::rank * cols};
    args.count = 2;
    args.in = cols;
    args.rank_max = adapted::rank;
    args.halves = x.device->data();
    args.x_stride = x.stride;
    args.inner = inner.data();
    args.y = gate_up.data();
    args.y_stride = 2 * rows;
    if (act != nullptr) args.gated = {act, act_stride, rows, clamped};
    BOOST_REQUIRE_EQUAL(kernels::launch_lora(args, nullptr), 0);
    static_cast<void>(inner.read());  // waits
  }

  test_matrix gate, up;
  test_input x;
  device_array<float> gate_up{std::size_t{columns} * 2 * rows};
};

bool same_bytes(const __half* a, const __half* b, std::size_t count) {
  return std::memcmp(a, b, count * sizeof(__half)) == 0;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(lora_activate)

BOOST_DATA_TEST_CASE(gate_and_up_are_activated_as_by_the_product,
                     boost::unit_test::data::make(formats) * boost::unit_test::data::make({false, true}),
                     format, clamped) {
  const gated_problem p(format);
  const std::vector<__half> poison(std::size_t{columns} * p.act_stride, __float2half_rn(-7.0F));
  const device_array<__half> product{std::span<const __half>(poison)}, act{std::span<const __half>(poison)};
  p.multiply(clamped ? kernels::matmul_output::swiglu_clamped : kernels::matmul_output::swiglu, product);
  p.multiply(kernels::matmul_output::store, act);
  const adapted with;
  p.add(with, act.data(), clamped);
  const auto want = product.read(), got = act.read();
  // The same in two steps: added first, then activated without adapters.
  p.add(with, nullptr, clamped);
  adapted without;
  without.slots.assign(3, {});
  p.add(without, act.data(), clamped);
  const auto in_two = act.read();
  for (std::uint32_t c = 0; c < columns; ++c) {
    const std::size_t at = std::size_t{c} * p.act_stride;
    BOOST_TEST(same_bytes(&got[at], &want[at], p.rows) == (with.steps[c].slot != 2), c);
    BOOST_TEST(same_bytes(&got[at], &in_two[at], p.rows), c);
    BOOST_TEST(same_bytes(&got[at + p.rows], &poison[at + p.rows], p.act_stride - p.rows), c);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
