// attn_kv_b parted into a stack of keys' matrices, transposed, and one of values'.
#include "gpu/plan/latent_weights.hpp"

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <vector>

#include "kernels/host/embed.hpp"
#include "kernels/host/thread_pool.hpp"
#include "test/support/tiny_model.hpp"

using namespace orcd;

namespace {

std::vector<float> rows_of(const engine::tensor_view& t, std::int32_t first, std::uint32_t count) {
  kernels::host::thread_pool pool(1);
  std::vector<std::int32_t> ids(count);
  for (std::uint32_t i = 0; i < count; ++i) ids[i] = first + static_cast<std::int32_t>(i);
  std::vector<float> out(count * t.cols());
  const auto rows = static_cast<std::uint32_t>(t.rows() * t.experts());
  kernels::host::embed({.table = {.data = t.data,
                                  .type = t.type,
                                  .rows = rows,
                                  .cols = static_cast<std::uint32_t>(t.cols()),
                                  .factor = t.factor},
                        .tokens = ids.data(),
                        .out = out.data(),
                        .columns = count},
                       pool);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(latent_weights)

BOOST_AUTO_TEST_CASE(every_value_is_where_it_belongs) {
  test::tiny_model_options options;
  options.file = "deepseek2";
  const test::bytes image = test::make_tiny_model(options);
  const auto file = engine::gguf_file::parse(image, "deepseek2").value();
  engine::model m = engine::load_model(file).value();
  const engine::tensor_view joined = m.weights.layers[1].attn_kv_b;
  BOOST_REQUIRE(joined);
  const engine::model shapes = gpu::with_parted_shapes(m);
  const std::uint64_t made = gpu::parted_bytes(m);
  BOOST_REQUIRE(gpu::part_joined_latents(m, 2).has_value());
  BOOST_TEST(gpu::parted_bytes(m) == 0U);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < m.weights.layers.size(); ++i) {
    const engine::layer_weights &planned = shapes.weights.layers[i], &its = m.weights.layers[i];
    BOOST_TEST(
        (planned.attn_k_b.extents == its.attn_k_b.extents && planned.attn_k_b.type == its.attn_k_b.type));
    BOOST_TEST(
        (planned.attn_v_b.extents == its.attn_v_b.extents && planned.attn_v_b.type == its.attn_v_b.type));
    BOOST_TEST((!planned.attn_kv_b && planned.attn_k_b.bytes == its.attn_k_b.bytes));
    bytes += its.attn_k_b.bytes + its.attn_v_b.bytes;
  }
  BOOST_TEST(made == bytes);
  const engine::layer_weights& layer = m.weights.layers[1];
  BOOST_TEST(!layer.attn_kv_b);
  const std::uint32_t unrotated = 32, value = 32, rank = 64;
  BOOST_TEST((layer.attn_k_b.extents == std::array<std::uint64_t, 4>{unrotated, rank, 4, 1}));
  BOOST_TEST((layer.attn_v_b.extents == std::array<std::uint64_t, 4>{rank, value, 4, 1}));
  for (std::int32_t head = 0; head < 4; ++head) {
    const auto first = static_cast<std::int32_t>(unrotated + value) * head;
    const std::vector<float> keys = rows_of(joined, first, unrotated);
    const std::vector<float> parted = rows_of(layer.attn_k_b, head * static_cast<std::int32_t>(rank), rank);
    for (std::uint32_t i = 0; i < unrotated; ++i)
      for (std::uint32_t r = 0; r < rank; ++r)
        BOOST_TEST_REQUIRE(parted[r * unrotated + i] == keys[i * rank + r]);
    BOOST_TEST(rows_of(layer.attn_v_b, head * static_cast<std::int32_t>(value), value) ==
               rows_of(joined, first + static_cast<std::int32_t>(unrotated), value));
  }
}

BOOST_AUTO_TEST_SUITE_END()
