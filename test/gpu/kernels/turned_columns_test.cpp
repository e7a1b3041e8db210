// Heads that are turned by three positions: a pair has the bits that it would have at its own one.
#include <cuda_fp16.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/attention/paged_attention.hpp"
#include "test/gpu/device_array.hpp"
#include "test/support/random_blocks.hpp"

namespace orcd::test {
namespace {

constexpr std::uint32_t columns = 5, heads = 3, kv_heads = 1, width = 64, pairs = width / 2;

/// A layer's rows, and what rotation leaves of their queries.
struct rotation {
  rotation() : rows(std::size_t{columns} * stride), frequencies(pairs) {
    std::mt19937_64 random(3);
    for (float& value : rows) value = random_unit(random);
    for (std::uint32_t i = 0; i < pairs; ++i)
      frequencies[i] = std::pow(10'000.0F, -static_cast<float>(i) / static_cast<float>(pairs));
  }

  /// Of tokens at `positions`.
  [[nodiscard]] std::vector<__half> queries(const std::vector<std::int32_t>& positions,
                                            const kernels::step_turn* turns, const std::uint8_t* axes,
                                            bool interleaved) const {
    std::vector<kernels::step_token> steps;
    for (const std::int32_t position : positions) steps.push_back({0, position, 0});
    const device_array<kernels::step_token> device_steps{std::span<const kernels::step_token>(steps)};
    const device_array<float> qkv{std::span<const float>(rows)},
        inv_freq{std::span<const float>(frequencies)};
    const std::vector<std::int32_t> table{0};
    const device_array<std::int32_t> page_table{std::span<const std::int32_t>(table)};
    const device_array<std::uint8_t> keys(std::size_t{engine::kv_page_positions} * width * 2),
        values(std::size_t{engine::kv_page_positions} * width * 2);
    const device_array<__half> q(std::size_t{columns} * heads * width);
    kernels::rope_store_args a;
    a.qkv = qkv.data();
    a.stride = stride;
    a.steps = device_steps.data();
    a.columns = columns;
    a.heads = heads;
    a.kv_heads = kv_heads;
    a.width = a.padded_width = a.rope_dims = width;
    a.interleaved = interleaved;
    a.inv_freq = inv_freq.data();
    a.turns = turns;
    a.axes = axes;
    a.q = q.data();
    a.cache = {keys.data(), values.data(), page_table.data(), 1};
    BOOST_REQUIRE_EQUAL(kernels::launch_rope_store(a, nullptr), 0);
    return q.read();
  }

  static constexpr std::uint32_t stride = (heads + 2 * kv_heads) * width;
  std::vector<float> rows, frequencies;
};

bool same_half(__half a, __half b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(turned_columns)

BOOST_AUTO_TEST_CASE(a_pair_has_the_bits_of_its_own_position) {
  const rotation of;
  const std::vector<std::int32_t> positions{7, 8, 9, 10, 11};
  const std::vector<kernels::step_turn> turns{
      {{7, 7, 7}}, {{8, 8, 8}}, {{8, 9, 30}}, {{8, 40, 9}}, {{21, 2, 5}}};
  std::vector<std::uint8_t> axes;
  for (std::uint32_t i = 0; i < pairs; ++i) axes.push_back(static_cast<std::uint8_t>(i % 3));
  const device_array<kernels::step_turn> device_turns{std::span<const kernels::step_turn>(turns)};
  const device_array<std::uint8_t> device_axes{std::span<const std::uint8_t>(axes)};
  for (const bool interleaved : {false, true}) {
    const auto got = of.queries(positions, device_turns.data(), device_axes.data(), interleaved);
    for (std::uint32_t axis = 0; axis < 3; ++axis) {
      std::vector<std::int32_t> own;
      for (const kernels::step_turn& turn : turns) own.push_back(turn.of[axis]);
      const auto want = of.queries(own, nullptr, nullptr, interleaved);
      for (std::size_t i = 0; i < got.size(); ++i) {
        const auto d = static_cast<std::uint32_t>(i % width);
        if (axes[interleaved ? d / 2 : d % pairs] != axis) continue;
        BOOST_TEST_REQUIRE(same_half(got[i], want[i]), "axis " << axis << ", value " << i);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
