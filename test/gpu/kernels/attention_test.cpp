// Paged attention against a naive f64 softmax over what the cache holds, for every kv_type; decode and
// prefill must agree bit for bit.
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

#include "kernels/attention/paged_attention.hpp"
#include "test/gpu/device_array.hpp"
#include "test/support/kv_reference.hpp"
#include "test/support/random_blocks.hpp"

namespace orcd::test {
namespace {

struct geometry {
  std::uint32_t heads, kv_heads, width, window;
  bool sinks;
  float softcap = 0.0F;
};
std::ostream& operator<<(std::ostream& out, const geometry& g) {
  return out << g.heads << "/" << g.kv_heads << "x" << g.width << " window " << g.window
             << (g.sinks ? " sinks" : "") << (g.softcap > 0.0F ? " softcap" : "");
}
const std::vector<geometry> geometries{
    {14, 2, 64, 0, false},   {4, 4, 96, 0, false},       {16, 2, 64, 128, true},
    {16, 2, 64, 0, true},    {6, 2, 16, 0, false},       {8, 2, 128, 300, false},
    {32, 2, 64, 0, false},   {4, 1, 256, 0, false},      {8, 4, 256, 300, false, 0.5F},
    {6, 6, 200, 0, false},   {4, 2, 96, 0, false, 1.5F}, {16, 1, 512, 0, false},
    {4, 2, 300, 300, false},
};

/// How far Q, K and V reach.
struct extents {
  float q = 2.0F, k = 2.0F, v = 2.0F;
};

/// A result, and the sum of the magnitudes of its terms, which roundings are relative to.
struct wanted {
  std::vector<double> value, magnitude;
};

/// Random QKV of a sequence, stored through rope_store without rotation; Q, K and V are f16 values.
struct sequence {
  sequence(const geometry& g, std::uint32_t length, std::uint64_t seed, engine::kv_types kv = {},
           extents reach = {})
      : geo(g),
        types(kv),
        count(length),
        padded(kernels::padded_head_width(g.width)),
        pages((length + engine::kv_page_positions - 1) / engine::kv_page_positions),
        stride((g.heads + 2 * g.kv_heads) * g.width),
        values(std::size_t{length} * stride) {
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto index = static_cast<std::uint32_t>(i % stride / g.width);
      const float factor = index < g.heads ? reach.q : index < g.heads + g.kv_heads ? reach.k : reach.v;
      // Rounded to f16 at an ordinary size, so that a large factor leaves what f16 cannot hold.
      values[i] = __half2float(__float2half_rn(random_unit(random))) * factor;
      if (index < g.heads) values[i] = __half2float(__float2half_rn(values[i]));
    }
    for (std::size_t at = 0; at < values.size(); at += g.width) {
      const auto index = static_cast<std::uint32_t>(at % stride / g.width);
      const auto row = std::span(values).subspan(at, g.width);
      const auto kept = index < g.heads ? std::vector<double>(row.begin(), row.end())
                                        : cached_row(index < g.heads + g.kv_heads ? kv.keys : kv.values, row);
      cached.insert(cached.end(), kept.begin(), kept.end());
    }
    fill_device(random);
  }

  void fill_device(std::mt19937_64& random) {
    qkv.emplace(std::span<const float>(values));
    std::vector<kernels::step_token> columns(count);
    for (std::uint32_t i = 0; i < count; ++i) columns[i] = {0, static_cast<std::int32_t>(i), 0};
    steps.emplace(std::span<const kernels::step_token>(columns));
    // Pages in a scrambled order, so that a page id is never its index.
    std::vector<std::int32_t> table(pages + 8);
    std::iota(table.begin(), table.end(), 0);
    std::shuffle(table.begin(), table.end(), random);
    page_table.emplace(std::span<const std::int32_t>(table).first(pages));
    const std::size_t rows = std::size_t{pages + 8} * geo.kv_heads * engine::kv_page_positions;
    keys.emplace(rows * engine::kv_row_bytes(types.keys, padded));
    cache_v.emplace(rows * engine::kv_row_bytes(types.values, padded));
    keys->fill(0);
    cache_v->fill(0);
    q.emplace(std::size_t{count} * geo.heads * padded);
    if (geo.sinks) {
      for (std::uint32_t h = 0; h < geo.heads; ++h) sink_values.push_back(random_unit(random) * 3.0F);
      sinks.emplace(std::span<const float>(sink_values));
    }
    BOOST_REQUIRE_EQUAL(kernels::launch_rope_store(store_arguments(0, count), nullptr), 0);
  }

