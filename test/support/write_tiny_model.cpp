// write_tiny_model --family NAME --out FILE [options]: a small random model for shell and Python tests.
#include <charconv>
#include <cstdio>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>

#include "test/support/tiny_model.hpp"

namespace {

using orcd::engine::ggml_type;
using orcd::test::tiny_model_options;

constexpr const char* usage =
    "usage: write_tiny_model --out FILE [--family "
    "llama|qwen2|qwen2vl|qwen3|qwen3vl|phi3|gpt-oss|bert|bitnet]\n"
    "  [--layers N] [--embedding N]\n"
    "  [--heads N] [--kv-heads N] [--head-dim N] [--rope-dims N] [--ffn N] [--vocab N] [--context N]\n"
    "  [--experts N] [--experts-used N] [--window N] [--seed N] [--type NAME] [--embedding-type NAME]\n"
    "  [--expert-type NAME] [--mixture] [--tied] [--fused-qkv] [--biases] [--rope-freqs] [--longrope] "
    "[--yarn]\n"
    "  [--sentencepiece] [--picture-tokens] [--pooling 0..4] [--weight-scales] [--padded-embedding N] "
    "[--padded-ffn N]\n";

template <class T>
T number(const std::string& text) {
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size())
    throw std::runtime_error("not a number: " + text);
  return value;
}

ggml_type type_named(const std::string& name) {
  for (const auto& traits : orcd::engine::supported_types()) {
    if (traits.name == name) return traits.type;
  }
  throw std::runtime_error("no supported type " + name);
}

struct command {
  tiny_model_options options;
  std::string out;
};

command parse(int argc, char** argv) {
  command c;
  tiny_model_options& o = c.options;
  const std::map<std::string, std::uint32_t*> numbers{{"--layers", &o.layers},
                                                      {"--embedding", &o.embedding},
                                                      {"--heads", &o.heads},
                                                      {"--kv-heads", &o.kv_heads},
                                                      {"--head-dim", &o.head_dim},
                                                      {"--rope-dims", &o.rope_dims},
                                                      {"--ffn", &o.ffn},
                                                      {"--vocab", &o.vocab},
                                                      {"--context", &o.context},
                                                      {"--experts", &o.experts},
                                                      {"--experts-used", &o.experts_used},
                                                      {"--window", &o.window},
                                                      {"--padded-embedding", &o.padded_embedding},
                                                      {"--padded-ffn", &o.padded_ffn}};
  const std::map<std::string, bool*> flags{{"--mixture", &o.mixture},
                                           {"--tied", &o.tied_output},
                                           {"--fused-qkv", &o.fused_qkv},
                                           {"--biases", &o.biases},
                                           {"--rope-freqs", &o.rope_freqs},
                                           {"--longrope", &o.longrope},
                                           {"--yarn", &o.yarn},
                                           {"--sentencepiece", &o.sentencepiece},
                                           {"--picture-tokens", &o.picture_tokens},
                                           {"--weight-scales", &o.weight_scales}};
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (const auto flag = flags.find(name); flag != flags.end()) {
      *flag->second = true;
      continue;
    }
    if (i + 1 >= argc) throw std::runtime_error("unknown option or missing value: " + name);
    const std::string value = argv[++i];
    if (const auto at = numbers.find(name); at != numbers.end())
      *at->second = number<std::uint32_t>(value);
    else if (name == "--seed")
      o.seed = number<std::uint64_t>(value);
    else if (name == "--pooling")
      o.pooling = number<std::uint32_t>(value);
    else if (name == "--family")
      o.family = value;
    else if (name == "--out")
      c.out = value;
    else if (name == "--type")
      o.matrix_type = type_named(value);
    else if (name == "--embedding-type")
      o.embedding_type = type_named(value);
    else if (name == "--expert-type")
      o.expert_type = type_named(value);
    else
      throw std::runtime_error("unknown option " + name);
  }
  if (c.out.empty()) throw std::runtime_error("--out is missing");
  return c;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const command c = parse(argc, argv);
    orcd::test::write_file(c.out, orcd::test::make_tiny_model(c.options));
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "write_tiny_model: %s\n%s", e.what(), usage);
    return 2;
  }
}
