#include "test/unit/gpu/tiny_backend.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace orcd::test {

using engine::ggml_type;

namespace {

/// One of each family, and of each way that its layers may be made.
constexpr const char* family_files[] = {
    "olmo3",         "exaone4-windows", "granite",        "granitemoe-shared", "smollm3",
    "seed_oss",      "mistral3",        "starcoder2",     "qwen3moe",          "qwen2moe",
    "gemma2",        "gemma3",          "command-r",      "command-r-plus",    "cohere2",
    "glm4",          "glm4moe",         "deepseek2",      "deepseek2-glm",     "deepseek2-groups",
    "deepseek2-v2",  "ernie4_5-moe",    "gemma4-inputs",  "gemma4-odd",        "gemma4-experts",
    "qwen35-one",    "qwen35moe",       "qwen3next-four", "lfm2moe",           "granitehybrid",
    "nemotron_h_moe"};

}  // namespace

std::vector<tiny_case> every_tiny_model() {
  std::vector<tiny_case> cases;
  const auto add = [&](std::string name, auto change) {
    tiny_case c{.name = std::move(name), .options = {}};
    change(c.options);
    cases.push_back(std::move(c));
  };
  add("llama", [](tiny_model_options& o) { o.matrix_type = ggml_type::q4_1; });
  add("llama with biases, fused, tied, llama3 factors", [](tiny_model_options& o) {
    o.biases = o.fused_qkv = o.tied_output = o.rope_freqs = true;
    o.matrix_type = ggml_type::q8_0;
  });
  add("llama of every block type", [](tiny_model_options& o) {
    o.layers = 4;
    o.embedding = 256;
    o.ffn = 512;
    o.mixture = true;
  });
  add("mixtral", [](tiny_model_options& o) {
    o.experts = 5;
    o.experts_used = 3;
    o.matrix_type = ggml_type::q5_0;
  });
  add("qwen2", [](tiny_model_options& o) {
    o.family = "qwen2";
    o.matrix_type = ggml_type::q5_1;
  });
  add("qwen3", [](tiny_model_options& o) {
    o.family = "qwen3";
    o.head_dim = 24;
  });
  add("phi3, partial rotation", [](tiny_model_options& o) {
    o.family = "phi3";
    o.rope_dims = 12;
    o.matrix_type = ggml_type::bf16;
  });
  add("gpt-oss", [](tiny_model_options& o) {
    o.family = "gpt-oss";
    o.matrix_type = ggml_type::q8_0;
    o.expert_type = ggml_type::mxfp4;
  });
  add("gpt-oss of 128 experts", [](tiny_model_options& o) {
    o.family = "gpt-oss";
    o.ffn = 32;
    o.experts = 128;
    o.experts_used = 4;
    o.matrix_type = ggml_type::q8_0;
    o.expert_type = ggml_type::mxfp4;
  });
  add("bitnet", [](tiny_model_options& o) {
    o.family = "bitnet-b1.58";
    o.embedding = 256;
    o.ffn = 384;
    o.matrix_type = ggml_type::i2_s;
    o.embedding_type = ggml_type::f16;
  });
  add("bitnet, scales apart", [](tiny_model_options& o) {
    o.family = "bitnet";
    o.embedding = 256;
    o.ffn = 512;
    o.matrix_type = ggml_type::tq1_0;
    o.weight_scales = true;
  });
  for (const char* file : family_files) add(file, [&](tiny_model_options& o) { o.file = file; });
  return cases;
}

tiny_backend::tiny_backend(bytes image, gpu::host_backend_options options, std::uint32_t slots,
                           engine::kv_types kv, engine::weight_source weights, engine::cache_source cache)
    : image_(std::move(image)),
      file_(engine::gguf_file::parse(image_, "tiny").value()),
      model_(engine::load_model(file_).value()),
      device_(gpu::make_host_backend(std::move(options))) {
  engine::accelerator_config config{.slots = slots, .context_tokens = 128, .banned_tokens = {}, .kv = kv};
  config.weights = std::move(weights);
  config.cache = std::move(cache);
  (void)device_->load(model_, config, [](unsigned) {}).value();
}

std::vector<engine::token_id> tiny_backend::prompt(std::uint32_t count, std::uint32_t seed) const {
  std::vector<engine::token_id> tokens;
  for (std::uint32_t i = 0; i < count; ++i) {
    tokens.push_back(
        static_cast<engine::token_id>((seed * 7919U + i * 104'729U + i * i) % model_.spec.vocab));
  }
  return tokens;
}

std::vector<std::vector<float>> tiny_backend::generate(engine::slot_id slot,
                                                       const std::vector<engine::token_id>& prompt,
                                                       std::uint32_t decoded, std::uint32_t chunk) {
  const engine::interrupt_flag never{false};
  const engine::sampling_params greedy{.temperature = 0.0F};
  const engine::sample_request request{.params = &greedy, .draw = 0.0};
  std::vector<engine::sampled_token> sampled;
  std::vector<std::vector<float>> logits;
  std::vector<engine::token_id> pending = prompt;
  std::uint32_t position = 0;
  while (logits.size() <= decoded) {
    for (std::size_t at = 0; at < pending.size(); at += chunk) {
      const std::size_t count = std::min<std::size_t>(chunk, pending.size() - at);
      const bool last = at + count == pending.size();
      const engine::sequence_step step{.slot = slot,
                                       .position = position,
                                       .tokens = {pending.data() + at, count},
                                       .sample = last ? &request : nullptr};
      if (!device_->step({&step, 1}, never, sampled)) return {};
      position += static_cast<std::uint32_t>(count);
    }
    const auto row = device_->logits(slot);
    logits.emplace_back(row.begin(), row.end());
    pending = {sampled.back().token};
  }
  return logits;
}

engine::result<engine::memory_plan> load_again(const tiny_backend& from, engine::weight_source weights) {
  engine::accelerator_config config{.slots = 1, .context_tokens = 128, .banned_tokens = {}};
  config.weights = std::move(weights);
  return gpu::make_host_backend()->load(from.model(), config, [](unsigned) {});
}

bool same_logits(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  if (a.empty() || a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto finite = [](float v) { return std::isfinite(v); };
    if (a[i].size() != b[i].size() || !std::all_of(a[i].begin(), a[i].end(), finite)) return false;
    if (std::equal(a[i].begin() + 1, a[i].end(), a[i].begin())) return false;
    if (std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0) return false;
  }
  return true;
}

}  // namespace orcd::test
