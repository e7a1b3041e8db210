#include <array>

#include "engine/model/family.hpp"

namespace orcd::engine {
namespace {

constexpr std::array families{&llama_family,      &qwen2_family,     &qwen3_family,
                              &phi3_family,       &gpt_oss_family,   &bert_family,
                              &bitnet_158_family, &bitnet_25_family, &bitnet_family};

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