  [[nodiscard]] kernels::rope_store_args store_arguments(std::uint32_t first, std::uint32_t columns) const {
    kernels::rope_store_args a;
    a.qkv = qkv->data() + std::size_t{first} * stride;
    a.stride = stride;
    a.steps = steps->data() + first;
    a.columns = columns;
    a.heads = geo.heads;
    a.kv_heads = geo.kv_heads;
    a.width = geo.width;
    a.padded_width = padded;
    a.q = q->data() + std::size_t{first} * geo.heads * padded;
    a.cache = cache();
    return a;
  }

  [[nodiscard]] kernels::kv_pages cache() const {
    return {keys->data(), cache_v->data(), page_table->data(), pages, types.keys, types.values};
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
    a.softcap = geo.softcap;
    a.sinks = sinks ? sinks->data() : nullptr;
    a.out = out + std::size_t{first} * geo.heads * geo.width;
    a.out_stride = geo.heads * geo.width;
    return a;
  }

  /// What the token at `position` makes of positions up to `last`.
  [[nodiscard]] wanted expected(std::uint32_t position, std::uint32_t head, std::uint32_t last) const {
    const std::uint32_t kv = head / (geo.heads / geo.kv_heads);
    const auto vector_of = [&](std::uint32_t p, std::uint32_t index) {
      return cached.data() + std::size_t{p} * stride + index * geo.width;
    };
    const std::uint32_t first = geo.window == 0 || position + 1 < geo.window ? 0 : position + 1 - geo.window;
    const double scale = 1.0F / std::sqrt(static_cast<float>(geo.width));
    std::vector<double> scores;
    double maximum = geo.sinks ? sink_values[head] : -INFINITY;
    for (std::uint32_t p = first; p <= last; ++p) {
      double dot = 0;
      for (std::uint32_t d = 0; d < geo.width; ++d)
        dot += vector_of(position, head)[d] * vector_of(p, geo.heads + kv)[d];
      const double cap = geo.softcap;
      scores.push_back(cap > 0.0 ? cap * std::tanh(dot * scale / cap) : dot * scale);
      maximum = std::max(maximum, scores.back());
    }
    double sum = geo.sinks ? std::exp(sink_values[head] - maximum) : 0;
    wanted out{std::vector<double>(geo.width), std::vector<double>(geo.width)};
    for (std::uint32_t p = first; p <= last; ++p) {
      const double weight = std::exp(scores[p - first] - maximum);
      sum += weight;
      for (std::uint32_t d = 0; d < geo.width; ++d) {
        const double term = weight * vector_of(p, geo.heads + geo.kv_heads + kv)[d];
        out.value[d] += term;
        out.magnitude[d] += std::fabs(term);
      }
    }
    for (double& v : out.value) v /= sum;
    for (double& v : out.magnitude) v /= sum;
    return out;
  }

