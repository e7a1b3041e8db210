// Models of two layers, as wide as a small model's heads, of every family: written to a file and loaded on
// the GPU.
#pragma once

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "test/gpu/cuda/loaded_cuda_model.hpp"
#include "test/support/temporary_directory.hpp"
#include "test/support/tiny_model.hpp"

namespace orcd::test {

inline constexpr std::uint32_t generated_context = 2304;
inline constexpr std::uint32_t long_context = 18'432;  ///< of the shape that is called long

/// The name of a family's shape with heads of this width.
inline std::string heads_of(const std::string& family, std::uint32_t width) {
  return family + "-heads-of-" + std::to_string(width);
}

inline void add_widths_of_heads(std::map<std::string, tiny_model_options>& all) {
  for (const char* family : {"llama-no-f32", "phi3", "gpt-oss", "few-bit", "table"}) {
    for (const std::uint32_t width : {32U, 64U, 96U, 128U}) {
      tiny_model_options& heads = all[heads_of(family, width)] = all[family];
      heads.head_dim = width;
    }
  }
}

/// Files for which the decode program has kernels of their own.
inline void add_few_bits(std::map<std::string, tiny_model_options>& all, const tiny_model_options& base) {
  for (const auto& [name, type] :
       {std::pair{"few-bit", engine::ggml_type::q3_k}, {"table", engine::ggml_type::iq4_xs}}) {
    all[name] = base;
    all[name].family = "llama";
    all[name].matrix_type = type;
    all[name].embedding_type = engine::ggml_type::q6_k;
    all[name].heads = 8;  // rows of the output projection are blocks of 256 with heads of 32 and 96, too
  }
}

/// Heads with keys of their own, or two or three of a key.
inline void add_many_heads(std::map<std::string, tiny_model_options>& all) {
  // So many heads that a worker of the one kernel has every second page.
  all["many-heads"] = all["phi3"];
  all["many-heads"].heads = all["many-heads"].kv_heads = 64;
  all["many-heads"].head_dim = 32;
  all["many-wide-heads"] = all["many-heads"];
  all["many-wide-heads"].head_dim = 96;
  all["more-heads-than-blocks"] = all["many-heads"];
  all["more-heads-than-blocks"].heads = all["more-heads-than-blocks"].kv_heads = 176;
  all["heads-in-pairs"] = all["many-heads"];
  all["heads-in-pairs"].heads = 128;
  all["wide-heads-by-three"] = all["many-wide-heads"];
  all["wide-heads-by-three"].heads = 96;
  all["wide-heads-by-three"].kv_heads = 32;
}

/// Experts of rows as wide as gpt-oss's, and as many of them as gpt-oss-120b has.
inline void add_many_experts(std::map<std::string, tiny_model_options>& all) {
  // Rows of gpt-oss-20b's width: many chunks a block, the last of a row with one group.
  all["gpt-oss-wide"] = all["gpt-oss"];
  all["gpt-oss-wide"].embedding = 2880;
  all["gpt-oss-wide"].ffn = 2880;
  all["gpt-oss-wide"].experts = 4;
  all["gpt-oss-wide"].experts_used = 2;
  // As many experts as gpt-oss-120b has, and its rows of the router.
  all["gpt-oss-128"] = all["gpt-oss"];
  all["gpt-oss-128"].ffn = 256;
  all["gpt-oss-128"].experts = 128;
  all["gpt-oss-128-wide"] = all["gpt-oss-128"];
  all["gpt-oss-128-wide"].embedding = 2880;
  all["gpt-oss-128-wide"].ffn = 64;
  // A scale for each expert.
  all["scaled-experts"] = all["mixtral"];
  all["scaled-experts"].expert_type = engine::ggml_type::nvfp4;
  all["scaled-experts"].expert_scales = true;
}

/// Latents, of which a file has one matrix, or two stacks.
inline void add_latents(std::map<std::string, tiny_model_options>& all) {
  for (const char* file : {"deepseek2", "deepseek2-glm"}) all[file].file = file;
}

/// Models with integer activations.
inline void add_ternary(std::map<std::string, tiny_model_options>& all, const tiny_model_options& base) {
  tiny_model_options& plain = all["bitnet"] = base;
  plain.family = "bitnet-b1.58";
  plain.matrix_type = engine::ggml_type::i2_s;
  plain.embedding_type = engine::ggml_type::f16;
  all["bitnet-silu"] = plain;
  all["bitnet-silu"].family = "bitnet";
  // Rows that end within 512 columns; a head in Q6_K.
  tiny_model_options& odd = all["bitnet-odd"] = plain;
  odd.embedding = 768;
  odd.heads = 3;
  odd.kv_heads = 1;
  odd.head_dim = 128;
  odd.ffn = 1920;
  odd.embedding_type = engine::ggml_type::q6_k;
  // BitNet b1.58 2B-4T's.
  tiny_model_options& wide = all["bitnet-wide"] = plain;
  wide.embedding = 2560;
  wide.heads = 20;
  wide.kv_heads = 5;
  wide.head_dim = 128;
  wide.ffn = 6912;
  // Rows that are not kept in registers: of the feed-forward, and of attention, with three heads a block.
  all["bitnet-wide-ffn"] = plain;
  all["bitnet-wide-ffn"].ffn = 8704;
  tiny_model_options& heads = all["bitnet-many-heads"] = plain;
  heads.heads = 60;
  heads.kv_heads = 4;
  heads.head_dim = 128;
  // One chunk is more than a ring holds.
  all["bitnet-too-wide"] = plain;
  all["bitnet-too-wide"].ffn = 16'384;
  // No head of the kernel has this format.
  all["bitnet-q4_1"] = plain;
  all["bitnet-q4_1"].embedding_type = engine::ggml_type::q4_1;
  for (const std::uint32_t width : {32U, 64U, 96U, 128U}) {
    all[heads_of("bitnet", width)] = plain;
    all[heads_of("bitnet", width)].head_dim = width;
  }
}

/// Two layers as wide as a small model's heads, in the types of the three targets and in all of them.
inline std::map<std::string, tiny_model_options> generated_shapes() {
  tiny_model_options base;
  base.embedding = 256;
  base.heads = 4;
  base.head_dim = 64;
  base.ffn = 512;
  base.context = generated_context;
  std::map<std::string, tiny_model_options> all{
      {"llama", base}, {"qwen2", base}, {"phi3", base}, {"gpt-oss", base}, {"mixtral", base}};
  for (auto& [name, options] : all) {
    if (name != "mixtral") options.family = name;
  }
  all["llama"].mixture = true;
  all["llama"].layers = 4;  // has matrices of every type
  all["llama-no-f32"] = all["llama"];
  all["llama-no-f32"].mixture_f32 = false;
  all["llama-f32"] = base;
  all["llama-f32"].family = "llama";
  all["llama-f32"].matrix_type = engine::ggml_type::f32;
  all["qwen2"].matrix_type = engine::ggml_type::q5_0;
  all["qwen2"].embedding_type = engine::ggml_type::q8_0;
  all["qwen2"].tied_output = true;
  all["phi3"].matrix_type = engine::ggml_type::q4_k;
  all["phi3"].head_dim = 96;
  all["phi3"].kv_heads = 4;
  all["gpt-oss"].matrix_type = engine::ggml_type::q8_0;
  all["gpt-oss"].expert_type = engine::ggml_type::mxfp4;
  all["gpt-oss"].experts = 8;
  all["gpt-oss"].experts_used = 4;
  all["gpt-oss"].window = 128;
  all["mixtral"].matrix_type = engine::ggml_type::q4_k;
  all["mixtral"].experts = 4;
  add_few_bits(all, base);
  // Residual streams of the widths of Phi-3-mini and of an 8B model.
  all["phi3-wide"] = all["phi3"];
  all["phi3-wide"].embedding = 3072;
  all["phi3-wide"].vocab = 70'000;  // the output head comes in two parts
  all["llama-wide"] = all["llama-no-f32"];
  all["llama-wide"].embedding = 4096;
  // Attention begins past the sums of a wide product; and a block has more outputs than terms are fetched of.
  all["narrow-heads"] = all["phi3"];
  all["narrow-heads"].embedding = 8192;
  all["narrow-heads"].heads = all["narrow-heads"].kv_heads = 8;
  all["narrow-heads"].head_dim = 32;
  all["wide-ffn"] = all["phi3"];
  all["wide-ffn"].ffn = 28'672;
  add_many_heads(all);
  all["long"] = all["qwen2"];
  all["long"].context = long_context;
  // Heads of 96, or padded to that: more queries of a key than warps that prepare them, and more than a block
  // takes.
  all["grouped-heads"] = all["phi3"];
  all["grouped-heads"].heads = 8;
  all["grouped-heads"].kv_heads = 1;
  all["two-tiles"] = all["grouped-heads"];
  all["two-tiles"].heads = 16;
  all["padded-heads"] = all["phi3"];
  all["padded-heads"].head_dim = 80;
  add_many_experts(all);
  add_widths_of_heads(all);
  add_ternary(all, base);
  add_latents(all);
  return all;
}

inline const std::vector<std::string> wide_shape_names{"phi3-wide", "llama-wide", "narrow-heads", "wide-ffn"};
inline const std::vector<std::string> shape_names{"llama", "llama-no-f32", "qwen2",
                                                  "phi3",  "gpt-oss",      "mixtral"};

inline const std::vector<std::string> ternary_shape_names{"bitnet",
                                                          "bitnet-silu",
                                                          "bitnet-odd",
                                                          "bitnet-wide",
                                                          "bitnet-wide-ffn",
                                                          "bitnet-many-heads",
                                                          heads_of("bitnet", 32),
                                                          heads_of("bitnet", 64),
                                                          heads_of("bitnet", 96),
                                                          heads_of("bitnet", 128)};

/// With many experts, and with integer activations; all that adapters may change.
inline const std::vector<std::string> adapted_shape_names{"llama",          "llama-no-f32", "qwen2",
                                                          "phi3",           "gpt-oss",      "mixtral",
                                                          "scaled-experts", "gpt-oss-128",  "bitnet"};
/// With latents, too.
inline const std::vector<std::string> all_shape_names{
    "llama",          "llama-no-f32", "qwen2",  "phi3",      "gpt-oss",      "mixtral",
    "scaled-experts", "gpt-oss-128",  "bitnet", "deepseek2", "deepseek2-glm"};

/// A generated model in a file, and loaded models of it.
class generated_model {
 public:
  explicit generated_model(const std::string& shape) : path_(folder_.file(shape + ".gguf")) {
    const bytes image = make_tiny_model(generated_shapes().at(shape));
    std::ofstream out(path_, std::ios::binary);
    out.write(reinterpret_cast<const char*>(image.data()), static_cast<std::streamsize>(image.size()));
    out.close();
    BOOST_REQUIRE(out.good());
  }
  [[nodiscard]] loaded_cuda_model load(gpu::cuda_backend_options options, std::uint32_t slots,
                                       std::uint32_t context = generated_context) const {
    return {path_, context, {}, std::move(options), slots};
  }

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  temporary_directory folder_;
  std::string path_;
};

}  // namespace orcd::test
