// Paged attention against a naive f64 softmax; decode and prefill must agree bit for bit.
#include <cuda_fp16.h>

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>

#include "kernels/paged_attention.hpp"
#include "test/gpu/device_array.hpp"
#include "test/support/random_blocks.hpp"

namespace orcd::test {
namespace {

struct geometry {
  std::uint32_t heads, kv_heads, width, window;
  bool sinks;
};
std::ostream& operator<<(std::ostream& out, const geometry& g) {
  return out << g.heads << "/" << g.kv_heads << "x" << g.width << " window " << g.window
             << (g.sinks ? " sinks" : "");
}
const std::vector<geometry> geometries{
    {14, 2, 64, 0, false}, {4, 4, 96, 0, false}, {16, 2, 64, 128, true},
    {16, 2, 64, 0, true},  {6, 2, 16, 0, false}, {8, 2, 128, 300, false},
};

/// Random QKV of a sequence, stored through rope_store without rotation, so that the cache holds f16.
struct sequence {
  sequence(const geometry& g, std::uint32_t length, std::uint64_t seed)
      : geo(g),
        count(length),
        padded((g.width + 31) / 32 * 32),
        pages((length + kernels::page_positions - 1) / kernels::page_positions),
        stride((g.heads + 2 * g.kv_heads) * g.width),
        values(std::size_t{length} * stride) {
    std::mt19937_64 random(seed);
    for (float& v : values) v = __half2float(__float2half_rn(random_unit(random) * 2.0F));
    qkv.emplace(std::span<const float>(values));
    std::vector<kernels::step_column> columns(length);
    for (std::uint32_t i = 0; i < length; ++i) columns[i] = {0, static_cast<std::int32_t>(i), 0};
    steps.emplace(std::span<const kernels::step_column>(columns));
    // Pages in a scrambled order, so that a page id is never its index.
    std::vector<std::int32_t> table(pages);
    for (std::uint32_t i = 0; i < pages; ++i) table[i] = static_cast<std::int32_t>((i * 7 + 3) % (pages + 8));
    page_table.emplace(std::span<const std::int32_t>(table));
    const std::size_t cache_values = std::size_t{pages + 8} * g.kv_heads * kernels::page_positions * padded;
    keys.emplace(cache_values);
    cache_v.emplace(cache_values);
    keys->fill(0);
    cache_v->fill(0);
    q.emplace(std::size_t{length} * g.heads * padded);
    if (g.sinks) {
      for (std::uint32_t h = 0; h < g.heads; ++h) sink_values.push_back(random_unit(random) * 3.0F);
      sinks.emplace(std::span<const float>(sink_values));
    }
    kernels::rope_store_args a;
    a.qkv = qkv->data();
    a.stride = stride;
    a.steps = steps->data();
    a.columns = length;
    a.heads = g.heads;
    a.kv_heads = g.kv_heads;
    a.width = g.width;
    a.padded_width = padded;
    a.q = q->data();
    a.cache = cache();
    BOOST_REQUIRE_EQUAL(kernels::launch_rope_store(a, nullptr), 0);
  }

  [[nodiscard]] kernels::kv_pages cache() const {
    return {keys->data(), cache_v->data(), page_table->data(), pages};
  }

  [[nodiscard]] kernels::attention_args_paged arguments(std::uint32_t first, std::uint32_t columns,
                                                        __half* out) const {
    kernels::attention_args_paged a;
    a.q = q->data() + std::size_t{first} * geo.heads * padded;
    a.cache = cache();
    a.steps = steps->data() + first;
    a.columns = columns;
    a.heads = geo.heads;
    a.kv_heads = geo.kv_heads;
    a.width = geo.width;
    a.padded_width = padded;
    a.window = geo.window;
    a.scale = 1.0F / std::sqrt(static_cast<float>(geo.width));
    a.sinks = sinks ? sinks->data() : nullptr;
    a.out = out + std::size_t{first} * geo.heads * geo.width;
    a.out_stride = geo.heads * geo.width;
    return a;
  }

