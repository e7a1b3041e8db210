// Uploaded weights read back value by value: every matrix of every family, through the kernel that reads
// packed rows, against the host's decoding of the file's blocks. Exact.
#include <array>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "engine/gguf/gguf_file.hpp"
#include "gpu/cuda/cuda_weights.hpp"
#include "gpu/memory/allocation_counter.hpp"
#include "kernels/host/matmul.hpp"
#include "kernels/layer/embed_norm.hpp"
#include "test/gpu/device_array.hpp"
#include "test/support/tiny_model.hpp"

namespace orcd::test {
namespace {

using engine::ggml_type;
using engine::tensor_view;
using kernels::packed_matrix;

int current_device() {
  int device = -1;
  BOOST_REQUIRE_EQUAL(cudaGetDevice(&device), cudaSuccess);
  return device;
}

/// A model in VRAM with the image it came from.
class uploaded_model {
 public:
  /// `change` is made to the model before it is uploaded.
  explicit uploaded_model(
      const tiny_model_options& options, const gpu::upload_options& upload = {},
      const std::function<void(engine::model&)>& change = [](engine::model&) {})
      : image_(make_tiny_model(options)),
        file_(engine::gguf_file::parse(image_, "tiny").value()),
        model(changed(engine::load_model(file_).value(), change)),
        arena_(current_device(), gpu::plan_cuda_weights(model).value()),
        weights(gpu::upload_cuda_weights(model, arena_, upload,
                                         [this](unsigned percent) { progress.push_back(percent); })) {}

 private:
  static engine::model changed(engine::model from, const std::function<void(engine::model&)>& change) {
    change(from);
    return from;
  }

  bytes image_;
  engine::gguf_file file_;

 public:
  std::vector<unsigned> progress;
  engine::model model;

 private:
  gpu::vram_arena arena_;