  geometry geo;
  engine::kv_types types;
  std::uint32_t count, padded, pages, stride;
  std::vector<float> values;
  std::vector<double> cached;  ///< values as attention sees them
  std::vector<float> sink_values;
  std::optional<device_array<float>> qkv, sinks;
  std::optional<device_array<kernels::step_token>> steps;
  std::optional<device_array<std::int32_t>> page_table;
  std::optional<device_array<std::uint8_t>> keys, cache_v;
  std::optional<device_array<__half>> q;
};

/// Both of a relative kind: the error of one position's heads against f64, and what may be expected.
/// Probabilities and results are rounded to f16, 2^-11 each; probabilities below 2^-14 and the f32 sums of
/// scores make the rest.
struct position_error {
  double error = 0, bound = 0;
};
position_error error_at(const sequence& s, std::span<const __half> out, std::uint32_t position,
                        std::optional<std::uint32_t> last = {}) {
  double difference = 0, norm = 0, magnitude = 0;
  for (std::uint32_t head = 0; head < s.geo.heads; ++head) {
    const wanted want = s.expected(position, head, last.value_or(position));
    for (std::uint32_t d = 0; d < s.geo.width; ++d) {
      const double got = __half2float(out[(std::size_t{position} * s.geo.heads + head) * s.geo.width + d]);
      difference += (got - want.value[d]) * (got - want.value[d]);
      norm += want.value[d] * want.value[d];
      magnitude += want.magnitude[d] * want.magnitude[d];
    }
  }
  return {std::sqrt(difference / norm), 0x1p-11 + (0x1p-11 + 1e-4) * std::sqrt(magnitude / norm)};
}

std::vector<__half> prefilled(const sequence& s, std::uint32_t chunk) {
  device_array<__half> out(std::size_t{s.count} * s.geo.heads * s.geo.width);
  for (std::uint32_t first = 0; first < s.count; first += chunk) {
    const auto a = s.arguments(first, std::min(chunk, s.count - first), out.data());
    BOOST_REQUIRE_EQUAL(kernels::launch_attention_prefill(a, &a.columns, 1, nullptr), 0);
  }
  return out.read();
}

/// By one launch, as if each chunk were of a sequence of its own.
std::vector<__half> prefilled_at_once(const sequence& s, const std::vector<std::uint32_t>& chunks) {
  device_array<__half> out(std::size_t{s.count} * s.geo.heads * s.geo.width);
  const auto a = s.arguments(0, s.count, out.data());
  BOOST_REQUIRE_EQUAL(
      kernels::launch_attention_prefill(a, chunks.data(), static_cast<std::uint32_t>(chunks.size()), nullptr),
      0);
  return out.read();
}

/// So many tokens a launch.
std::vector<__half> decoded_by(const sequence& s, std::uint32_t columns) {
  device_array<__half> out(std::size_t{s.count} * s.geo.heads * s.geo.width);
  device_array<float> partial(kernels::decode_partial_floats(columns, s.geo.heads, s.pages, s.padded));
  device_array<std::uint32_t> arrivals(std::size_t{columns} * s.geo.heads);
  arrivals.fill(0);
  for (std::uint32_t position = 0; position < s.count; position += columns) {
    const std::uint32_t some = std::min(columns, s.count - position);
    kernels::decode_attention_args a{s.store_arguments(position, some),
                                     s.arguments(position, some, out.data()), partial.data(),
                                     arrivals.data()};
    a.rope.q = nullptr;
    a.attend.q = nullptr;
    BOOST_REQUIRE_EQUAL(kernels::launch_attention_decode(a, nullptr), 0);
    // The next token's launch prefetches this one's key before it waits; a step has other kernels between.
    BOOST_REQUIRE_EQUAL(cudaStreamSynchronize(nullptr), cudaSuccess);
  }
  for (const std::uint32_t left : arrivals.read()) BOOST_TEST(left == 0U);
  return out.read();
}

/// Token by token from an empty cache.
std::vector<__half> decoded(sequence& s) {
  s.keys->fill(0);
  s.cache_v->fill(0);
  return decoded_by(s, 1);
}

/// Some consecutive tokens a launch, from an empty cache, right behind the kernel that stores their keys and
/// values.
std::vector<__half> decoded_in_rows(sequence& s, std::uint32_t columns) {
  s.keys->fill(0);
  s.cache_v->fill(0);
  device_array<__half> out(std::size_t{s.count} * s.geo.heads * s.geo.width);
  device_array<float> partial(kernels::decode_partial_floats(columns, s.geo.heads, s.pages, s.padded));
  device_array<std::uint32_t> arrivals(std::size_t{columns} * s.geo.heads);
  arrivals.fill(0);
  for (std::uint32_t position = 0; position < s.count; position += columns) {
    const std::uint32_t some = std::min(columns, s.count - position);
    const kernels::decode_attention_args a{s.store_arguments(position, some),
                                           s.arguments(position, some, out.data()), partial.data(),
                                           arrivals.data(), true};
    BOOST_REQUIRE_EQUAL(kernels::launch_rope_store(a.rope, nullptr), 0);
    BOOST_REQUIRE_EQUAL(kernels::launch_attention_decode(a, nullptr), 0);
  }
  for (const std::uint32_t left : arrivals.read()) BOOST_TEST(left == 0U);
  return out.read();
}

bool same_bits(const std::vector<__half>& a, const std::vector<__half>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(__half)) == 0;
}

