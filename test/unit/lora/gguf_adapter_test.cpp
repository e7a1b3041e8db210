// GGUF adapters: what is read, in which order and types, and every refusal.
#include <limits>

#include "test/unit/lora/helpers.hpp"
#include "test/unit/model/gemma4_writer.hpp"

using namespace orcd;
using namespace orcd::test;
using engine::ggml_type;
using engine::lora_target;

namespace {

/// The tiny model: embedding 64, heads 4 on 2 of 16 dimensions, feed-forward 128, 2 layers.
struct with_llama {
  std::unique_ptr<loaded> base = load(tiny("llama"));
  const engine::model& model = base->model;
};

gguf_writer one_pair() {
  gguf_writer w = empty_adapter();
  add_pair(w, "blk.0.attn_q.weight", 64, 64, 4);
  return w;
}

/// The writer with one key replaced.
template <class T>
gguf_writer with_key(const std::string& key, const T& value) {
  gguf_writer w = one_pair();
  w.remove(key);
  w.add(key, value);
  return w;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(gguf_adapters, with_llama)

BOOST_AUTO_TEST_CASE(every_target_in_order) {
  const std::uint64_t vocab = model.spec.vocab;
  gguf_writer w = empty_adapter();
  add_matrix(w, "token_embd.weight.lora_a", transposed(some_matrix(2, vocab, 40)));
  add_matrix(w, "token_embd.weight.lora_b", some_matrix(64, 2, 41));
  add_pair(w, "blk.1.ffn_down.weight", 128, 64, 4, 20);
  add_pair(w, "output.weight", 64, vocab, 3, 30);
  add_pair(w, "blk.0.ffn_up.weight", 64, 128, 4, 10);
  add_pair(w, "blk.0.ffn_gate.weight", 64, 128, 4, 8);
  add_pair(w, "blk.0.attn_output.weight", 64, 64, 4, 6);
  add_pair(w, "blk.0.attn_v.weight", 64, 32, 4, 4);
  add_pair(w, "blk.0.attn_k.weight", 64, 32, 4, 2);
  add_pair(w, "blk.0.attn_q.weight", 64, 64, 16, 1);
  const auto adapter = accepted(read_gguf(w, model));
  using enum lora_target;
  const std::vector<std::pair<std::uint32_t, lora_target>> expected{
      {0, attn_q}, {0, attn_k}, {0, attn_v},     {0, attn_output}, {0, ffn_gate},
      {0, ffn_up}, {0, output}, {0, token_embd}, {1, ffn_down}};
  BOOST_REQUIRE(adapter.pairs.size() == expected.size());
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const engine::lora_pair& pair = adapter.pairs[i];
    BOOST_TEST(pair.layer == expected[i].first);
    BOOST_TEST((pair.target == expected[i].second));
    BOOST_TEST(pair.scale == 16.0F / static_cast<float>(pair.rank));
    BOOST_TEST(pair.a_at == at);
    BOOST_TEST(pair.b_at == at + pair.rank * pair.in);
    at = pair.b_at + pair.rank * pair.out;
  }
  BOOST_TEST(adapter.values.size() == at);
  BOOST_TEST(adapter.rank_max == 16U);
  BOOST_TEST(adapter.digest.size() == 64U);

  const engine::lora_pair& q = adapter.pairs[0];
  const matrix a = some_matrix(16, 64, 1), b = some_matrix(64, 16, 2);
  BOOST_TEST(std::equal(a.values.begin(), a.values.end(), adapter.a(q)));
  BOOST_TEST(std::equal(b.values.begin(), b.values.end(), adapter.b(q)));
  const engine::lora_pair& embedding = adapter.pairs[7];
  BOOST_TEST(embedding.in == vocab);
  BOOST_TEST(embedding.out == 64U);
  BOOST_TEST(embedding.rank == 2U);
  const matrix by_token = some_matrix(2, vocab, 40);
  BOOST_TEST(std::equal(by_token.values.begin(), by_token.values.end(), adapter.a(embedding)));
}

BOOST_AUTO_TEST_CASE(the_same_values_in_every_type) {
  std::string digest;
  for (const ggml_type type : {ggml_type::f32, ggml_type::f16, ggml_type::bf16, ggml_type::q8_0}) {
    gguf_writer w = empty_adapter();
    add_pair(w, "blk.1.attn_v.weight", 64, 32, 32, 7, type);
    const auto adapter = accepted(read_gguf(w, model));
    if (digest.empty()) digest = adapter.digest;
    BOOST_TEST(adapter.digest == digest);
  }
}

BOOST_AUTO_TEST_CASE(halves_of_every_kind) {
  // Smallest subnormal, largest subnormal, smallest normal, largest, -0, 1/3.
  const std::vector<std::uint16_t> halves{0x0001, 0x03FF, 0x0400, 0x7BFF, 0x8000, 0x3555};
  const std::vector<float> expected{0x1p-24F, 0x3FFp-24F, 0x1p-14F, 65504.0F, -0.0F, 0x1.554p-2F};
  gguf_writer w = empty_adapter();
  bytes image;
  for (std::size_t i = 0; i < 64; ++i) append_number(image, halves[i % halves.size()]);
  w.add_tensor("blk.0.attn_q.weight.lora_a", {64}, ggml_type::f16, image);
  add_matrix(w, "blk.0.attn_q.weight.lora_b", some_matrix(64, 1, 1));
  const auto adapter = accepted(read_gguf(w, model));
  for (std::size_t i = 0; i < 64; ++i) {
    const float value = adapter.a(adapter.pairs[0])[i];
    BOOST_TEST(value == expected[i % expected.size()]);
    BOOST_TEST(std::signbit(value) == std::signbit(expected[i % expected.size()]));
  }
}

BOOST_AUTO_TEST_CASE(what_a_digest_is_of) {
  const std::string digest = accepted(read_gguf(one_pair(), model)).digest;
  BOOST_TEST(accepted(read_gguf(one_pair(), model)).digest == digest);
  BOOST_TEST(accepted(read_gguf(with_key("adapter.lora.alpha", 15.0F), model)).digest != digest);
  BOOST_TEST(accepted(read_gguf(with_key("general.name", "x"), model)).digest == digest);
  gguf_writer other = one_pair();
  other.find_tensor("blk.0.attn_q.weight.lora_b")->data[3] ^= std::byte{1};
  BOOST_TEST(accepted(read_gguf(other, model)).digest != digest);
  gguf_writer elsewhere = empty_adapter();
  add_pair(elsewhere, "blk.1.attn_q.weight", 64, 64, 4);
  BOOST_TEST(accepted(read_gguf(elsewhere, model)).digest != digest);
  gguf_writer turned = one_pair();
  std::swap(turned.tensors[0], turned.tensors[1]);
  BOOST_TEST(accepted(read_gguf(turned, model)).digest == digest);
}

BOOST_AUTO_TEST_CASE(alpha) {
  BOOST_TEST(accepted(read_gguf(with_key("adapter.lora.alpha", 0.0F), model)).pairs[0].scale == 1.0F);
  gguf_writer without = one_pair();
  without.remove("adapter.lora.alpha");
  BOOST_TEST(accepted(read_gguf(without, model)).pairs[0].scale == 1.0F);
  BOOST_TEST(accepted(read_gguf(with_key("adapter.lora.alpha", 1.0F), model)).pairs[0].scale == 0.25F);
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  expect_refusal(read_gguf(with_key("adapter.lora.alpha", nan), model), {"adapter.lora.alpha", "finite"});
  expect_refusal(read_gguf(with_key("adapter.lora.alpha", inf), model), {"adapter.lora.alpha", "finite"});
  expect_refusal(read_gguf(with_key("adapter.lora.alpha", 1e300), model), {"the scale of", "f32"});
  expect_refusal(read_gguf(with_key("adapter.lora.alpha", "16"), model), {"adapter.lora.alpha", "f32"});
}

BOOST_AUTO_TEST_CASE(metadata) {
  expect_refusal(read_gguf(with_key("general.type", "model"), model),
                 {"a.gguf: key 'general.type' is 'model'; it must be 'adapter'"});
  expect_refusal(read_gguf(with_key("adapter.type", "control"), model), {"'control'; it must be 'lora'"});
  expect_refusal(read_gguf(with_key("general.architecture", "qwen2"), model),
                 {"key 'general.architecture' is 'qwen2'; it must be 'llama'"});
  for (const char* key : {"general.type", "adapter.type", "general.architecture"}) {
    gguf_writer w = one_pair();
    w.remove(key);
    expect_refusal(read_gguf(w, model), {key, "is missing"});
  }
  expect_refusal(
      read_gguf(with_key("adapter.alora.invocation_tokens", std::vector<std::uint32_t>{1, 2}), model),
      {"'adapter.alora.invocation_tokens'", "not supported"});
  expect_refusal(engine::read_adapter_image(make_tiny_model({}), "m.gguf", model),
                 {"m.gguf: key 'general.type' is missing"});
  expect_refusal(read_gguf(empty_adapter(), model), {"has no pair"});
}

BOOST_AUTO_TEST_CASE(norms_are_left_out) {
  gguf_writer w = one_pair();
  w.add_tensor("blk.0.attn_norm.weight", {64}, ggml_type::f32, bytes(256));
  BOOST_TEST(accepted(read_gguf(w, model)).digest == accepted(read_gguf(one_pair(), model)).digest);
  w.add_tensor("blk.0.attn_q.bias", {64}, ggml_type::f32, bytes(256));
  expect_refusal(read_gguf(w, model), {"'blk.0.attn_q.bias'", ".lora_a or .lora_b"});
}

BOOST_AUTO_TEST_CASE(names) {
  const auto refuse = [&](const std::string& name, std::initializer_list<std::string_view> parts) {
    gguf_writer w = empty_adapter();
    add_pair(w, name, 64, 64, 4);
    expect_refusal(read_gguf(w, model), parts);
  };
  refuse("blk.2.attn_q.weight", {"'blk.2.attn_q.weight'", "layer 2", "2 layers"});
  refuse("blk.00.attn_q.weight", {"'blk.00.attn_q.weight'"});
  refuse("blk.-1.attn_q.weight", {"'blk.-1.attn_q.weight'"});
  refuse("blk.99999999999.attn_q.weight", {"'blk.99999999999.attn_q.weight'"});
  refuse("blk..attn_q.weight", {"'blk..attn_q.weight'"});
  refuse("blk.0..weight", {"'blk.0..weight'"});
  refuse("blk.0.weight", {"'blk.0.weight'"});
  refuse("blk.0.attn_q", {"'blk.0.attn_q'"});
  refuse("blk.0.attn_norm.weight", {"'blk.0.attn_norm.weight'", "no matrix that an adapter can change"});
  refuse("blk.0.attn_qkv.weight", {"its parts are matrices of their own", "not supported"});
  refuse("rope_freqs.weight", {"'rope_freqs.weight'"});
  refuse("blk.0.ffn_gate_exps.weight", {"'blk.0.ffn_gate_exps.weight' is of experts or their router"});
  refuse("blk.0.ffn_gate_inp.weight", {"experts or their router"});
  refuse("", {"tensor ''"});
}

BOOST_AUTO_TEST_CASE(ranks) {
  const auto read = [&](std::uint64_t rank, const engine::adapter_limits& limits = {}) {
    gguf_writer w = empty_adapter();
    add_pair(w, "blk.0.attn_q.weight", 64, 64, rank);
    return read_gguf(w, model, limits);
  };
  BOOST_TEST(accepted(read(512)).rank_max == 512U);
  BOOST_TEST(accepted(read(1)).rank_max == 1U);
  expect_refusal(read(513), {"'blk.0.attn_q.weight.lora_a' has 513 rows, the rank", "1 to 512"});
  engine::adapter_limits narrow;
  narrow.rank = 8;
  expect_refusal(read(9, narrow), {"has 9 rows", "1 to 8"});
  expect_refusal(read(0), {"dimension"});
  gguf_writer uneven = empty_adapter();
  add_matrix(uneven, "blk.0.attn_q.weight.lora_a", some_matrix(4, 64, 1));
  add_matrix(uneven, "blk.0.attn_q.weight.lora_b", some_matrix(64, 5, 1));
  expect_refusal(read_gguf(uneven, model), {"lora_b' has 5 columns; it must have 4, the rank"});
}

BOOST_AUTO_TEST_CASE(shapes) {
  const auto refuse = [&](std::uint64_t in, std::uint64_t out,
                          std::initializer_list<std::string_view> parts) {
    gguf_writer w = empty_adapter();
    add_pair(w, "blk.1.attn_k.weight", in, out, 4);
    expect_refusal(read_gguf(w, model), parts);
  };
  refuse(63, 32, {"lora_a' has 63 columns; it must have 64"});
  refuse(64, 64, {"lora_b' has 64 rows; it must have 32"});
  gguf_writer straight = empty_adapter();
  add_pair(straight, "token_embd.weight", model.spec.vocab, 64, 4);
  expect_refusal(read_gguf(straight, model), {"'token_embd.weight.lora_b' has 4 columns", "the rank"});
  gguf_writer stacked = one_pair();
  stacked.find_tensor("blk.0.attn_q.weight.lora_a")->extents = {64, 2, 2};
  expect_refusal(read_gguf(stacked, model), {"has 3 dimensions; it must be a matrix"});
}

BOOST_AUTO_TEST_CASE(halves) {
  for (const std::string half : {"a", "b"}) {
    gguf_writer w = one_pair();
    w.remove_tensor("blk.0.attn_q.weight.lora_" + half);
    expect_refusal(read_gguf(w, model), {"is one half of a pair; the other half is missing"});
  }
  gguf_writer twice = one_pair();
  add_matrix(twice, "blk.0.attn_q.weight.lora_a", some_matrix(4, 64, 5));
  expect_refusal(read_gguf(twice, model), {"'blk.0.attn_q.weight.lora_a' occurs twice"});
}

BOOST_AUTO_TEST_CASE(types_and_values) {
  gguf_writer coarse = empty_adapter();
  coarse.add_tensor("blk.0.attn_q.weight.lora_a", {64, 4}, ggml_type::q4_0, bytes(4 * 2 * 18));
  add_matrix(coarse, "blk.0.attn_q.weight.lora_b", some_matrix(64, 4, 1));
  expect_refusal(read_gguf(coarse, model),
                 {"has type Q4_0; supported for adapters are F32, F16, BF16 and Q8_0"});
  for (const std::uint32_t bits : {0x7fc00000U, 0x7f800000U, 0xff800000U}) {
    gguf_writer w = one_pair();
    std::memcpy(w.find_tensor("blk.0.attn_q.weight.lora_b")->data.data() + 4 * (4 * 7 + 2), &bits, 4);
    expect_refusal(read_gguf(w, model), {"'blk.0.attn_q.weight.lora_b'", "row 7, column 2", "finite"});
  }
  gguf_writer half = empty_adapter();
  add_pair(half, "blk.0.attn_q.weight", 64, 64, 4, 1, ggml_type::f16);
  const std::uint16_t infinite = 0x7c00;
  std::memcpy(half.find_tensor("blk.0.attn_q.weight.lora_a")->data.data(), &infinite, sizeof infinite);
  expect_refusal(read_gguf(half, model), {"row 0, column 0", "finite"});
}

BOOST_AUTO_TEST_CASE(damage) {
  const bytes image = one_pair().build();
  for (std::size_t size = 0; size < image.size(); size += size < 600 ? 1 : 37) {
    const auto read = engine::read_adapter_image(std::span(image).first(size), "a.gguf", model);
    BOOST_TEST(!read);
  }
  engine::adapter_limits small;
  small.file_bytes = image.size() - 1;
  expect_refusal(engine::read_adapter_image(image, "a.gguf", model, small),
                 {"has " + std::to_string(image.size()) + " bytes; the limit is"});
  expect_refusal(engine::read_adapter_image(bytes(8), "a.gguf", model), {"neither GGUF nor TRLA"});
  gguf_writer parted = one_pair();
  parted.add("split.count", std::uint16_t{2});
  expect_refusal(read_gguf(parted, model), {"split.count is 2"});
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(gguf_adapters_of_other_models)

BOOST_AUTO_TEST_CASE(fused_matrices) {
  const auto base = load(tiny("phi3"));
  gguf_writer w = empty_adapter("phi3");
  add_pair(w, "blk.0.attn_qkv.weight", 64, 128, 4);
  add_pair(w, "blk.0.ffn_up.weight", 64, 256, 4);
  const auto adapter = accepted(read_gguf(w, base->model));
  BOOST_TEST((adapter.pairs[0].target == lora_target::attn_qkv));
  BOOST_TEST((adapter.pairs[1].target == lora_target::ffn_gate_up));
  gguf_writer split = empty_adapter("phi3");
  add_pair(split, "blk.0.attn_k.weight", 64, 32, 4);
  expect_refusal(read_gguf(split, base->model), {"'blk.0.attn_k.weight'", "are one matrix", "not supported"});
  gguf_writer gate = empty_adapter("phi3");
  add_pair(gate, "blk.0.ffn_gate.weight", 64, 128, 4);
  expect_refusal(read_gguf(gate, base->model), {"gate and up are one matrix"});
}

BOOST_AUTO_TEST_CASE(experts) {
  const auto base = load(tiny("gpt-oss"));
  gguf_writer w = empty_adapter("gpt-oss");
  add_pair(w, "blk.0.ffn_down.weight", 128, 64, 4);
  expect_refusal(read_gguf(w, base->model), {"it has experts", "not supported"});
  gguf_writer attention = empty_adapter("gpt-oss");
  add_pair(attention, "blk.0.attn_output.weight", 64, 64, 4);
  BOOST_TEST(accepted(read_gguf(attention, base->model)).pairs.size() == 1U);
}

BOOST_AUTO_TEST_CASE(keys_and_values_that_a_layer_has_not) {
  const auto shared = load(gemma4({.shared = 2, .values_are_keys = false}));
  for (const char* name : {"blk.2.attn_k.weight", "blk.2.attn_v.weight"}) {
    gguf_writer w = empty_adapter("gemma4");
    add_pair(w, name, 32, 32, 4);
    expect_refusal(read_gguf(w, shared->model), {name, "reads the keys and values of a layer before it"});
  }
  gguf_writer query = empty_adapter("gemma4");
  add_pair(query, "blk.2.attn_q.weight", 32, 64, 4);
  BOOST_TEST(accepted(read_gguf(query, shared->model)).pairs.size() == 1U);
  const auto same = load(gemma4({.experts = 4}));
  gguf_writer values = empty_adapter("gemma4");
  add_pair(values, "blk.1.attn_v.weight", 32, 64, 4);
  expect_refusal(read_gguf(values, same->model), {"its values are its keys, and a pair beside those"});
  gguf_writer keys = empty_adapter("gemma4");
  add_pair(keys, "blk.1.attn_k.weight", 32, 64, 4);
  add_pair(keys, "blk.1.ffn_down.weight", 64, 32, 4);  // of the dense part
  BOOST_TEST(accepted(read_gguf(keys, same->model)).pairs.size() == 2U);
  gguf_writer experts = empty_adapter("gemma4");
  add_pair(experts, "blk.1.ffn_down_exps.weight", 24, 32, 4);
  expect_refusal(read_gguf(experts, same->model), {"is of experts or their router"});
}

BOOST_AUTO_TEST_CASE(tied_output) {
  tiny_model_options o;
  o.tied_output = true;
  const auto base = load(make_tiny_writer(o));
  gguf_writer w = empty_adapter();
  add_pair(w, "output.weight", 64, base->model.spec.vocab, 4);
  const auto adapter = accepted(read_gguf(w, base->model));
  BOOST_TEST((adapter.pairs[0].target == lora_target::output));
  BOOST_TEST(adapter.pairs[0].out == base->model.spec.vocab);
}

BOOST_AUTO_TEST_CASE(models_that_generate_nothing) {
  const auto base = load(tiny("bert"));
  gguf_writer w = empty_adapter("bert");
  add_pair(w, "output.weight", 64, base->model.spec.vocab, 4);
  expect_refusal(read_gguf(w, base->model), {"'output.weight'", "no such matrix"});
}

BOOST_AUTO_TEST_SUITE_END()
