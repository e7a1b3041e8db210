// Attention of towers against f64, and that a query's bits depend on its own range alone.
#include "kernels/tower/tower_attention.hpp"

#include <cuda_fp16.h>

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "test/gpu/device_array.hpp"
#include "test/support/random_blocks.hpp"

namespace orcd::test {
namespace {

namespace data = boost::unit_test::data;
using kernels::tower_range;

/// Heads of a view, in f16, with zeros behind their width.
struct view {
  view(std::uint32_t h, std::uint32_t w, std::uint32_t n, std::uint64_t seed)
      : heads(h), width(w), positions(n), padded(kernels::tower_head_width(w)) {
    std::mt19937_64 random(seed);
    for (std::vector<__half>* const part : {&q, &k, &v}) {
      part->assign(std::size_t{heads} * positions * padded, __float2half_rn(0.0F));
      for (std::size_t i = 0; i < part->size(); ++i)
        if (i % padded < width) (*part)[i] = __float2half_rn(2.0F * random_unit(random));
    }
  }
  /// Some neighbouring positions of it.
  [[nodiscard]] view part(std::uint32_t first, std::uint32_t count) const {
    view out(*this);
    out.positions = count;
    for (std::vector<__half>* const of : {&out.q, &out.k, &out.v}) {
      std::vector<__half> kept;
      for (std::uint32_t head = 0; head < heads; ++head) {
        const auto at =
            of->begin() + static_cast<std::ptrdiff_t>((std::size_t{head} * positions + first) * padded);
        kept.insert(kept.end(), at, at + static_cast<std::ptrdiff_t>(std::size_t{count} * padded));
      }
      *of = kept;
    }
    return out;
  }
  [[nodiscard]] double at(const std::vector<__half>& of, std::uint32_t head, std::uint32_t position,
                          std::uint32_t d) const {
    return __half2float(of[(std::size_t{head} * positions + position) * padded + d]);
  }
  [[nodiscard]] float scale() const { return 1.0F / std::sqrt(static_cast<float>(width)); }
  [[nodiscard]] std::uint32_t stride() const { return heads * width + 6; }

  [[nodiscard]] std::vector<__half> attend(const std::vector<tower_range>& ranges = {}) const {
    const device_array<__half> dq{std::span<const __half>(q)}, dk{std::span<const __half>(k)},
        dv{std::span<const __half>(v)}, out(std::size_t{positions} * (stride() + stride() % 2));
    const device_array<tower_range> listed(std::max<std::size_t>(ranges.size(), 1));
    if (!ranges.empty())
      BOOST_REQUIRE_EQUAL(cudaMemcpy(listed.data(), ranges.data(), ranges.size() * sizeof(tower_range),
                                     cudaMemcpyHostToDevice),
                          cudaSuccess);
    kernels::tower_attention_args a;
    a.q = dq.data();
    a.k = dk.data();
    a.v = dv.data();
    a.positions = positions;
    a.heads = heads;
    a.width = width;
    a.ranges = ranges.empty() ? nullptr : listed.data();
    a.count = static_cast<std::uint32_t>(ranges.size());
    a.scale = scale();
    a.out = out.data();
    a.out_stride = stride() + stride() % 2;
    BOOST_REQUIRE_EQUAL(kernels::launch_tower_attention(a, nullptr), 0);
    return out.read();
  }
  [[nodiscard]] std::size_t place(std::uint32_t position, std::uint32_t head) const {
    return std::size_t{position} * (stride() + stride() % 2) + std::size_t{head} * width;
  }

