// Pooled states against transformers, and their bits: alone, beside neighbours, in other slots and other
// chunks.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdio>

#include "gpu/host/host_backend.hpp"
#include "test/unit/golden/pooled_device.hpp"

namespace data = boost::unit_test::data;

namespace orcd::test {
namespace {

// K and V are kept in f16, which is the largest part of what differs.
constexpr double relative_bound = 1e-3;
constexpr double cosine_bound = 1e-6;

pooled_device host(const pooled_use& use, std::uint32_t slots, std::uint32_t chunk, unsigned threads = 1) {
  gpu::host_backend_options options;
  options.chunk_tokens = chunk;
  options.threads = threads;
  return {use, slots, gpu::make_host_backend(options)};
}

BOOST_AUTO_TEST_SUITE(golden_embeddings)

BOOST_DATA_TEST_CASE(pooled_states_match_the_oracle, data::make(pooled_uses), name) {
  const pooled_use use = read_pooled_use(name);
  auto model = host(use, 1, 16);
  pooled_difference worst;
  for (const pooled_case& c : use.cases) worst.raise_to(compare_pooled(model.run(c), c.pooled));
  std::printf("%s: relative error %.1e, largest %.1e, 1 - cosine %.1e\n", name.c_str(), worst.relative,
              worst.largest, worst.cosine);
  BOOST_TEST(worst.relative < relative_bound);
  BOOST_TEST(worst.cosine < cosine_bound);
}

BOOST_DATA_TEST_CASE(the_bits_depend_on_nothing_but_the_input, data::make(pooled_uses), name) {
  const pooled_use use = read_pooled_use(name);
  auto alone = host(use, 1, 16);
  auto small = host(use, 1, 5);
  auto pool = host(use, 4, 512, 2);
  std::vector<std::vector<float>> expected;
  for (const pooled_case& c : use.cases) {
    expected.push_back(alone.run(c));
    BOOST_TEST((small.run(c) == expected.back()));
  }
  expect_same_bits(use, pool, expected);
}

// The oracle tells right from wrong: without the second segment's type, the result is another one.
BOOST_AUTO_TEST_CASE(a_wrong_token_type_is_noticed) {
  const pooled_use use = read_pooled_use("bert-cls");
  auto model = host(use, 1, 16);
  pooled_case c = use.cases.at(2);
  BOOST_TEST_REQUIRE(c.second > 0U);
  c.second = 0;
  BOOST_TEST(compare_pooled(model.run(c), c.pooled).relative > 10 * relative_bound);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::test
