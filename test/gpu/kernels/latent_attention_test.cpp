// Latent attention against f64 over what the cache holds, and what is stored against f64; the same bits for
// any number of tokens a launch, and however many blocks share a token's pages.
#include "kernels/attention/latent_attention.hpp"

#include <cuda_fp16.h>

#include <algorithm>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>

#include "kernels/product/packed_matrix.hpp"
#include "test/gpu/device_array.hpp"
#include "test/support/random_blocks.hpp"

namespace orcd::test {
namespace {

struct geometry {
  std::uint32_t heads, rank, rotated, unrotated;
  bool interleaved = true;
};
std::ostream& operator<<(std::ostream& out, const geometry& g) {
  return out << g.heads << " heads, rank " << g.rank << " + " << g.rotated;
}
/// DeepSeek-V2-Lite's, GLM-4.7-Flash's, small ones, and more heads than a block takes.
const std::vector<geometry> geometries{{16, 512, 64, 128}, {20, 512, 64, 192}, {4, 64, 16, 32},
                                       {5, 32, 16, 64},    {1, 96, 48, 16},    {40, 160, 62, 33, false}};

struct wanted {
  double value = 0, magnitude = 0;
};

/// A sequence whose rows have been stored by the kernel.
struct sequence {
  sequence(const geometry& g, std::uint32_t length, std::uint64_t seed)
      : geo(g),
        count(length),
        width(kernels::padded_latent_row(g.rank, g.rotated)),
        unrotated_stride(kernels::padded_cols(g.unrotated)),
        out_stride(kernels::padded_cols(g.rank)),
        pages((length + engine::kv_page_positions - 1) / engine::kv_page_positions) {
    std::mt19937_64 random(seed);
    const auto draw = [&](std::size_t n, float by) {
      std::vector<float> out(n);
      for (float& v : out) v = random_unit(random) * by;
      return out;
    };
    query_values = draw(std::size_t{count} * g.heads * (g.unrotated + g.rotated), 2.0F);
    row_values = draw(std::size_t{count} * (g.rank + g.rotated), 3.0F);
    norm_values = draw(g.rank, 1.5F);
    latent_values = draw(std::size_t{count} * g.heads * g.rank, 1.0F);
    for (float& v : latent_values) v = __half2float(__float2half_rn(v));
    for (std::uint32_t i = 0; i < g.rotated / 2; ++i)
      frequencies.push_back(
          std::pow(10'000.0F, -2.0F * static_cast<float>(i) / static_cast<float>(g.rotated)));
    table.resize(pages + 8);
    std::iota(table.begin(), table.end(), 0);
    std::shuffle(table.begin(), table.end(), random);
    fill_device();
  }

  void fill_device() {
    query.emplace(std::span<const float>(query_values));
    row.emplace(std::span<const float>(row_values));
    norm.emplace(std::span<const float>(norm_values));
    latent_q.emplace(std::span<const float>(latent_values));
    inv_freq.emplace(std::span<const float>(frequencies));
    std::vector<kernels::step_token> columns(count);
    for (std::uint32_t i = 0; i < count; ++i) columns[i] = {0, static_cast<std::int32_t>(i), 0};
    steps.emplace(std::span<const kernels::step_token>(columns));
    page_table.emplace(std::span<const std::int32_t>(table).first(pages));
    cache.emplace(std::size_t{pages + 8} * engine::kv_page_positions * width);
    cache->fill(0);
    unrotated.emplace(std::size_t{count} * geo.heads * unrotated_stride);
    rotated.emplace(std::size_t{count} * geo.heads * (width - geo.rank));
    kernels::latent_store_args a;
    a.query = query->data();
    a.row = row->data();
    a.norm = norm->data();
    a.norm_eps = 1e-6F;
    a.steps = steps->data();
    a.columns = count;
    a.heads = geo.heads;
    a.rank = geo.rank;
    a.unrotated = geo.unrotated;
    a.rotated = geo.rotated;
    a.interleaved = geo.interleaved;
    a.inv_freq = inv_freq->data();
    a.magnitude = 1.25F;
    a.unrotated_out = unrotated->data();
    a.unrotated_stride = unrotated_stride;
    a.rotated_out = rotated->data();
    a.cache = pages_of();
    BOOST_REQUIRE_EQUAL(kernels::launch_latent_store(a, nullptr), 0);
    cached = cache->read();
    rotated_values = rotated->read();
  }

  [[nodiscard]] kernels::latent_cache pages_of() const { return {cache->data(), page_table->data(), pages}; }

  [[nodiscard]] kernels::latent_attention_args arguments(std::uint32_t first, std::uint32_t columns,
                                                         __half* out) const {
    kernels::latent_attention_args a;
    a.latent_q = latent_q->data() + std::size_t{first} * geo.heads * geo.rank;
    a.rotated_q = rotated->data() + std::size_t{first} * geo.heads * (width - geo.rank);
    a.steps = steps->data() + first;
    a.columns = columns;
    a.heads = geo.heads;
    a.rank = geo.rank;
    a.rotated = geo.rotated;
    a.scale = scale();
    a.out = out + std::size_t{first} * geo.heads * out_stride;
    a.out_stride = out_stride;
    a.cache = pages_of();
    return a;
  }
  [[nodiscard]] float scale() const {
    return 1.0F / std::sqrt(static_cast<float>(geo.unrotated + geo.rotated));
  }

  [[nodiscard]] double cached_at(std::uint32_t position, std::uint32_t d) const {
    const auto page = static_cast<std::size_t>(table[position / engine::kv_page_positions]);
    return __half2float(
        cached[(page * engine::kv_page_positions + position % engine::kv_page_positions) * width + d]);
  }
  [[nodiscard]] double query_at(std::uint32_t position, std::uint32_t head, std::uint32_t d) const {
    const std::size_t pair = std::size_t{position} * geo.heads + head;
    if (d < geo.rank) return latent_values[pair * geo.rank + d];
    return __half2float(rotated_values[pair * (width - geo.rank) + d - geo.rank]);
  }
  /// Value d of `count` values behind `from`, rotated at a position.
  [[nodiscard]] double rotated_at(const float* from, std::uint32_t position, std::uint32_t d) const {
    const std::uint32_t pair = geo.interleaved ? d / 2 : d % (geo.rotated / 2);
    const bool second = geo.interleaved ? d % 2 == 1 : d >= geo.rotated / 2;
    const double x0 = from[geo.interleaved ? 2 * pair : pair];
    const double x1 = from[geo.interleaved ? 2 * pair + 1 : pair + geo.rotated / 2];
    // The kernels' angle is one f32 product.
    const double angle = static_cast<float>(position) * frequencies[pair];
    return 1.25 * (second ? x0 * std::sin(angle) + x1 * std::cos(angle)
                          : x0 * std::cos(angle) - x1 * std::sin(angle));
  }

  [[nodiscard]] std::vector<wanted> expected(std::uint32_t position, std::uint32_t head) const {
    std::vector<double> scores;
    for (std::uint32_t p = 0; p <= position; ++p) {
      double dot = 0;
      for (std::uint32_t d = 0; d < geo.rank + geo.rotated; ++d)
        dot += query_at(position, head, d) * cached_at(p, d);
      scores.push_back(dot * scale());
    }
    const double maximum = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    std::vector<wanted> out(geo.rank);
    for (std::uint32_t p = 0; p <= position; ++p) {
      const double weight = std::exp(scores[p] - maximum);
      sum += weight;
      for (std::uint32_t d = 0; d < geo.rank; ++d) {
        out[d].value += weight * cached_at(p, d);
        out[d].magnitude += std::fabs(weight * cached_at(p, d));
      }
    }
    for (wanted& w : out) {
      w.value /= sum;
      w.magnitude /= sum;
    }
    return out;
  }

  geometry geo;
  std::uint32_t count, width, unrotated_stride, out_stride, pages;
  std::vector<float> query_values, row_values, norm_values, latent_values, frequencies;
  std::vector<std::int32_t> table;
  std::vector<__half> cached, rotated_values;
  std::optional<device_array<float>> query, row, norm, latent_q, inv_freq;
  std::optional<device_array<kernels::step_token>> steps;
  std::optional<device_array<std::int32_t>> page_table;
  std::optional<device_array<__half>> cache, unrotated, rotated;
};

/// So many tokens a launch; `spread`: blocks may share a token's pages.
std::vector<__half> attended(const sequence& s, std::uint32_t columns, bool spread) {
  device_array<__half> out(std::size_t{s.count} * s.geo.heads * s.out_stride);
  out.fill(0);
  device_array<float> partials(
      spread ? kernels::latent_partial_floats(columns, s.geo.heads, s.pages, s.geo.rank) : 1);
  device_array<std::uint32_t> arrivals(std::size_t{columns} * s.geo.heads);
  arrivals.fill(0);
  for (std::uint32_t first = 0; first < s.count; first += columns) {
    kernels::latent_attention_args a = s.arguments(first, std::min(columns, s.count - first), out.data());
    a.spread = spread;
    a.partials = partials.data();
    a.arrivals = arrivals.data();
    BOOST_REQUIRE_EQUAL(kernels::launch_latent_attention(a, nullptr), 0);
  }
  for (const std::uint32_t left : arrivals.read()) BOOST_TEST(left == 0U);
  return out.read();
}

bool same_bits(const std::vector<__half>& a, const std::vector<__half>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(__half)) == 0;
}

void check_position(const sequence& s, std::span<const __half> out, std::uint32_t position) {
  double difference = 0, norm = 0, magnitude = 0;
  for (std::uint32_t head = 0; head < s.geo.heads; ++head) {
    const std::vector<wanted> want = s.expected(position, head);
    for (std::uint32_t d = 0; d < s.geo.rank; ++d) {
      const double got = __half2float(out[(std::size_t{position} * s.geo.heads + head) * s.out_stride + d]);
      difference += (got - want[d].value) * (got - want[d].value);
      norm += want[d].value * want[d].value;
      magnitude += want[d].magnitude * want[d].magnitude;
    }
  }
  // Probabilities and results are rounded to f16; the f32 sums of scores make the rest.
  const double bound = 0x1p-11 + (0x1p-11 + 1e-4) * std::sqrt(magnitude / norm);
  const double error = std::sqrt(difference / norm);
  BOOST_TEST(error < bound, s.geo << ", position " << position << ": " << error << " of " << bound);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(latent_attention)

BOOST_DATA_TEST_CASE(what_is_stored_is_normed_and_rotated, boost::unit_test::data::make(geometries), g) {
  const sequence s(g, 300, 3);
  const auto unrotated = s.unrotated->read();
  const auto close = [&](double got, double want) {
    return std::fabs(got - want) < 1e-5 + 0x1p-11 * std::fabs(want);
  };
  for (const std::uint32_t position : {0U, 1U, 255U, 256U, 299U}) {
    const float* const row = s.row_values.data() + std::size_t{position} * (g.rank + g.rotated);
    double squares = 0;
    for (std::uint32_t d = 0; d < g.rank; ++d) squares += static_cast<double>(row[d]) * row[d];
    const double scale = 1.0 / std::sqrt(squares / g.rank + 1e-6);
    for (std::uint32_t d = 0; d < s.width; ++d) {
      const double want = d < g.rank               ? row[d] * scale * s.norm_values[d]
                          : d < g.rank + g.rotated ? s.rotated_at(row + g.rank, position, d - g.rank)
                                                   : 0.0;
      BOOST_TEST_REQUIRE(close(s.cached_at(position, d), want), g << ": " << position << ", " << d);
    }
    for (std::uint32_t head = 0; head < g.heads; ++head) {
      const std::size_t pair = std::size_t{position} * g.heads + head;
      const float* const q = s.query_values.data() + pair * (g.unrotated + g.rotated);
      for (std::uint32_t d = 0; d < s.unrotated_stride; ++d)
        BOOST_TEST_REQUIRE(__half2float(unrotated[pair * s.unrotated_stride + d]) ==
                           (d < g.unrotated ? __half2float(__float2half_rn(q[d])) : 0.0F));
      for (std::uint32_t d = g.rank; d < s.width; ++d) {
        const std::uint32_t i = d - g.rank;
        const double want = i < g.rotated ? s.rotated_at(q + g.unrotated, position, i) : 0.0;
        BOOST_TEST_REQUIRE(close(s.query_at(position, head, d), want), g << ": " << head << ", " << d);
      }
    }
  }
}

BOOST_DATA_TEST_CASE(matches_f64_with_the_same_bits_in_any_launch, boost::unit_test::data::make(geometries),
                     g) {
  const sequence s(g, 777, 5);
  const auto whole = attended(s, s.count, false);
  for (const std::uint32_t position : {0U, 1U, 63U, 64U, 255U, 256U, 300U, 776U})
    check_position(s, whole, position);
  BOOST_TEST(same_bits(attended(s, 100, false), whole), g << ": chunks differ");
  for (const std::uint32_t columns : {1U, 2U, 7U, 33U, 300U})
    BOOST_TEST(same_bits(attended(s, columns, true), whole), g << ": " << columns << " spread differ");
}

// More pages than are folded at a time.
BOOST_AUTO_TEST_CASE(so_it_is_over_many_pages) {
  const sequence s(geometry{4, 64, 16, 32}, 10'000, 7);
  const auto whole = attended(s, 500, false);
  check_position(s, whole, 9'999);
  BOOST_TEST(same_bits(attended(s, 3, true), whole));
}

BOOST_AUTO_TEST_CASE(what_no_kernel_takes_is_refused) {
  const sequence s(geometry{4, 64, 16, 32}, 10, 7);
  device_array<__half> out(std::size_t{s.count} * s.geo.heads * s.out_stride);
  kernels::latent_attention_args a = s.arguments(0, s.count, out.data());
  a.rank = 72;
  BOOST_TEST(kernels::launch_latent_attention(a, nullptr) == cudaErrorInvalidValue);
  a = s.arguments(0, s.count, out.data());
  a.spread = true;  // without a workspace
  BOOST_TEST(kernels::launch_latent_attention(a, nullptr) == cudaErrorInvalidValue);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