  std::uint32_t heads, width, positions, padded;
  std::vector<__half> q, k, v;
};

/// The relative error of a query's values, and what may be expected: roundings of probabilities and results.
struct query_error {
  double error = 0.0, bound = 0.0;
};
query_error error_of(const view& of, const std::vector<__half>& got, std::uint32_t position,
                     std::uint32_t head, std::uint32_t first, std::uint32_t count) {
  std::vector<double> scores;
  double largest = -INFINITY;
  for (std::uint32_t p = first; p < first + count; ++p) {
    double dot = 0.0;
    for (std::uint32_t d = 0; d < of.width; ++d)
      dot += of.at(of.q, head, position, d) * of.at(of.k, head, p, d);
    scores.push_back(dot * of.scale());
    largest = std::max(largest, scores.back());
  }
  double sum = 0.0;
  for (double& score : scores) sum += score = std::exp(score - largest);
  double off = 0.0, norm = 0.0, magnitude = 0.0;
  for (std::uint32_t d = 0; d < of.width; ++d) {
    double want = 0.0, terms = 0.0;
    for (std::uint32_t p = 0; p < count; ++p) {
      const double term = scores[p] / sum * of.at(of.v, head, first + p, d);
      want += term;
      terms += std::fabs(term);
    }
    off += std::pow(__half2float(got[of.place(position, head) + d]) - want, 2);
    norm += want * want;
    magnitude += terms * terms;
  }
  return {std::sqrt(off / norm), 0x1p-11 + (0x1p-11 + 1e-4) * std::sqrt(magnitude / norm)};
}

bool same_values(const view& a, const std::vector<__half>& of_a, std::uint32_t at_a, const view& b,
                 const std::vector<__half>& of_b, std::uint32_t at_b) {
  for (std::uint32_t head = 0; head < a.heads; ++head)
    if (std::memcmp(&of_a[a.place(at_a, head)], &of_b[b.place(at_b, head)], a.width * sizeof(__half)) != 0)
      return false;
  return true;
}

/// Windows that end there, in tiles of queries.
std::vector<tower_range> windows(const std::vector<std::uint32_t>& ends) {
  std::vector<tower_range> out;
  std::uint32_t begin = 0;
  for (const std::uint32_t end : ends) {
    for (std::uint32_t first = begin; first < end; first += kernels::tower_query_tile)
      out.push_back({first, std::min(kernels::tower_query_tile, end - first), begin, end - begin});
    begin = end;
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tower_attention)

BOOST_DATA_TEST_CASE(all_positions_see_all,
                     data::make({8U, 12U, 15U, 20U, 40U, 64U, 72U, 80U, 88U, 128U, 200U}), width) {
  for (const std::uint32_t positions : {1U, 20U, 64U, 65U, 333U}) {
    const view of(3, width, positions, width + positions);
    const auto got = of.attend();
    double most = 0.0;
    for (const std::uint32_t position : {0U, positions / 2, positions - 1}) {
      for (std::uint32_t head = 0; head < of.heads; ++head) {
        const auto [error, bound] = error_of(of, got, position, head, 0, positions);
        BOOST_TEST(error < bound, width << " wide, " << positions << " positions, " << position << ": "
                                        << error << " of " << bound);
        most = std::max(most, error / bound);
      }
    }
    BOOST_TEST_MESSAGE(width << " x " << positions << ": at most " << most << " of the bound");
  }
}

BOOST_DATA_TEST_CASE(a_window_has_the_bits_that_it_has_alone, data::make({16U, 72U, 80U, 128U}), width) {
  const std::vector<std::uint32_t> ends{64, 72, 73, 300, 341};
  const view all(2, width, ends.back(), width);
  const auto together = all.attend(windows(ends));
  std::uint32_t begin = 0;
  for (const std::uint32_t end : ends) {
    const view own = all.part(begin, end - begin);
    const auto alone = own.attend();
    for (std::uint32_t i = begin; i < end; ++i)
      BOOST_TEST_REQUIRE(same_values(all, together, i, own, alone, i - begin),
                         width << " wide, position " << i);
    const auto [error, bound] = error_of(all, together, end - 1, 1, begin, end - begin);
    BOOST_TEST(error < bound, "window up to " << end << ": " << error);
    begin = end;
  }
}

/// Nothing is written behind a row's heads, and nothing else decides its bits.
BOOST_AUTO_TEST_CASE(rows_end_where_heads_do_and_runs_repeat) {
  const view of(3, 72, 200, 5);
  const auto got = of.attend();
  BOOST_TEST((std::memcmp(got.data(), of.attend().data(), got.size() * sizeof(__half)) == 0));
  for (std::uint32_t i = 0; i < of.positions; ++i)
    for (std::size_t at = of.place(i, 0) + of.heads * of.width; at < of.place(i + 1, 0); ++at)
      BOOST_TEST_REQUIRE(std::isnan(__half2float(got[at])), "row " << i);
}

BOOST_AUTO_TEST_CASE(what_no_kernel_takes_is_refused) {
  kernels::tower_attention_args a;
  BOOST_TEST(kernels::launch_tower_attention(a, nullptr) != 0);
  const device_array<__half> some(4096);
  a.q = a.k = a.v = some.data();
  a.out = some.data();
  a.positions = 1;
  a.heads = 1;
  a.scale = 1.0F;
  a.out_stride = 1024;
  for (const std::uint32_t width : {0U, kernels::tower_head_max + 1}) {
    a.width = width;
    BOOST_TEST(kernels::launch_tower_attention(a, nullptr) != 0);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