 public:
  gpu::cuda_weights weights;
};

/// All rows of a packed matrix as f32.
std::vector<float> read_rows(const packed_matrix& matrix) {
  std::vector<kernels::step_token> steps(matrix.rows);
  for (std::uint32_t r = 0; r < matrix.rows; ++r) steps[r].token = static_cast<std::int32_t>(r);
  const device_array<kernels::step_token> on_device{std::span<const kernels::step_token>(steps)};
  const device_array<float> out(std::size_t{matrix.rows} * matrix.cols);
  kernels::packed_embed_args args;
  args.table = matrix;
  args.steps = on_device.data();
  args.columns = matrix.rows;
  args.out = out.data();
  BOOST_REQUIRE_EQUAL(kernels::launch_packed_embed(args, nullptr), 0);
  return out.read();
}

std::vector<float> decode_rows(const tensor_view& tensor, std::uint64_t first, std::uint64_t rows) {
  const std::uint64_t row_bytes = engine::row_bytes(engine::traits_of(tensor.type), tensor.cols());
  const auto cols = static_cast<std::uint32_t>(tensor.cols());
  std::vector<float> out(rows * cols);
  for (std::uint64_t r = 0; r < rows; ++r) {
    kernels::host::dequantize_row(tensor.type, tensor.data + (first + r) * row_bytes, cols,
                                  out.data() + r * cols);
  }
  const float factor = tensor.factor_of(first / tensor.rows());
  for (float& value : out) value *= factor;
  return out;
}

/// Says where two arrays differ first; -0 and 0 are equal, NaN is not.
void check_equal(const std::vector<float>& got, const std::vector<float>& want, const std::string& what) {
  BOOST_REQUIRE_EQUAL(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == want[i]) continue;
    BOOST_ERROR(what << ": value " << i << " is " << got[i] << ", the file says " << want[i]);
    return;
  }
}

void check_matrix(const packed_matrix& matrix, const tensor_view& tensor, std::uint64_t first,
                  std::uint64_t rows) {
  const std::string what = std::string(tensor.name) + " from row " + std::to_string(first) + " (" +
                           std::string(engine::traits_of(tensor.type).name) + ")";
  BOOST_REQUIRE_MESSAGE(matrix.data != nullptr, what);
  BOOST_REQUIRE_EQUAL(matrix.rows, rows);
  BOOST_REQUIRE_EQUAL(matrix.cols, tensor.cols());
  check_equal(read_rows(matrix), decode_rows(tensor, first, rows), what);
}

void check_matrix(const packed_matrix& matrix, const tensor_view& tensor) {
  if (tensor) {
    check_matrix(matrix, tensor, 0, tensor.rows());
  } else {
    BOOST_TEST(matrix.data == nullptr);
  }
}

void check_stack(const packed_matrix& stack, const tensor_view& tensor) {
  if (!tensor) return;
  for (std::uint64_t e = 0; e < tensor.experts(); ++e) {
    packed_matrix expert = stack;
    expert.data += e * stack.expert_stride;
    if (expert.row_scale != nullptr) expert.row_scale += e * stack.row_scale_stride;
    check_matrix(expert, tensor, e * tensor.rows(), tensor.rows());
  }
}

void check_floats(const float* got, const std::vector<float>& want, const std::string& what) {
  BOOST_REQUIRE_MESSAGE(got != nullptr, what);
  std::vector<float> copy(want.size());
  BOOST_REQUIRE_EQUAL(cudaMemcpy(copy.data(), got, copy.size() * sizeof(float), cudaMemcpyDeviceToHost),
                      cudaSuccess);
  check_equal(copy, want, what);
}

/// An F32 vector or a range of one; the router, which may have any type, decoded.
void check_vector(const float* got, const tensor_view& tensor, std::uint64_t first = 0,
                  std::uint64_t count = 0) {
  if (!tensor) {
    BOOST_TEST(got == nullptr);
    return;
  }
  auto want = decode_rows(tensor, 0, tensor.elements() / tensor.cols());
  if (count > 0)
    want = {want.begin() + static_cast<long>(first), want.begin() + static_cast<long>(first + count)};
  check_floats(got, want, std::string(tensor.name));
}

void check_layer(const engine::model_spec& spec, std::uint32_t index, const engine::layer_weights& from,
                 const gpu::cuda_layer_weights& to) {
  const engine::layer_spec& layer = spec.layers[index];
  const std::uint64_t q = layer.q_rows();
  const std::uint64_t k = layer.k_rows();
  const std::uint64_t v = layer.v_rows();
  if (from.attn_qkv) {
    check_matrix(to.q, from.attn_qkv, 0, q);
    check_matrix(to.k, from.attn_qkv, q, k);
    check_matrix(to.v, from.attn_qkv, q + k, v);
    check_vector(to.q_bias, from.attn_qkv_bias, 0, q);
    check_vector(to.k_bias, from.attn_qkv_bias, q, k);
    check_vector(to.v_bias, from.attn_qkv_bias, q + k, v);
  } else {
    check_matrix(to.q, from.attn_q);
    check_matrix(to.k, from.attn_k);
    check_matrix(to.v, from.attn_v);
    check_vector(to.q_bias, from.attn_q_bias);
    check_vector(to.k_bias, from.attn_k_bias);
    check_vector(to.v_bias, from.attn_v_bias);
  }
  check_matrix(to.o, from.attn_output);
  if (from.ffn_gate_up) {
    check_matrix(to.gate, from.ffn_gate_up, 0, layer.ffn_size);
    check_matrix(to.up, from.ffn_gate_up, layer.ffn_size, layer.ffn_size);
  } else {
    check_matrix(to.gate, from.ffn_gate);
    check_matrix(to.up, from.ffn_up);
  }
  check_matrix(to.down, from.ffn_down);
  check_stack(to.expert_gate, from.expert_gate);
  check_stack(to.expert_up, from.expert_up);
  check_stack(to.expert_down, from.expert_down);
  check_vector(to.attn_norm, from.attn_norm);
  check_vector(to.q_norm, from.attn_q_norm);
  check_vector(to.k_norm, from.attn_k_norm);
  check_vector(to.o_bias, from.attn_output_bias);
  check_vector(to.sinks, from.attn_sinks);
  check_vector(to.ffn_norm, from.ffn_norm);
  check_vector(to.gate_bias, from.ffn_gate_bias);
  check_vector(to.up_bias, from.ffn_up_bias);
  check_vector(to.down_bias, from.ffn_down_bias);
  check_vector(to.router, from.router);
  check_vector(to.router_bias, from.router_bias);
  check_vector(to.expert_gate_bias, from.expert_gate_bias);
  check_vector(to.expert_up_bias, from.expert_up_bias);
  check_vector(to.expert_down_bias, from.expert_down_bias);
}

void check_model(const uploaded_model& m) {
  check_matrix(m.weights.embedding, m.model.weights.token_embd);
  check_matrix(m.weights.output, m.model.weights.output);
  check_vector(m.weights.output_norm, m.model.weights.output_norm);
  BOOST_REQUIRE_EQUAL(m.weights.layers.size(), m.model.weights.layers.size());
  for (std::uint32_t i = 0; i < m.weights.layers.size(); ++i) {
    check_layer(m.model.spec, i, m.model.weights.layers[i], m.weights.layers[i]);
  }
  BOOST_REQUIRE(!m.progress.empty());
  BOOST_TEST(m.progress.back() == 100U);
  for (std::size_t i = 1; i < m.progress.size(); ++i) BOOST_TEST(m.progress[i] > m.progress[i - 1]);
}

std::vector<tiny_model_options> models() {
  std::vector<tiny_model_options> all(13);
  all[0].layers = 4;
  all[0].embedding = 256;
  all[0].ffn = 512;
  all[0].mixture = true;
  all[1].biases = all[1].fused_qkv = all[1].tied_output = true;
  all[1].matrix_type = ggml_type::q8_0;
  all[2].family = "qwen2";
  all[2].matrix_type = ggml_type::q5_1;
  all[3].family = "phi3";
  all[3].matrix_type = ggml_type::q4_0;
  all[4].family = "gpt-oss";
  all[4].matrix_type = ggml_type::q8_0;
  all[4].expert_type = ggml_type::mxfp4;
  all[4].experts = 5;
  all[5].experts = 4;
  all[5].embedding = 256;
  all[5].ffn = 256;
  all[5].matrix_type = ggml_type::q6_k;
  all[5].expert_type = ggml_type::q4_k;
  all[6].experts = 3;
  all[6].embedding = 256;
  all[6].ffn = 256;
  all[6].matrix_type = ggml_type::tq1_0;
  all[6].expert_type = ggml_type::i2_s;
  // Of layers, and of experts, the embedding and the output head.
  constexpr std::array<std::array<ggml_type, 2>, 5> few_bits{{{ggml_type::q2_k, ggml_type::q3_k},
                                                              {ggml_type::iq4_xs, ggml_type::iq4_nl},
                                                              {ggml_type::nvfp4, ggml_type::iq3_s},
                                                              {ggml_type::iq3_xxs, ggml_type::iq2_s},
                                                              {ggml_type::iq2_xs, ggml_type::iq2_xxs}}};
  for (std::size_t i = 0; i < few_bits.size(); ++i) {
    tiny_model_options& model = all[7 + i];
    model.experts = 3;
    model.embedding = 512;
    model.ffn = 256;
    model.matrix_type = few_bits[i][0];
    model.expert_type = model.embedding_type = few_bits[i][1];
  }
  all[12] = all[9];
  all[12].expert_type = ggml_type::nvfp4;
  all[12].expert_scales = true;
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(weights)

BOOST_AUTO_TEST_CASE(every_value_of_every_family_arrives) {
  for (const tiny_model_options& options : models()) {
    BOOST_TEST_CONTEXT(options.family << (options.mixture ? ", every type" : "")) {
      check_model(uploaded_model(options));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_matrix_of_many_slices_arrives_with_few_and_many_readers_pinned_or_not) {
  tiny_model_options options;
  options.embedding = 256;
  options.layers = 1;
  options.vocab = 33'001;
  options.matrix_type = ggml_type::f16;
  options.embedding_type = ggml_type::q8_0;
  for (const bool pinned : {true, false}) {
    for (const unsigned threads : {1U, 8U}) {
      BOOST_TEST_CONTEXT((pinned ? "pinned, " : "pageable, ") << threads << " readers") {
        gpu::upload_options upload;
        upload.pinned = pinned;
        upload.reader_threads = threads;
        check_model(uploaded_model(options, upload));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_upload_leaves_nothing_but_the_arena) {
  const auto before = gpu::counted_allocations();
  {
    const uploaded_model m(models()[4]);
    const auto after = gpu::counted_allocations();
    const std::uint64_t arena = gpu::plan_cuda_weights(m.model).value();
    BOOST_TEST(after.pinned_bytes == before.pinned_bytes);
    BOOST_TEST(after.device_bytes >= before.device_bytes + arena);
    BOOST_TEST(after.device_bytes < before.device_bytes + arena + (4U << 20), "staging is still there");
  }
  BOOST_TEST(gpu::counted_allocations().device_bytes == before.device_bytes);
}

BOOST_AUTO_TEST_CASE(an_upload_without_room_for_staging_fails_as_vram_oom_and_leaves_nothing) {
  const auto before = gpu::counted_allocations();
  const tiny_model_options options = models()[1];
  gpu::fail_allocation_after(1);  // the arena succeeds
  BOOST_CHECK_EXCEPTION(
      uploaded_model{options}, engine::accelerator_failure,
      [](const engine::accelerator_failure& failure) { return failure.code == engine::errc::vram_oom; });
  BOOST_TEST(gpu::counted_allocations().device_bytes == before.device_bytes);
  BOOST_TEST(gpu::counted_allocations().pinned_bytes == before.pinned_bytes);
  BOOST_TEST(cudaGetLastError() == cudaSuccess);
  check_model(uploaded_model(options));
}

// Two matrices of a recurrent layer that are one on the device; where the first one's rows do not fill tiles
// they are two.
BOOST_AUTO_TEST_CASE(joined_matrices_have_the_rows_of_both) {
  for (const ggml_type type :
       {ggml_type::q4_k, ggml_type::q6_k, ggml_type::q8_0, ggml_type::mxfp4, ggml_type::f16}) {
    tiny_model_options options;
    options.embedding = 256;
    options.ffn = 512;
    options.matrix_type = type;
    const uploaded_model joined(options, {}, [](engine::model& m) {
      engine::layer_weights& layer = m.weights.layers[0];
      layer.mix_beta = layer.attn_k;
      layer.mix_decay = layer.attn_q;
    });
    const engine::layer_weights& from = joined.model.weights.layers[0];
    const packed_matrix& both = joined.weights.layers[0].mix_beta_decay;
    BOOST_TEST_REQUIRE(from.mix_beta.rows() % kernels::tile_rows == 0U);
    BOOST_TEST(joined.weights.layers[0].mix_beta.rows == 0U);
    BOOST_TEST_REQUIRE(both.rows == from.mix_beta.rows() + from.mix_decay.rows());
    std::vector<float> want = decode_rows(from.mix_beta, 0, from.mix_beta.rows());
    const std::vector<float> rest = decode_rows(from.mix_decay, 0, from.mix_decay.rows());
    want.insert(want.end(), rest.begin(), rest.end());
    check_equal(read_rows(both), want, std::string(engine::traits_of(type).name));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
