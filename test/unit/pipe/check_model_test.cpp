#include "app/pipe/check_model.hpp"

#include <boost/test/unit_test.hpp>

#include "app/quantize/rope_cache.hpp"
#include "test/support/tiny_model.hpp"

using namespace orcd;
using namespace orcd::app;

namespace {

/// What an SDK says of a tiny llama.
sdk_config tiny_config() {
  sdk_config out;
  out.arch_type = 2;
  out.activation = 1;
  out.hidden_dim = out.intermediate_dim = 128;
  out.num_layers = 2;
  out.num_heads = 4;
  out.num_kv_heads = 2;
  out.vocab_size = 304;
  out.head_dim = 16;
  out.max_position_embeddings = 256;
  out.norm_eps = 1e-5;
  out.rope_theta = 1e4;
  out.eos = {1};
  return out;
}

struct tiny_file {
  test::bytes image = test::make_tiny_model({});
  engine::gguf_file file = engine::gguf_file::parse(image, "tiny").value();
  engine::model model = engine::load_model(file).value();

  std::string check(const sdk_config& config) const {
    const auto done = check_model(config, file, model);
    return done ? "" : done.error().message;
  }
};

std::string check_rope(std::span<const std::byte> image, const sdk_config& config,
                       const engine::rope_spec& rope) {
  const auto done = check_rope_cache(image, "rope.cache", config, rope);
  return done ? "" : done.error().message;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pipe_models)

BOOST_AUTO_TEST_CASE(what_is_said_is_compared) {
  const tiny_file tiny;
  BOOST_TEST(tiny.check(tiny_config()) == "");
  auto config = tiny_config();
  config.hidden_dim = 256;
  BOOST_TEST(tiny.check(config) ==
             "tiny: hidden_dim is 256, but the file's is 128 rounded up to a multiple of 128");
  config = tiny_config();
  config.hidden_dim = 64;  // as the GGUF has it, not rounded up
  BOOST_TEST(tiny.check(config) == "");
  config.hidden_dim = 65;
  BOOST_TEST(tiny.check(config) ==
             "tiny: hidden_dim is 65, but the file's is 128 rounded up to a multiple of 128");
  config = tiny_config();
  config.num_kv_heads = 4;
  BOOST_TEST(tiny.check(config) == "tiny: num_kv_heads is 4, but the file's is 2");
  config = tiny_config();
  config.norm_eps = 1.001e-5;
  BOOST_TEST(tiny.check(config) == "tiny: norm_eps is 1.001e-05, but the file's is 1e-05");
}

BOOST_AUTO_TEST_CASE(architectures_have_numbers) {
  const tiny_file tiny;
  for (const std::uint32_t other : {1U, 3U, 4U, 5U, 6U, 7U}) {
    auto config = tiny_config();
    config.arch_type = other;
    BOOST_TEST(tiny.check(config) ==
               "tiny: arch_type is " + std::to_string(other) + ", but the file's architecture is 'llama'");
  }
}

BOOST_AUTO_TEST_CASE(a_rope_cache_is_compared) {
  const tiny_file tiny;
  const auto config = tiny_config();
  const auto& rope = tiny.model.spec.layers.front().rope;
  model_sizes sizes;
  sizes.context = 256;
  sizes.rope_dim = 16;
  sizes.theta = 1e4;
  BOOST_TEST(check_rope(rope_cache_image(sizes), config, rope) == "");
  const auto refused = [&](const model_sizes& other) {
    return check_rope(rope_cache_image(other), config, rope);
  };
  auto longer = sizes, wider = sizes, slower = sizes;
  longer.context = 512;
  wider.rope_dim = 8;
  slower.theta = 10'001;
  BOOST_TEST(refused(longer) == "rope.cache: max_position_embeddings is 256, but the file's is 512");
  BOOST_TEST(refused(wider) == "rope.cache: the number of rotated dimensions is 16, but the file's is 8");
  BOOST_TEST(refused(slower) == "rope.cache: rope_theta is 10000, but the file's is 10001");
  auto image = rope_cache_image(sizes);
  image[28 + 6] = std::byte{0xf0};
  image[28 + 7] = std::byte{0x3f};
  BOOST_TEST(check_rope(image, config, rope) == "rope.cache: the YaRN factor is 0, but the file's is 1");
  for (const auto& [at, why] : {std::pair(8, "the number behind the version is 0, but the file's is 1"),
                                std::pair(36, "the original context is 256, but the file's is 257"),
                                std::pair(40, "has something at its end; the last 28 bytes must be zero"),
                                std::pair(67, "has something at its end; the last 28 bytes must be zero")}) {
    auto changed = rope_cache_image(sizes);
    changed[static_cast<std::size_t>(at)] |= std::byte{1};
    BOOST_TEST(check_rope(changed, config, rope) == std::string("rope.cache: ") + why);
  }
  BOOST_TEST(check_rope(std::span(image).first(67), config, rope) ==
             "rope.cache: has 67 bytes; it must have 68");
}

BOOST_AUTO_TEST_SUITE_END()