  [[nodiscard]] std::vector<double> expected(std::uint32_t position, std::uint32_t head) const {
    const std::uint32_t kv = head / (geo.heads / geo.kv_heads);
    const auto vector_of = [&](std::uint32_t p, std::uint32_t index) {
      return values.data() + std::size_t{p} * stride + index * geo.width;
    };
    const std::uint32_t first = geo.window == 0 || position + 1 < geo.window ? 0 : position + 1 - geo.window;
    const double scale = 1.0F / std::sqrt(static_cast<float>(geo.width));
    std::vector<double> scores;
    double maximum = geo.sinks ? sink_values[head] : -INFINITY;
    for (std::uint32_t p = first; p <= position; ++p) {
      double dot = 0;
      for (std::uint32_t d = 0; d < geo.width; ++d)
        dot += double{vector_of(position, head)[d]} * vector_of(p, geo.heads + kv)[d];
      scores.push_back(dot * scale);
      maximum = std::max(maximum, scores.back());
    }
    double sum = geo.sinks ? std::exp(sink_values[head] - maximum) : 0;
    std::vector<double> out(geo.width);
    for (std::uint32_t p = first; p <= position; ++p) {
      const double weight = std::exp(scores[p - first] - maximum);
      sum += weight;
      for (std::uint32_t d = 0; d < geo.width; ++d)
        out[d] += weight * vector_of(p, geo.heads + geo.kv_heads + kv)[d];
    }
    for (double& v : out) v /= sum;
    return out;
  }

  geometry geo;
  std::uint32_t count, padded, pages, stride;
  std::vector<float> values;
  std::vector<float> sink_values;
  std::optional<device_array<float>> qkv, sinks;
  std::optional<device_array<kernels::step_column>> steps;
  std::optional<device_array<std::int32_t>> page_table;
  std::optional<device_array<__half>> keys, cache_v, q;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(paged_attention)

BOOST_DATA_TEST_CASE(matches_f64_and_decode_equals_prefill, boost::unit_test::data::make(geometries), g) {
  const std::uint32_t length = 777;
  const sequence s(g, length, 5);
  const std::size_t outputs = std::size_t{length} * g.heads * g.width;

  device_array<__half> at_once(outputs);
  BOOST_REQUIRE_EQUAL(kernels::launch_attention_prefill(s.arguments(0, length, at_once.data()), nullptr), 0);
  const auto whole = at_once.read();

  for (const std::uint32_t position : {0U, 1U, 31U, 32U, 255U, 256U, 300U, 776U}) {
    double difference = 0;
    double norm = 0;
    for (std::uint32_t head = 0; head < g.heads; ++head) {
      const auto want = s.expected(position, head);
      for (std::uint32_t d = 0; d < g.width; ++d) {
        const double got = __half2float(whole[(std::size_t{position} * g.heads + head) * g.width + d]);
        difference += (got - want[d]) * (got - want[d]);
        norm += want[d] * want[d];
      }
    }
    // Probabilities and results are rounded to f16: 2^-11 each.
    BOOST_TEST(std::sqrt(difference / norm) < 1e-3,
               g << " position " << position << ": " << std::sqrt(difference / norm));
  }

  device_array<__half> chunks(outputs);
  for (std::uint32_t first = 0; first < length; first += 100) {
    const auto a = s.arguments(first, std::min(100U, length - first), chunks.data());
    BOOST_REQUIRE_EQUAL(kernels::launch_attention_prefill(a, nullptr), 0);
  }
  BOOST_TEST((std::memcmp(chunks.read().data(), whole.data(), outputs * sizeof(__half)) == 0),
             g << ": chunks differ");

  device_array<__half> steps(outputs);
  device_array<float> partial(kernels::decode_partial_floats(1, g.heads, s.pages, s.padded));
  for (std::uint32_t position = 0; position < length; ++position) {
    auto a = s.arguments(position, 1, steps.data());
    a.partial = partial.data();
    BOOST_REQUIRE_EQUAL(kernels::launch_attention_decode(a, nullptr), 0);
  }
  BOOST_TEST((std::memcmp(steps.read().data(), whole.data(), outputs * sizeof(__half)) == 0),
             g << ": decode differs");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
