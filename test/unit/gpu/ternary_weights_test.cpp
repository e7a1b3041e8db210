// What is found out about ternary matrices before they are used, and that a model does not depend on which
// ternary format it has.
#include "gpu/plan/ternary_weights.hpp"

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <string>

#include "gpu/host/host_backend.hpp"
#include "test/support/random_blocks.hpp"
#include "test/support/tiny_model.hpp"
#include "test/unit/gpu/tiny_backend.hpp"

namespace orcd::test {
namespace {

using engine::ggml_type;
using engine::slot_id;

tiny_model_options bitnet(ggml_type type) {
  tiny_model_options o;
  o.family = "bitnet-b1.58";
  o.embedding = 256;
  o.ffn = 512;
  o.matrix_type = type;
  o.embedding_type = ggml_type::f16;
  return o;
}

/// A model with the image that its views point into.
struct prepared {
  explicit prepared(bytes from)
      : image(std::move(from)),
        file(engine::gguf_file::parse(image, "tiny").value()),
        model(engine::load_model(file).value()),
        outcome(gpu::prepare_ternary_weights(model, 2, false, [] {})) {}
  bytes image;
  engine::gguf_file file;
  engine::model model;
  engine::result<void> outcome;
};

/// The code of value i of an I2_S payload.
unsigned code_at(const bytes& payload, std::size_t i) {
  return std::to_integer<unsigned>(payload[i / 128 * 32 + i % 32]) >> (6 - 2 * (i % 128 / 32)) & 3U;
}

bytes as_tq2_0(const bytes& payload, std::size_t values, float d) {
  bytes out;
  for (std::size_t first = 0; first < values; first += 256) {
    bytes block(64);
    for (std::size_t i = 0; i < 256; ++i)
      block[32 * (i / 128) + i % 32] |=
          static_cast<std::byte>(code_at(payload, first + i) << (2 * (i / 32 % 4)));
    out.insert(out.end(), block.begin(), block.end());
    append_number(out, to_half(d));
  }
  return out;
}

/// The byte of five codes, the first the most significant; of four, with a zero behind them.
std::byte five(const bytes& payload, std::size_t first, std::size_t step, unsigned count) {
  unsigned number = 0;
  for (unsigned k = 0; k < 5; ++k) number = number * 3 + (k < count ? code_at(payload, first + k * step) : 0);
  return static_cast<std::byte>((number * 256 + 242) / 243);
}

bytes as_tq1_0(const bytes& payload, std::size_t values, float d) {
  bytes out;
  for (std::size_t first = 0; first < values; first += 256) {
    for (std::size_t j = 0; j < 32; ++j) out.push_back(five(payload, first + j, 32, 5));
    for (std::size_t j = 0; j < 16; ++j) out.push_back(five(payload, first + 160 + j, 16, 5));
    for (std::size_t j = 0; j < 4; ++j) out.push_back(five(payload, first + 240 + j, 4, 4));
    append_number(out, to_half(d));
  }
  return out;
}

/// The same model with its I2_S matrices in another type, all with a scale that f16 holds.
bytes in_type(ggml_type type) {
  constexpr float scale = 0.0625F;
  gguf_writer writer = make_tiny_writer(bitnet(ggml_type::i2_s));
  for (written_tensor& tensor : writer.tensors) {
    if (tensor.type != static_cast<std::uint32_t>(ggml_type::i2_s)) continue;
    std::memcpy(tensor.data.data() + tensor.data.size() - 32, &scale, sizeof scale);
    const std::size_t values = (tensor.data.size() - 32) * 4;
    if (type == ggml_type::tq2_0) tensor.data = as_tq2_0(tensor.data, values, scale);
    if (type == ggml_type::tq1_0) tensor.data = as_tq1_0(tensor.data, values, scale);
    tensor.type = static_cast<std::uint32_t>(type);
  }
  return writer.build();
}

}  // namespace

/// The d of every block, in f16.
void set_scales(bytes& data, ggml_type type, std::uint16_t d) {
  const std::size_t block = engine::traits_of(type).block_bytes;
  for (std::size_t end = block; end <= data.size(); end += block) std::memcpy(&data[end - 2], &d, sizeof d);
}

BOOST_AUTO_TEST_SUITE(ternary_weights)

BOOST_AUTO_TEST_CASE(a_code_of_three_fails_the_load_with_tensor_and_offset) {
  for (const char* family : {"bitnet", "llama"}) {
    tiny_model_options options = bitnet(ggml_type::i2_s);
    options.family = family;
    gguf_writer writer = make_tiny_writer(options);
    writer.find_tensor("blk.1.ffn_down.weight")->data[1234] = std::byte{0x30};
    const prepared bad(writer.build());
    BOOST_REQUIRE(!bad.outcome);
    BOOST_TEST((bad.outcome.error().code == engine::errc::model_load_failed));
    const std::uint64_t at = bad.file.find_tensor("blk.1.ffn_down.weight")->file_offset + 1234;
    BOOST_TEST(bad.outcome.error().message ==
               "tensor 'blk.1.ffn_down.weight' (I2_S) is corrupt: byte 1234, at offset " +
                   std::to_string(at) + " of its file, has the code 3");
    const auto device = gpu::make_host_backend({});
    const auto plan =
        device->load(bad.model, {.slots = 1, .context_tokens = 64, .banned_tokens = {}}, [](unsigned) {});
    BOOST_REQUIRE(!plan);
    BOOST_TEST(plan.error().message == bad.outcome.error().message);
  }
}

BOOST_AUTO_TEST_CASE(a_scale_behind_the_codes_is_no_code) {
  gguf_writer writer = make_tiny_writer(bitnet(ggml_type::i2_s));
  bytes& data = writer.find_tensor("blk.0.attn_q.weight")->data;
  std::fill(data.end() - 28, data.end(), std::byte{0xff});
  const prepared good(writer.build());
  BOOST_TEST(static_cast<bool>(good.outcome));
  const engine::tensor_view& query = good.model.weights.layers[0].attn_q;
  BOOST_TEST(query.code_scale.value() == query.factor);
}

BOOST_AUTO_TEST_CASE(one_scale_for_all_blocks_is_found) {
  for (const ggml_type type : {ggml_type::tq1_0, ggml_type::tq2_0}) {
    tiny_model_options options = bitnet(type);
    options.weight_scales = true;
    gguf_writer writer = make_tiny_writer(options);
    bytes& data = writer.find_tensor("blk.0.ffn_up.weight")->data;
    const std::uint32_t block = engine::traits_of(type).block_bytes;
    data[2 * block - 1] ^= std::byte{0x04};
    set_scales(writer.find_tensor("blk.0.ffn_down.weight")->data, type, 0x3e00);  // 1.5
    const prepared m(writer.build());
    BOOST_REQUIRE(static_cast<bool>(m.outcome));
    const engine::layer_weights& layer = m.model.weights.layers[0];
    BOOST_TEST(!layer.ffn_up.code_scale);  // another scale in one block
    BOOST_TEST(layer.ffn_down.factor != 1.0F);
    BOOST_TEST(layer.ffn_down.code_scale.value() == 1.5F * layer.ffn_down.factor);
    tiny_backend backend(writer.build(), {}, 1, {}, {});
    (void)backend.generate(slot_id{0}, backend.prompt(9, 1), 3, 16);
  }
}

BOOST_AUTO_TEST_CASE(other_families_keep_activations_as_they_are) {
  tiny_model_options options = bitnet(ggml_type::i2_s);
  options.family = "qwen3";
  const prepared m(make_tiny_model(options));
  BOOST_TEST(static_cast<bool>(m.outcome));
  BOOST_TEST(!m.model.weights.layers[0].attn_q.code_scale);
}

// A matrix of zeros has a scale, which is 0; it is not one without a common scale.
BOOST_AUTO_TEST_CASE(a_scale_of_zero_is_a_scale) {
  gguf_writer writer = make_tiny_writer(bitnet(ggml_type::i2_s));
  bytes& data = writer.find_tensor("blk.0.attn_q.weight")->data;
  std::fill(data.end() - 32, data.end() - 28, std::byte{0});
  const prepared m(writer.build());
  BOOST_REQUIRE(static_cast<bool>(m.outcome));
  BOOST_TEST(m.model.weights.layers[0].attn_q.code_scale.value() == 0.0F);
  BOOST_TEST(static_cast<bool>(gpu::require_code_scales(m.model)));
}

BOOST_AUTO_TEST_CASE(scales_whose_product_is_infinite_are_refused) {
  tiny_model_options options = bitnet(ggml_type::tq2_0);
  options.weight_scales = true;
  gguf_writer writer = make_tiny_writer(options);
  const float large = 3e38F;
  bytes& scale = writer.find_tensor("blk.0.ffn_up.scale")->data;
  std::memcpy(scale.data(), &large, sizeof large);
  set_scales(writer.find_tensor("blk.0.ffn_up.weight")->data, ggml_type::tq2_0, 0x4000);  // 2
  const prepared m(writer.build());
  BOOST_REQUIRE(!m.outcome);
  BOOST_TEST(m.outcome.error().message.find("blk.0.ffn_up.weight") != std::string::npos);
  BOOST_TEST(m.outcome.error().message.find("not finite") != std::string::npos);
}

// Between two pieces of work a load can be told to end.
BOOST_AUTO_TEST_CASE(the_scan_ends_when_the_load_does) {
  struct enough {};
  const bytes image = make_tiny_model(bitnet(ggml_type::i2_s));
  const auto file = engine::gguf_file::parse(image, "tiny").value();
  auto model = engine::load_model(file).value();
  const auto stop = [] { throw enough(); };
  BOOST_CHECK_THROW((void)gpu::prepare_ternary_weights(model, 2, false, stop), enough);
}

BOOST_AUTO_TEST_CASE(all_ternary_formats_give_the_same_logits) {
  std::vector<std::vector<float>> want;
  for (const ggml_type type : {ggml_type::i2_s, ggml_type::tq1_0, ggml_type::tq2_0}) {
    tiny_backend backend(in_type(type), {}, 1, {}, {});
    const auto got = backend.generate(slot_id{0}, backend.prompt(40, 2), 12, 16);
    if (want.empty()) want = got;
    BOOST_TEST(same_logits(want, got), engine::traits_of(type).name);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
