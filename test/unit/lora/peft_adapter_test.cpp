// PEFT adapters: names, the order of Q's and K's rows, what adapter_config.json says, and every refusal.
#include <numbers>

#include "test/unit/lora/helpers.hpp"

using namespace orcd;
using namespace orcd::test;
using engine::ggml_type;
using engine::lora_target;

namespace {

const std::string layer0 = "base_model.model.model.layers.0.";

struct with_llama {
  std::unique_ptr<loaded> base = load(tiny("llama"));
  const engine::model& model = base->model;

  engine::result<engine::lora_adapter> with_config(const std::string& config) const {
    safetensors_writer w;
    w.add_pair(layer0 + "mlp.down_proj", 128, 64, 4, 3);
    return read_peft(w, model, config);
  }
};

std::vector<float> product(const float* b, const float* a, std::span<const float> x, std::size_t rank,
                           std::size_t out) {
  std::vector<float> y(out, 0.0F);
  for (std::size_t r = 0; r < rank; ++r) {
    float sum = 0.0F;
    for (std::size_t c = 0; c < x.size(); ++c) sum += a[r * x.size() + c] * x[c];
    for (std::size_t row = 0; row < out; ++row) y[row] += b[row * rank + r] * sum;
  }
  return y;
}

/// One head turned for a position; pair i is of dimensions first(i) and second(i).
template <class First, class Second>
std::vector<float> rotated(std::span<const float> head, float position, First first, Second second) {
  std::vector<float> out(head.size());
  for (std::size_t i = 0; i < head.size() / 2; ++i) {
    const float angle = position * std::pow(10'000.0F, -2.0F * float(i) / float(head.size()));
    const float x = head[first(i)], y = head[second(i)];
    out[first(i)] = x * std::cos(angle) - y * std::sin(angle);
    out[second(i)] = x * std::sin(angle) + y * std::cos(angle);
  }
  return out;
}

float dot(const std::vector<float>& l, const std::vector<float>& r) {
  float sum = 0.0F;
  for (std::size_t i = 0; i < l.size(); ++i) sum += l[i] * r[i];
  return sum;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(peft_adapters, with_llama)

BOOST_AUTO_TEST_CASE(every_module) {
  const std::uint64_t vocab = model.spec.vocab;
  safetensors_writer w;
  w.add_pair("model.layers.1.mlp.down_proj", 128, 64, 4, 20);
  w.add_pair("base_model.model.lm_head", 64, vocab, 4, 30);
  w.add("base_model.model.model.embed_tokens.lora_embedding_A", some_matrix(4, vocab, 40));
  w.add("base_model.model.model.embed_tokens.lora_embedding_B", some_matrix(64, 4, 41));
  w.add_pair(layer0 + "mlp.up_proj", 64, 128, 4, 10);
  w.add_pair("layers.0.mlp.gate_proj", 64, 128, 4, 8);
  w.add(layer0 + "self_attn.o_proj.lora_A.default.weight", some_matrix(4, 64, 6));
  w.add(layer0 + "self_attn.o_proj.lora_B.default.weight", some_matrix(64, 4, 7));
  w.add_pair(layer0 + "self_attn.v_proj", 64, 32, 4, 4);
  w.add_raw(R"("__metadata__":{"format":"pt"})");
  const auto adapter = accepted(read_peft(w, model));
  gguf_writer same = empty_adapter();
  add_pair(same, "blk.0.attn_v.weight", 64, 32, 4, 4);
  add_pair(same, "blk.0.attn_output.weight", 64, 64, 4, 6);
  add_pair(same, "blk.0.ffn_gate.weight", 64, 128, 4, 8);
  add_pair(same, "blk.0.ffn_up.weight", 64, 128, 4, 10);
  add_matrix(same, "token_embd.weight.lora_a", transposed(some_matrix(4, vocab, 40)));
  add_matrix(same, "token_embd.weight.lora_b", some_matrix(64, 4, 41));
  add_pair(same, "output.weight", 64, vocab, 4, 30);
  add_pair(same, "blk.1.ffn_down.weight", 128, 64, 4, 20);
  BOOST_TEST(adapter.pairs.size() == 7U);
  BOOST_TEST(adapter.digest == accepted(read_gguf(same, model)).digest);
}

BOOST_AUTO_TEST_CASE(the_same_values_in_every_type) {
  std::string digest;
  for (const ggml_type type : {ggml_type::f32, ggml_type::f16, ggml_type::bf16}) {
    safetensors_writer w;
    w.add_pair(layer0 + "self_attn.k_proj", 64, 32, 4, 9, type);
    const auto adapter = accepted(read_peft(w, model));
    if (digest.empty()) digest = adapter.digest;
    BOOST_TEST(adapter.digest == digest);
  }
}

/// Attention must not notice in which order a file has the rows of a head: scores of Q and K that are turned
/// by halves, as the original code does, are those of the file's rows turned by neighbours.
BOOST_AUTO_TEST_CASE(rows_of_heads_follow_the_rotation) {
  constexpr std::size_t width = 64, head = 16, heads = 4, kv_heads = 2, rank = 4;
  safetensors_writer w;
  w.add_pair(layer0 + "self_attn.q_proj", width, heads * head, rank, 50);
  w.add_pair(layer0 + "self_attn.k_proj", width, kv_heads * head, rank, 60);
  const auto adapter = accepted(read_peft(w, model));
  const matrix x = some_matrix(1, width, 70), y = some_matrix(1, width, 71);
  const engine::lora_pair &q_pair = adapter.pairs[0], &k_pair = adapter.pairs[1];
  const auto file_q = product(adapter.b(q_pair), adapter.a(q_pair), x.values, rank, heads * head);
  const auto file_k = product(adapter.b(k_pair), adapter.a(k_pair), y.values, rank, kv_heads * head);
  const auto own_q = product(some_matrix(heads * head, rank, 51).values.data(),
                             some_matrix(rank, width, 50).values.data(), x.values, rank, heads * head);
  const auto own_k = product(some_matrix(kv_heads * head, rank, 61).values.data(),
                             some_matrix(rank, width, 60).values.data(), y.values, rank, kv_heads * head);
  const auto even = [](std::size_t i) { return 2 * i; };
  const auto odd = [](std::size_t i) { return 2 * i + 1; };
  const auto lower = [](std::size_t i) { return i; };
  const auto upper = [](std::size_t i) { return i + head / 2; };
  const auto part = [](const std::vector<float>& of, std::size_t h) {
    return std::span(of).subspan(h * head, head);
  };
  for (std::size_t h = 0; h < heads; ++h) {
    const std::size_t kv = h / (heads / kv_heads);
    const float score =
        dot(rotated(part(file_q, h), 11.0F, even, odd), rotated(part(file_k, kv), 4.0F, even, odd));
    const float own =
        dot(rotated(part(own_q, h), 11.0F, lower, upper), rotated(part(own_k, kv), 4.0F, lower, upper));
    BOOST_TEST(score == own, boost::test_tools::tolerance(1e-3F));
    // The heads themselves stay where they are.
    float sum = 0.0F, own_sum = 0.0F;
    for (const float v : part(file_q, h)) sum += v;
    for (const float v : part(own_q, h)) own_sum += v;
    BOOST_TEST(sum == own_sum, boost::test_tools::tolerance(1e-3F));
  }
  BOOST_TEST(!std::equal(file_q.begin(), file_q.end(), own_q.begin()));
}

BOOST_AUTO_TEST_CASE(rows_of_heads_one_by_one) {
  safetensors_writer w;
  matrix b{64, 4, std::vector<float>(256)};
  for (std::size_t row = 0; row < 64; ++row) {
    for (std::size_t r = 0; r < 4; ++r) b.values[row * 4 + r] = static_cast<float>(row);
  }
  w.add(layer0 + "self_attn.q_proj.lora_A.weight", some_matrix(4, 64, 1));
  w.add(layer0 + "self_attn.q_proj.lora_B.weight", b);
  const auto adapter = accepted(read_peft(w, model));
  const std::vector<float> first_head{0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15};
  for (std::size_t row = 0; row < 64; ++row) {
    BOOST_TEST(adapter.b(adapter.pairs[0])[row * 4 + 3] == first_head[row % 16] + 16.0F * float(row / 16));
  }
}

BOOST_AUTO_TEST_CASE(other_families_keep_their_rows) {
  const auto qwen = load(tiny("qwen2"));
  safetensors_writer w;
  w.add_pair(layer0 + "self_attn.q_proj", 64, 64, 4, 50);
  const auto adapter = accepted(read_peft(w, qwen->model));
  const matrix b = some_matrix(64, 4, 51);
  BOOST_TEST(std::equal(b.values.begin(), b.values.end(), adapter.b(adapter.pairs[0])));

  const auto phi = load(tiny("phi3"));
  safetensors_writer fused;
  fused.add_pair(layer0 + "self_attn.qkv_proj", 64, 128, 4, 50);
  fused.add_pair(layer0 + "mlp.gate_up_proj", 64, 256, 4, 60);
  const auto of_phi = accepted(read_peft(fused, phi->model));
  BOOST_TEST((of_phi.pairs[0].target == lora_target::attn_qkv));
  BOOST_TEST((of_phi.pairs[1].target == lora_target::ffn_gate_up));
  const matrix qkv = some_matrix(128, 4, 51);
  BOOST_TEST(std::equal(qkv.values.begin(), qkv.values.end(), of_phi.b(of_phi.pairs[0])));
  safetensors_writer split;
  split.add_pair(layer0 + "self_attn.q_proj", 64, 64, 4);
  expect_refusal(read_peft(split, phi->model), {"self_attn.q_proj'", "are one matrix", "not supported"});
}

BOOST_AUTO_TEST_CASE(modules_that_are_refused) {
  const auto refuse = [&](const std::string& module, std::initializer_list<std::string_view> parts) {
    safetensors_writer w;
    w.add_pair(module, 64, 64, 4);
    expect_refusal(read_peft(w, model), parts);
  };
  refuse(layer0 + "self_attn.qkv_proj", {"dir/adapter_model.safetensors: module", "matrices of their own"});
  refuse(layer0 + "self_attn.rotary_proj", {"'model.layers.0.self_attn.rotary_proj'", "no matrix"});
  refuse("base_model.model.model.layers.7.self_attn.q_proj", {"layer 7", "2 layers"});
  refuse("base_model.model.visual.blocks.0.attn.qkv", {"'visual.blocks.0.attn.qkv'"});
  refuse(layer0 + "block_sparse_moe.experts.0.w1", {"experts or their router"});
  refuse(layer0 + "block_sparse_moe.gate", {"experts or their router"});
  refuse(layer0 + "mlp.experts.3.gate_proj", {"experts or their router"});
  refuse(layer0 + "mlp.router", {"experts or their router"});
  refuse("base_model.model.model.embed_tokens", {"lora_embedding_A"});
  const auto refuse_tensor = [&](const std::string& name) {
    safetensors_writer w;
    w.add(name, some_matrix(64, 64, 1));
    expect_refusal(read_peft(w, model), {"'" + name + "' is no half of a pair", "not supported"});
  };
  refuse_tensor("base_model.model.lm_head.weight");
  refuse_tensor(layer0 + "self_attn.q_proj.lora_magnitude_vector");
  refuse_tensor(layer0 + "self_attn.q_proj.lora_B.bias");
  refuse_tensor(layer0 + "self_attn.q_proj.lora_A.other.weight");
  safetensors_writer w;
  w.add(layer0 + "self_attn.q_proj.lora_embedding_A", some_matrix(4, 64, 1));
  expect_refusal(read_peft(w, model), {"nothing else has"});
}

BOOST_AUTO_TEST_CASE(pairs_that_are_refused) {
  safetensors_writer alone;
  alone.add(layer0 + "self_attn.q_proj.lora_B.weight", some_matrix(64, 4, 1));
  expect_refusal(read_peft(alone, model), {"lora_B.weight' is one half of a pair"});
  safetensors_writer twice;
  twice.add_pair(layer0 + "self_attn.q_proj", 64, 64, 4);
  twice.add_pair("model.layers.0.self_attn.q_proj", 64, 64, 4);
  expect_refusal(read_peft(twice, model), {"are the same half of one pair"});
  safetensors_writer wide;
  wide.add_pair(layer0 + "self_attn.k_proj", 64, 64, 4);
  expect_refusal(read_peft(wide, model), {"lora_B.weight' has 64 rows; it must have 32"});
  safetensors_writer none;
  none.add_pair(layer0 + "self_attn.q_proj", 64, 64, 0);
  expect_refusal(read_peft(none, model), {"has 0 rows, the rank; it must be 1 to 512"});
  safetensors_writer vector;
  vector.add_entry(layer0 + "self_attn.q_proj.lora_A.weight", "F32", "[4,8,8]", 0, 1024);
  vector.data = bytes(1024);
  vector.add(layer0 + "self_attn.q_proj.lora_B.weight", some_matrix(64, 4, 1));
  expect_refusal(read_peft(vector, model), {"has 3 dimensions; it must be a matrix"});
  expect_refusal(read_peft(safetensors_writer(), model), {"has no pair"});
}

BOOST_AUTO_TEST_CASE(files_of_tensors_that_are_refused) {
  const auto refuse = [&](const safetensors_writer& w, std::initializer_list<std::string_view> parts) {
    expect_refusal(read_peft(w, model), parts);
  };
  safetensors_writer integers;
  integers.add_entry(layer0 + "self_attn.q_proj.lora_A.weight", "I8", "[4,64]", 0, 256);
  integers.data = bytes(256);
  refuse(integers, {"dir/adapter_model.safetensors", "dtype 'I8'", "F32, F16 and BF16"});
  safetensors_writer flat;
  flat.add_entry(layer0 + "self_attn.q_proj.lora_A.weight", "F32", "[64]", 0, 256);
  flat.data = bytes(256);
  refuse(flat, {"has 1 dimensions; it must be a matrix"});
  safetensors_writer gap;
  gap.add_pair(layer0 + "mlp.down_proj", 128, 64, 4, 3);
  gap.data.push_back(std::byte{0});
  refuse(gap, {"dir/adapter_model.safetensors"});
  safetensors_writer good;
  good.add_pair(layer0 + "mlp.down_proj", 128, 64, 4, 3);
  engine::adapter_limits small;
  small.json_bytes = 64;
  expect_refusal(read_peft(good, model, plain_config, small), {"the limit is 64"});
  const bytes whole = good.build();
  for (std::size_t size = 0; size < whole.size(); size += size < 400 ? 1 : 97) {
    BOOST_TEST(!engine::read_peft_adapter(plain_config, std::span(whole).first(size), "dir", model));
  }
}

BOOST_AUTO_TEST_CASE(scales) {
  const auto scale = [&](const std::string& config) { return accepted(with_config(config)).pairs[0].scale; };
  BOOST_TEST(scale(R"({"r": 4, "lora_alpha": 6})") == 1.5F);
  BOOST_TEST(scale(R"({"r": 4, "lora_alpha": 0.5})") == 0.125F);
  BOOST_TEST(scale(R"({"r": 4, "lora_alpha": 6, "use_rslora": true})") == 3.0F);
  BOOST_TEST(scale(R"({"r": 8, "lora_alpha": 6, "rank_pattern": {"up_proj": 2, "mlp.down_proj": 4}})") ==
             1.5F);
  BOOST_TEST(scale(R"({"r": 4, "lora_alpha": 6, "alpha_pattern": {"down_proj": 2, "mlp.down_proj": 4}})") ==
             0.5F);
  BOOST_TEST(scale(R"({"r": 4, "lora_alpha": 6, "alpha_pattern": {"own_proj": 2, "q_proj": 4}})") == 1.5F);
  const std::string pattern = R"("alpha_pattern": {"model.layers.0.mlp.down_proj": 8})";
  BOOST_TEST(scale(R"({"r": 4, "lora_alpha": 6, )" + pattern + "}") == 2.0F);
  expect_refusal(with_config(R"({"r": 8, "lora_alpha": 6})"),
                 {"'model.layers.0.mlp.down_proj' has pairs of rank 4; adapter_config.json says 8"});
}

BOOST_AUTO_TEST_CASE(target_modules) {
  const auto config = [](const std::string& modules) {
    return R"({"r": 4, "lora_alpha": 16, "target_modules": )" + modules + "}";
  };
  for (const char* modules : {R"(["q_proj", "down_proj"])", R"("all-linear")", "null", "[]",
                              R"(["model.layers.0.mlp.down_proj"])"}) {
    BOOST_TEST(accepted(with_config(config(modules))).pairs.size() == 1U);
  }
  expect_refusal(with_config(config(R"(["q_proj", "own_proj"])")), {"'target_modules'", "does not name"});
  expect_refusal(with_config(config("3")), {"'target_modules' is '3'"});
  expect_refusal(with_config(config("[3]")), {"'target_modules' is '3'"});
}

BOOST_AUTO_TEST_CASE(a_usual_configuration) {
  const auto adapter = accepted(with_config(R"({
    "alpha_pattern": {}, "auto_mapping": null, "base_model_name_or_path": "meta-llama/Llama-3.2-1B",
    "bias": "none", "corda_config": null, "eva_config": null, "exclude_modules": null,
    "fan_in_fan_out": false, "inference_mode": true, "init_lora_weights": true, "layer_replication": null,
    "layers_pattern": null, "layers_to_transform": null, "loftq_config": {}, "lora_alpha": 16,
    "lora_bias": false, "lora_dropout": 0.05, "megatron_config": null, "megatron_core": "megatron.core",
    "modules_to_save": null, "peft_type": "LORA", "peft_version": "0.18.0", "qalora_group_size": 16, "r": 4,
    "rank_pattern": {}, "revision": null, "target_modules": ["down_proj"], "target_parameters": null,
    "task_type": "CAUSAL_LM", "trainable_token_indices": null, "use_dora": false, "use_qalora": false,
    "use_rslora": false})"));
  BOOST_TEST(adapter.pairs[0].scale == 4.0F);
}

BOOST_AUTO_TEST_CASE(fields_that_change_the_arithmetic) {
  const auto refuse = [&](const std::string& member, std::initializer_list<std::string_view> parts) {
    expect_refusal(with_config(R"({"r": 4, "lora_alpha": 16, )" + member + "}"), parts);
  };
  refuse(R"("use_dora": true)", {"dir/adapter_config.json: 'use_dora' is 'true'", "not supported"});
  refuse(R"("fan_in_fan_out": true)", {"'fan_in_fan_out' is 'true'"});
  refuse(R"("lora_bias": true)", {"'lora_bias' is 'true'"});
  refuse(R"("use_qalora": true)", {"'use_qalora'"});
  refuse(R"("modules_to_save": ["lm_head"])", {"'modules_to_save' is an array"});
  refuse(R"("layer_replication": [[0, 2]])", {"'layer_replication' is an array"});
  refuse(R"("target_parameters": ["mlp.experts.gate_up_proj"])", {"'target_parameters'"});
  refuse(R"("trainable_token_indices": [1])", {"'trainable_token_indices'"});
  refuse(R"("alora_invocation_tokens": [1])", {"'alora_invocation_tokens'"});
  refuse(R"("something_new": 1)", {"'something_new' is '1'"});
  refuse(R"("password": "hunter2")", {"'password' is a text; this is not supported"});
  refuse(R"("bias": "all")", {"'bias' is", "only 'none' is supported"});
  refuse(R"("peft_type": "LOHA")", {"'peft_type'", "only 'LORA'"});
  refuse(R"("init_lora_weights": "pissa")", {"'init_lora_weights'", "pissa", "may have been changed"});
  refuse(R"("use_rslora": 1)", {"'use_rslora' is '1'"});
  refuse(R"("rank_pattern": {"^q_proj": 4})", {"'rank_pattern' has the key '^q_proj'"});
  refuse(R"("rank_pattern": {"q_proj": 0})", {"'rank_pattern.q_proj' is '0'"});
  refuse(R"("rank_pattern": [])", {"'rank_pattern' is an array"});
  refuse(R"("alpha_pattern": {"q_proj": "x"})", {"'alpha_pattern.q_proj'"});
}

BOOST_AUTO_TEST_CASE(ranks_and_alphas_of_a_configuration) {
  const auto refuse = [&](const std::string& config, std::initializer_list<std::string_view> parts) {
    expect_refusal(with_config(config), parts);
  };
  for (const char* r : {"0", "-1", "1.5", "\"4\"", "1048577", "18446744073709551615"}) {
    refuse(R"({"lora_alpha": 16, "r": )" + std::string(r) + "}",
           {"'r' is", "whole number from 1 to 1048576"});
  }
  for (const char* alpha : {"0", "-1", "1e999", "\"4\"", "true"}) {
    refuse(R"({"r": 4, "lora_alpha": )" + std::string(alpha) + "}", {"lora_alpha"});
  }
  refuse(R"({"lora_alpha": 16})", {"'r' is missing"});
  refuse(R"({"r": 4})", {"'lora_alpha' is missing"});
  refuse("", {"not valid JSON"});
  refuse("[1]", {"one JSON object"});
  refuse(R"({"r": 4, "r": 4, "lora_alpha": 16})", {"the name 'r' occurs twice"});
  refuse(R"({"r": 4, "lora_alpha": 16} x)", {"not valid JSON"});
  std::string many;
  for (int i = 0; i < 4'095; ++i) many += ",\"" + std::to_string(i) + "\":null";
  refuse(R"({"r": 4, "lora_alpha": 16)" + many + "}", {"an object of more than 4096 names"});
  refuse(R"({"r": 4, "lora_alpha": 16, "x": [[[[[[[[[]]]]]]]]]})", {"8 levels"});
  engine::adapter_limits small;
  small.json_bytes = 10;
  expect_refusal(read_peft(safetensors_writer(), model, plain_config, small), {"the limit is 10"});
}

// Original: value heads 0 and 1 are of key head 0, 2 and 3 of key head 1. The file: heads 0, 2, 1, 3.
BOOST_AUTO_TEST_CASE(value_heads_of_a_delta_net_come_in_the_order_of_the_model_s_file) {
  tiny_model_options of;
  of.file = "qwen35";
  const bytes image = make_tiny_model(of);
  const auto file = engine::gguf_file::parse(image, "tiny.gguf").value();
  const engine::model hybrid = engine::load_model(file).value();
  const auto& spec = hybrid.spec;
  BOOST_TEST_REQUIRE(spec.recurrence.value_heads == 4U);
  BOOST_TEST_REQUIRE(spec.recurrence.key_heads == 2U);
  const std::uint32_t width = spec.embedding, head = spec.recurrence.value_length;
  const std::uint32_t keys = 2 * spec.recurrence.keys(), values = spec.recurrence.values();
  const auto in = some_matrix(keys + values, 1, 5), gate = some_matrix(values, 1, 6),
             out = some_matrix(1, values, 7);
  const auto one = some_matrix(1, width, 8), many = some_matrix(width, 1, 9);
  const std::string at = layer0 + "linear_attn.";
  safetensors_writer w;
  const auto add = [&](const std::string& name, const matrix& a, const matrix& b) {
    w.add(at + name + ".lora_A.weight", a, ggml_type::f32);
    w.add(at + name + ".lora_B.weight", b, ggml_type::f32);
  };
  add("in_proj_qkv", one, in);
  add("in_proj_z", one, gate);
  add("out_proj", out, many);
  const auto read = accepted(read_peft(w, hybrid, R"({"r": 1, "lora_alpha": 1})"));
  BOOST_TEST_REQUIRE(read.pairs.size() == 3U);
  const std::uint32_t original[] = {0, 2, 1, 3};
  for (std::uint32_t i = 0; i < keys; ++i) BOOST_TEST(read.b(read.pairs[0])[i] == in.values[i]);
  for (std::uint32_t i = 0; i < values; ++i) {
    const std::uint32_t from = original[i / head] * head + i % head;
    BOOST_TEST(read.b(read.pairs[0])[keys + i] == in.values[keys + from]);
    BOOST_TEST(read.b(read.pairs[1])[i] == gate.values[from]);
    BOOST_TEST(read.a(read.pairs[2])[i] == out.values[from]);
  }
}

BOOST_AUTO_TEST_SUITE_END()