std::string name_of(engine::kv_types types) {
  return std::string("K ") + to_string(types.keys) + ", V " + to_string(types.values);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(paged_attention)

BOOST_DATA_TEST_CASE(matches_f64_and_decode_equals_prefill, boost::unit_test::data::make(geometries), g) {
  const std::uint32_t length = 777;
  for (const engine::kv_type keys : device_kv_types) {
    for (const engine::kv_type values : device_kv_types) {
      if (!kernels::attention_takes(kernels::padded_head_width(g.width), keys, values)) continue;
      sequence s(g, length, 5, {keys, values});
      const auto whole = prefilled(s, length);
      double most = 0;
      for (const std::uint32_t position : {0U, 1U, 31U, 32U, 255U, 256U, 300U, 776U}) {
        const auto [error, bound] = error_at(s, whole, position);
        BOOST_TEST(error < bound, g << " " << name_of(s.types) << " position " << position << ": " << error);
        most = std::max(most, error / bound);
      }
      std::printf("%u/%ux%u %s: at most %.2f of the bound\n", g.heads, g.kv_heads, g.width,
                  name_of(s.types).c_str(), most);
      BOOST_TEST(same_bits(prefilled(s, 100), whole), g << " " << name_of(s.types) << ": chunks differ");
      BOOST_TEST(same_bits(decoded(s), whole), g << " " << name_of(s.types) << ": decode differs");
      // The cache is full now: each token stores what is there already. With so many tokens there are more
      // blocks than prefetch keys.
      for (const std::uint32_t columns : {1U, 2U, 7U, 16U}) {
        BOOST_TEST(same_bits(decoded_in_rows(s, columns), whole),
                   g << " " << name_of(s.types) << ": rows of " << columns << " differ");
      }
      BOOST_TEST(same_bits(decoded_by(s, 300), whole), g << " " << name_of(s.types) << ": many differ");
    }
  }
}

// So many heads that no warps share queries, and that more blocks of decode are launched than run.
BOOST_DATA_TEST_CASE(
    so_it_is_with_many_heads,
    boost::unit_test::data::make(std::vector<geometry>{
        {64, 8, 64, 128, true}, {32, 32, 96, 0, false}, {40, 8, 128, 0, false}, {64, 64, 32, 0, false}}),
    g) {
  const std::uint32_t length = 777;
  sequence s(g, length, 6);
  const auto whole = prefilled(s, length);
  for (const std::uint32_t position : {0U, 300U, 776U}) {
    const auto [error, bound] = error_at(s, whole, position);
    BOOST_TEST(error < bound, g << " position " << position << ": " << error);
  }
  BOOST_TEST(same_bits(prefilled(s, 100), whole), g << ": chunks differ");
  BOOST_TEST(same_bits(prefilled_at_once(s, {300, 1, 19, 457}), whole), g << ": chunks of a launch differ");
  BOOST_TEST(same_bits(decoded(s), whole), g << ": decode differs");
  BOOST_TEST(same_bits(decoded_by(s, 300), whole), g << ": many differ");
}

// As encoders have it, in every kernel that there is.
BOOST_DATA_TEST_CASE(without_a_mask_every_token_sees_all,
                     boost::unit_test::data::make(std::vector<geometry>{{2, 2, 64, 0, false},
                                                                        {12, 12, 64, 0, false},
                                                                        {64, 64, 32, 0, false},
                                                                        {64, 64, 64, 0, false},
                                                                        {64, 64, 96, 0, false},
                                                                        {64, 64, 128, 0, false}}),
                     g) {
  const std::uint32_t length = 410;
  sequence s(g, length, 8);
  device_array<__half> out(std::size_t{length} * g.heads * g.width);
  auto a = s.arguments(0, length, out.data());
  a.end = length;
  BOOST_REQUIRE_EQUAL(kernels::launch_attention_prefill(a, &a.columns, 1, nullptr), 0);
  const auto whole = out.read();
  for (const std::uint32_t position : {0U, 31U, 256U, 409U}) {
    const auto [error, bound] = error_at(s, whole, position, length - 1);
    BOOST_TEST(error < bound, g << " position " << position << ": " << error);
  }
}

BOOST_DATA_TEST_CASE(positions_of_a_block_see_each_other,
                     boost::unit_test::data::make(std::vector<geometry>{
                         {2, 1, 64, 0, false}, {64, 32, 96, 300, false}, {64, 64, 128, 300, true}}),
                     g) {
  constexpr std::uint32_t length = 610, begin = 270, end = 530;
  sequence s(g, length, 9);
  std::vector<kernels::seen_block> seen(length);
  for (std::uint32_t i = begin; i < end; ++i) seen[i] = {begin, end};
  const device_array<kernels::seen_block> blocks{std::span<const kernels::seen_block>(seen)};
  device_array<__half> out(std::size_t{length} * g.heads * g.width);
  auto a = s.arguments(0, length, out.data());
  a.blocks = blocks.data();
  BOOST_REQUIRE_EQUAL(kernels::launch_attention_prefill(a, &a.columns, 1, nullptr), 0);
  const auto whole = out.read();
  for (const std::uint32_t position : {0U, 269U, 270U, 300U, 529U, 530U, 609U}) {
    const auto [error, bound] = error_at(s, whole, position, seen[position].end > 0 ? end - 1 : position);
    BOOST_TEST(error < bound, g << " position " << position << ": " << error);
  }
}

// More pages than are folded at a time.
BOOST_AUTO_TEST_CASE(decode_equals_prefill_over_many_pages) {
  sequence s(geometry{8, 2, 64, 0, true}, 8'500, 7);
  const auto whole = prefilled(s, 512);
  const auto [error, bound] = error_at(s, whole, 8'499);
  BOOST_TEST(error < bound, error << " of " << bound);
  BOOST_TEST(same_bits(decoded(s), whole));
  BOOST_TEST(same_bits(decoded_in_rows(s, 8), whole));
}

/// A cache's bytes, and what decoding all tokens at once leaves, which stores them again.
struct stored_and_decoded {
  std::vector<std::uint8_t> keys, values;
  std::vector<__half> out;
  bool operator==(const stored_and_decoded& other) const {
    return keys == other.keys && values == other.values && same_bits(out, other.out);
  }
};
/// Of rows of `stride` values whose heads `change` has said what to do with.
template <class Change>
stored_and_decoded store_and_decode(sequence& s, std::span<const float> rows, Change change) {
  const device_array<float> qkv{rows};
  device_array<__half> out(std::size_t{s.count} * s.geo.heads * s.geo.width);
  device_array<float> partial(kernels::decode_partial_floats(s.count, s.geo.heads, s.pages, s.padded));
  device_array<std::uint32_t> arrivals(std::size_t{s.count} * s.geo.heads);
  arrivals.fill(0);
  kernels::decode_attention_args a{s.store_arguments(0, s.count), s.arguments(0, s.count, out.data()),
                                   partial.data(), arrivals.data()};
  a.rope.qkv = qkv.data();
  a.rope.norm_eps = 1e-3F;
  change(a.rope);
  if (!a.rope.queries_only) {
    s.keys->fill(0);
    s.cache_v->fill(0);
  }
  BOOST_REQUIRE_EQUAL(kernels::launch_rope_store(a.rope, nullptr), 0);
  const auto keys = s.keys->read(), values = s.cache_v->read();
  BOOST_REQUIRE_EQUAL(kernels::launch_attention_decode(a, nullptr), 0);
  BOOST_TEST((s.keys->read() == keys && s.cache_v->read() == values), "decode stores other bits");
  return {keys, values, out.read()};
}

// Values that are raw keys have the bits of values that were copied from them; a layer that reads the cache
// of another one has that one's result for the same queries, and stores nothing.
BOOST_DATA_TEST_CASE(values_may_be_keys_and_a_cache_another_layers,
                     boost::unit_test::data::make(std::vector<geometry>{
                         {4, 2, 64, 0, false}, {8, 1, 256, 300, false}, {4, 1, 512, 0, false}}),
                     g) {
  constexpr std::uint32_t length = 301;
  const std::vector<float> weight(g.width, 0.75F);
  const device_array<float> norm{std::span<const float>(weight)};
  for (const engine::kv_type type : {engine::kv_type::f16, engine::kv_type::q8_0}) {
    sequence s(g, length, 11, {type, type});
    std::vector<float> copied = s.values, without = s.values, queries;
    for (std::uint32_t i = 0; i < length; ++i) {
      float* const row = copied.data() + std::size_t{i} * s.stride;
      float* const keys = row + g.heads * g.width;
      std::copy(keys, keys + g.kv_heads * g.width, keys + g.kv_heads * g.width);
      std::fill_n(without.data() + std::size_t{i} * s.stride + (g.heads + g.kv_heads) * g.width,
                  g.kv_heads * g.width, NAN);
      queries.insert(queries.end(), row, row + g.heads * g.width);
    }
    for (const bool value_norm : {false, true}) {
      const auto normed = [&](kernels::rope_store_args& a) {
        a.q_norm = a.k_norm = norm.data();
        a.value_norm = value_norm;
      };
      const auto want = store_and_decode(s, copied, normed);
      BOOST_TEST((store_and_decode(s, without,
                                   [&](kernels::rope_store_args& a) {
                                     normed(a);
                                     a.values_from_keys = true;
                                   }) == want),
                 g << " " << name_of(s.types));
      BOOST_TEST((store_and_decode(s, queries,
                                   [&](kernels::rope_store_args& a) {
                                     normed(a);
                                     a.queries_only = true;
                                     a.stride = g.heads * g.width;
                                   }) == want),
                 g << " " << name_of(s.types) << ": another layer's cache");
    }
  }
}

// The norm of values, as the cache has it: of f16 by f64.
BOOST_AUTO_TEST_CASE(normed_values_are_those_of_f64) {
  const geometry g{2, 2, 512, 0, false};
  sequence s(g, 40, 12);
  const auto got = store_and_decode(s, s.values, [](kernels::rope_store_args& a) { a.value_norm = true; });
  const auto* const halves = reinterpret_cast<const __half*>(got.values.data());
  const std::int32_t page = s.page_table->read()[0];
  for (std::uint32_t i = 0; i < s.count; ++i) {
    for (std::uint32_t head = 0; head < g.kv_heads; ++head) {
      const float* const v =
          s.values.data() + std::size_t{i} * s.stride + (g.heads + g.kv_heads + head) * g.width;
      double squares = 0.0;
      for (std::uint32_t d = 0; d < g.width; ++d) squares += double{v[d]} * v[d];
      const double scale = 1.0 / std::sqrt(squares / g.width + 1e-3);
      const std::size_t at = (static_cast<std::size_t>(page) * g.kv_heads + head) * g.width;
      for (std::uint32_t d = 0; d < g.width; ++d) {
        const double cached = __half2float(halves[(at + d) * engine::kv_page_positions + i]);
        BOOST_TEST_REQUIRE(std::fabs(cached - v[d] * scale) <= 0x1p-11 * std::fabs(v[d] * scale) + 1e-5);
      }
    }
  }
}

// Keys and values beyond 65504, which bf16 holds: nothing on the way to the result may be f16.
BOOST_AUTO_TEST_CASE(bf16_keeps_the_range_of_f32) {
  const geometry g{8, 2, 80, 0, false};
  sequence s(g, 400, 9, {engine::kv_type::bf16, engine::kv_type::bf16}, {0x1p-16F, 0x1p18F, 0x1p17F});
  const auto out = prefilled(s, 400);
  for (const std::uint32_t position : {255U, 256U, 399U}) {
    const auto [error, bound] = error_at(s, out, position);
    BOOST_TEST(error < bound, "position " << position << ": " << error << " of " << bound);
  }
  BOOST_TEST(same_bits(decoded(s), out));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
