// Where weights go: every byte of every tensor once, aligned, without overlap; fused tensors split.
#include "gpu/plan/weight_layout.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "engine/gguf/gguf_file.hpp"
#include "engine/model/model_tensors.hpp"
#include "gpu/plan/arena_plan.hpp"
#include "gpu/plan/latent_weights.hpp"
#include "gpu/plan/model_support.hpp"
#include "test/support/tiny_model.hpp"
#include "test/unit/gpu/tiny_backend.hpp"

namespace orcd::test {
namespace {

using engine::ggml_type;
using kernels::packed_format;

/// A model and the image it points into.
struct loaded_model {
  explicit loaded_model(const tiny_model_options& options)
      : image(make_tiny_model(options)),
        file(engine::gguf_file::parse(image, "tiny").value()),
        model(engine::load_model(file).value()) {
    BOOST_REQUIRE(gpu::part_joined_latents(model, 1).has_value());
  }
  bytes image;
  engine::gguf_file file;
  engine::model model;
};

constexpr std::uintptr_t base = std::uintptr_t{1} << 40;

struct range {
  std::uint64_t begin, end;
};

/// What a piece occupies in the arena.
std::vector<range> ranges_of(const gpu::weight_piece& piece) {
  if (!piece.packed) {
    return {{piece.offset, piece.offset + piece.rows * piece.staged_row_bytes()}};
  }
  std::vector<range> out{
      {piece.offset, piece.offset + kernels::packed_bytes(piece.format, piece.rows, piece.cols)}};
  const std::uint64_t scales = kernels::packed_row_scales(piece.format, piece.rows) * sizeof(float);
  if (scales > 0) out.push_back({piece.row_scale_offset, piece.row_scale_offset + scales});
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(weight_layout)

BOOST_AUTO_TEST_CASE(pieces_of_every_family_are_aligned_disjoint_and_inside) {
  for (const tiny_case& c : every_tiny_model()) {
    const loaded_model m(c.options);
    if (!gpu::check_cuda_support(m.model.spec)) continue;
    const auto layout = gpu::lay_out_weights(m.model, base);
    BOOST_REQUIRE_MESSAGE(layout, c.name);
    std::vector<range> ranges;
    for (const auto& piece : layout->pieces) {
      BOOST_TEST(piece.offset % gpu::vram_alignment == 0U, c.name);
      for (const range& r : ranges_of(piece)) ranges.push_back(r);
    }
    std::sort(ranges.begin(), ranges.end(), [](range a, range b) { return a.begin < b.begin; });
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const std::uint64_t limit = i + 1 < ranges.size() ? ranges[i + 1].begin : layout->bytes;
      BOOST_TEST(ranges[i].end <= limit, c.name << ": piece " << i << " reaches " << ranges[i].end
                                                << ", the next begins at " << limit);
    }
  }
}

// The classifier of a ranking model stays on the host.
BOOST_AUTO_TEST_CASE(an_encoder_has_its_tables_and_norms) {
  tiny_model_options options;
  options.family = "bert";
  const loaded_model m(options);
  const auto layout = gpu::lay_out_weights(m.model, base).value();
  std::uint64_t read = 0;
  for (const auto& piece : layout.pieces) read += piece.rows * piece.row_bytes;
  BOOST_TEST(read == engine::payload_bytes(m.model.weights));
  const auto& w = layout.weights;
  for (const float* vector :
       {w.positions, w.token_types, w.embedding_norm, w.embedding_norm_bias, w.layers[1].attn_output_norm,
        w.layers[1].attn_output_norm_bias, w.layers[1].layer_output_norm, w.layers[1].layer_output_norm_bias,
        w.layers[1].o_bias, w.layers[1].up_bias, w.layers[1].down_bias})
    BOOST_TEST(vector != nullptr);
  BOOST_TEST(w.output_norm == nullptr);
  BOOST_TEST(w.layers[0].gate.data == nullptr);
  BOOST_TEST(w.layers[0].up.data != nullptr);
}

BOOST_AUTO_TEST_CASE(every_byte_of_every_tensor_is_read_once) {
  for (const tiny_case& c : every_tiny_model()) {
    const loaded_model m(c.options);
    if (!gpu::check_cuda_support(m.model.spec)) continue;
    const auto layout = gpu::lay_out_weights(m.model, base);
    BOOST_REQUIRE_MESSAGE(layout, c.name);
    // Frequency factors go into a table of the forward pass, and layers' factors into its launches.
    std::uint64_t tables = m.model.weights.rope_freqs.bytes + m.model.weights.rope_factors_long.bytes +
                           m.model.weights.rope_factors_short.bytes;
    for (const engine::layer_weights& layer : m.model.weights.layers)
      tables += layer.layer_output_scale.bytes;
    std::uint64_t read = 0;
    std::uint64_t trailers = 0;
    for (const auto& tensor : m.file.tensors()) trailers += engine::traits_of(tensor.type).trailer_bytes;
    std::vector<range> sources;
    for (const auto& piece : layout->pieces) {
      const auto begin = reinterpret_cast<std::uintptr_t>(piece.raw);
      read += piece.rows * piece.row_bytes;
      sources.push_back({begin, begin + piece.rows * piece.row_bytes});
    }
    BOOST_TEST(read == engine::payload_bytes(m.model.weights) - tables - trailers, c.name);
    std::sort(sources.begin(), sources.end(), [](range a, range b) { return a.begin < b.begin; });
    for (std::size_t i = 1; i < sources.size(); ++i) {
      BOOST_TEST(sources[i - 1].end <= sources[i].begin, c.name << ": two pieces read the same bytes");
    }
  }
}

BOOST_AUTO_TEST_CASE(fused_tensors_become_matrices_of_their_own) {
  tiny_model_options options;
  options.family = "phi3";
  options.matrix_type = ggml_type::q8_0;
  const loaded_model m(options);
  const auto layout = gpu::lay_out_weights(m.model, base);
  BOOST_REQUIRE(layout);
  const auto& layer = layout->weights.layers[1];
  BOOST_TEST(layer.q.rows == 64U);
  BOOST_TEST(layer.k.rows == 32U);
  BOOST_TEST(layer.v.rows == 32U);
  BOOST_TEST(layer.gate.rows == 128U);
  BOOST_TEST(layer.up.rows == 128U);
  BOOST_TEST(layer.gate.cols == 64U);
  BOOST_TEST((layer.q.format == packed_format::q8_0));
  // Rows follow each other in the file in the order Q, K, V and gate, up.
  const auto raw_of = [&](const kernels::packed_matrix& matrix) {
    for (const auto& piece : layout->pieces) {
      if (base + piece.offset == reinterpret_cast<std::uintptr_t>(matrix.data)) return piece.raw;
    }
    return static_cast<const std::byte*>(nullptr);
  };
  const auto& from = m.model.weights.layers[1];
  constexpr std::uint64_t row = 68;  // 64 columns of Q8_0
  BOOST_TEST(raw_of(layer.q) == from.attn_qkv.data);
  BOOST_TEST(raw_of(layer.k) == from.attn_qkv.data + 64 * row);
  BOOST_TEST(raw_of(layer.v) == from.attn_qkv.data + 96 * row);
  BOOST_TEST(raw_of(layer.gate) == from.ffn_gate_up.data);
  BOOST_TEST(raw_of(layer.up) == from.ffn_gate_up.data + 128 * row);
}

BOOST_AUTO_TEST_CASE(fused_biases_are_split_at_the_same_rows) {
  tiny_model_options options;
  options.fused_qkv = options.biases = true;
  const loaded_model m(options);
  const auto layout = gpu::lay_out_weights(m.model, base);
  BOOST_REQUIRE(layout);
  const auto* fused = m.model.weights.layers[0].attn_qkv_bias.data;
  const auto& layer = layout->weights.layers[0];
  const auto raw_of = [&](const float* pointer) {
    for (const auto& piece : layout->pieces) {
      if (base + piece.offset == reinterpret_cast<std::uintptr_t>(pointer)) return piece.raw;
    }
    return static_cast<const std::byte*>(nullptr);
  };
  BOOST_TEST(raw_of(layer.q_bias) == fused);
  BOOST_TEST(raw_of(layer.k_bias) == fused + 64 * sizeof(float));
  BOOST_TEST(raw_of(layer.v_bias) == fused + 96 * sizeof(float));
}

BOOST_AUTO_TEST_CASE(experts_lie_one_aligned_stride_apart_and_the_router_stays_f32) {
  tiny_model_options options;
  options.family = "gpt-oss";
  options.matrix_type = ggml_type::f16;
  options.expert_type = ggml_type::mxfp4;
  const loaded_model m(options);
  const auto layout = gpu::lay_out_weights(m.model, base);
  BOOST_REQUIRE(layout);
  const auto& layer = layout->weights.layers[0];
  const std::uint64_t one = kernels::packed_bytes(packed_format::mxfp4, 128, 64);
  BOOST_TEST(layer.expert_gate.expert_stride == gpu::vram_aligned(one));
  BOOST_TEST(layer.expert_gate.row_scale_stride == 128U);
  BOOST_TEST(layer.expert_down.row_scale_stride == 64U);
  BOOST_TEST((layer.router != nullptr && layer.router_bias != nullptr && layer.expert_up_bias != nullptr));
  std::uint32_t experts = 0;
  for (const auto& piece : layout->pieces) {
    const auto at = base + piece.offset;
    const auto gate = reinterpret_cast<std::uintptr_t>(layer.expert_gate.data);
    if (at < gate || at >= gate + 4 * layer.expert_gate.expert_stride || !piece.packed) continue;
    BOOST_TEST((at - gate) == experts * layer.expert_gate.expert_stride);
    BOOST_TEST(piece.raw ==
               m.model.weights.layers[0].expert_gate.data + experts * piece.rows * piece.row_bytes);
    ++experts;
  }
  BOOST_TEST(experts == 4U);
}

BOOST_AUTO_TEST_CASE(a_tied_output_is_not_stored_twice) {
  tiny_model_options options;
  options.tied_output = true;
  const loaded_model tied(options);
  options.tied_output = false;
  const loaded_model separate(options);
  const auto with = gpu::lay_out_weights(tied.model, base);
  const auto without = gpu::lay_out_weights(separate.model, base);
  BOOST_REQUIRE((with && without));
  BOOST_TEST(with->weights.output.data == with->weights.embedding.data);
  BOOST_TEST(without->weights.output.data != without->weights.embedding.data);
  BOOST_TEST(with->bytes < without->bytes);
}

BOOST_AUTO_TEST_CASE(packing_adds_at_most_three_percent_at_the_shapes_of_the_target_models) {
  struct matrix {
    ggml_type type;
    std::uint64_t rows, cols;
  };
  const std::vector<matrix> matrices{
      {ggml_type::q5_0, 896, 896},      {ggml_type::q8_0, 128, 896},    {ggml_type::q4_k, 896, 4864},
      {ggml_type::q6_k, 896, 4864},     {ggml_type::q8_0, 151936, 896}, {ggml_type::q4_k, 3072, 3072},
      {ggml_type::q5_k, 9216, 3072},    {ggml_type::q6_k, 3072, 8192},  {ggml_type::q6_k, 32064, 3072},
      {ggml_type::mxfp4, 2880, 2880},   {ggml_type::q8_0, 4096, 2880},  {ggml_type::q8_0, 201088, 2880},
      {ggml_type::q2_k, 3072, 3072},    {ggml_type::q3_k, 3072, 8192},  {ggml_type::iq4_nl, 896, 896},
      {ggml_type::iq4_xs, 9216, 3072},  {ggml_type::nvfp4, 4096, 4096}, {ggml_type::iq3_s, 3072, 3072},
      {ggml_type::iq3_xxs, 4096, 4096}, {ggml_type::iq2_s, 4096, 4096}, {ggml_type::iq2_xs, 4096, 4096},
      {ggml_type::iq2_xxs, 4096, 4096},
  };
  for (const matrix& m : matrices) {
    const packed_format format = gpu::packed_format_of(m.type);
    const double raw = static_cast<double>(m.rows * engine::row_bytes(engine::traits_of(m.type), m.cols));
    const double packed = static_cast<double>(kernels::packed_bytes(format, m.rows, m.cols) +
                                              kernels::packed_row_scales(format, m.rows) * sizeof(float));
    BOOST_TEST(packed <= raw * 1.03,
               engine::traits_of(m.type).name << " " << m.rows << "x" << m.cols << ": " << packed / raw);
  }
}

BOOST_AUTO_TEST_CASE(a_matrix_too_wide_and_a_norm_of_another_type_are_refused_by_name) {
  loaded_model m({});
  auto wide = m.model;
  wide.weights.layers[1].ffn_down.extents[0] = gpu::packed_cols_max + 32;
  const auto refused = gpu::lay_out_weights(wide, 0);
  BOOST_REQUIRE(!refused);
  BOOST_TEST(refused.error().message.find("blk.1.ffn_down.weight") != std::string::npos);
  BOOST_TEST(refused.error().message.find("65536") != std::string::npos);
  auto halves = m.model;
  halves.weights.output_norm.type = ggml_type::f16;
  const auto norm = gpu::lay_out_weights(halves, 0);
  BOOST_REQUIRE(!norm);
  BOOST_TEST((norm.error().code == engine::errc::model_load_failed));
  BOOST_TEST(norm.error().message.find("output_norm.weight") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_hash_tells_models_and_packings_apart) {
  const auto hash_with = [](auto change) {
    tiny_model_options options;
    options.matrix_type = ggml_type::q8_0;
    change(options);
    return gpu::lay_out_weights(loaded_model(options).model, base)->hash();
  };
  const auto plain = hash_with([](auto&) {});
  BOOST_TEST(hash_with([](auto& o) { o.seed = 2; }) == plain);  // other values in the same places
  BOOST_TEST(hash_with([](auto& o) { o.matrix_type = ggml_type::q5_0; }) != plain);
  BOOST_TEST(hash_with([](auto& o) { o.layers = 3; }) != plain);
  BOOST_TEST(hash_with([](auto& o) { o.tied_output = true; }) != plain);
  BOOST_TEST(hash_with([](auto& o) { o.biases = true; }) != plain);
  tiny_model_options options;
  options.matrix_type = ggml_type::q8_0;
  BOOST_TEST(gpu::lay_out_weights(loaded_model(options).model, 0)->hash() == plain);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
