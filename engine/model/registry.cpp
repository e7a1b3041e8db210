#include <array>

#include "engine/model/family.hpp"

namespace orcd::engine {
namespace {

constexpr std::array families{
    &llama_family,      &qwen2_family,          &qwen3_family,    &phi3_family,         &gpt_oss_family,
    &olmo2_family,      &exaone4_family,        &granite_family,  &granitemoe_family,   &smollm3_family,
    &seed_oss_family,   &internlm2_family,      &ernie4_5_family, &ernie4_5_moe_family, &mistral3_family,
    &starcoder2_family, &qwen3moe_family,       &qwen2moe_family, &qwen2vl_family,      &qwen3vl_family,
    &qwen3vlmoe_family, &gemma2_family,         &gemma3_family,   &gemma4_family,       &command_r_family,
    &cohere2_family,    &glm4_family,           &glm4moe_family,  &deepseek2_family,    &qwen35_family,
    &qwen35moe_family,  &qwen3next_family,      &lfm2_family,     &lfm2moe_family,      &granitehybrid_family,
    &nemotron_h_family, &nemotron_h_moe_family, &bert_family,     &bitnet_158_family,   &bitnet_25_family,
    &bitnet_family};

}  // namespace

const family* find_family(std::string_view architecture) noexcept {
  for (const family* f : families) {
    if (f->architecture == architecture) return f;
  }
  return nullptr;
}

std::string supported_architectures() {
  std::string out;
  for (const family* f : families) out.append(out.empty() ? "" : ", ").append(f->architecture);
  return out;
}

}  // namespace orcd::engine
