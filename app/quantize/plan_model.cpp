#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "app/quantize/image_plan.hpp"
#include "app/quantize/number_formats.hpp"
#include "app/quantize/refuse.hpp"
#include "app/quantize/tensor_shapes.hpp"
#include "engine/gguf/byte_cursor.hpp"
#include "kernels/host/half.hpp"

namespace orcd::app {
namespace {

using engine::error;
using engine::ggml_type;
using engine::in_quotes;
using engine::result;
using enum tensor_role;

constexpr std::uint64_t gguf_begin = 256;
constexpr std::uint32_t format_version = 1;

void put_words(image_plan& plan, std::string_view magic, std::uint32_t third) {
  plan.begin = gguf_begin;
  plan.magic.assign(16, std::byte{0});
  std::memcpy(plan.magic.data(), magic.data(), 4);
  std::memcpy(plan.magic.data() + 4, &format_version, 4);
  std::memcpy(plan.magic.data() + 8, &third, 4);
}

class model_planner {
 public:
  model_planner(const source_model& source, const model_sizes& sizes, ggml_type ternary)
      : source_(source), sizes_(sizes), ternary_(ternary) {}

  result<image_plan> plan() {
    if (auto done = check_names(); !done) return done.error();
    scale_tensors_ = needs_scale_tensors();
    add_metadata();
    for (const source_tensor& tensor : source_.tensors) {
      if (auto done = add(tensor); !done) return done.error();
    }
    return std::move(out_);
  }

 private:
  /// Every layer has all that its architecture has, and nothing else is there.
  result<void> check_names() {
    std::vector<tensor_name> wanted{{token_embd, 0, false}};
    if (!sizes_.tied) wanted.push_back({output, 0, false});
    wanted.push_back({output_norm, 0, false});
    layers_ = source_.tensors.back().name.layer + 1;
    if (layers_ > manifest_limits::layers) {
      return refuse("the model has " + std::to_string(layers_) + " layers; the limit is " +
                    std::to_string(manifest_limits::layers));
    }
    for (std::uint32_t layer = 0; layer < layers_; ++layer) {
      for (auto role = static_cast<int>(attn_norm); role <= static_cast<int>(ffn_down); ++role) {
        const auto r = static_cast<tensor_role>(role);
        const bool sub_norm = r == attn_sub_norm || r == ffn_sub_norm;
        if (!sub_norm || sizes_.arch == model_arch::bitnet) wanted.push_back({r, layer, false});
      }
    }
    auto next = wanted.begin();
    for (const source_tensor& tensor : source_.tensors) {
      const tensor_name& name = tensor.name;
      if (name.bias && sizes_.arch == model_arch::llama) continue;
      if (next != wanted.end() && name.order() == next->order()) {
        ++next;
      } else if (next == wanted.end() || name.order() < next->order()) {
        return refuse("tensor " + in_quotes(tensor.file_name) + " has no place in this architecture" +
                      (name.role == output ? ", whose embeddings are tied" : ""));
      } else {
        return refuse(missing(*next));
      }
    }
    return next == wanted.end() ? result<void>{} : refuse(missing(*next));
  }

  static std::string missing(const tensor_name& name) {
    return "there is no tensor for " + in_quotes(gguf_name(name)) +
           (name.role == output ? " and the embeddings are not tied" : "");
  }

  void add_metadata() {
    gguf_header& head = out_.header;
    const std::string arch(gguf_architecture(sizes_.arch));
    head.add("general.architecture", arch);
    head.add("general.quantization_version", 2U);
    const auto key = [&](const char* name) { return arch + "." + name; };
    head.add(key("vocab_size"), static_cast<std::uint32_t>(vocabulary()));
    head.add(key("context_length"), sizes_.context);
    head.add(key("embedding_length"), sizes_.hidden);
    head.add(key("block_count"), layers_);
    head.add(key("feed_forward_length"), sizes_.ffn);
    head.add(key("rope.dimension_count"), sizes_.rope_dim);
    head.add(key("rope.freq_base"), static_cast<float>(sizes_.theta));
    head.add(key("attention.head_count"), sizes_.heads);
    head.add(key("attention.head_count_kv"), sizes_.kv_heads);
    head.add(key("attention.key_length"), sizes_.head_dim);
    head.add(key("attention.value_length"), sizes_.head_dim);
    head.add(key("attention.layer_norm_rms_epsilon"), static_cast<float>(sizes_.eps));
    if (sizes_.arch == model_arch::bitnet && !source_.config.activation.empty()) {
      head.add(key("hidden_activation"), std::string_view(source_.config.activation));
    }
    head.add("orcd.hidden_original", sizes_.hidden_original);
    head.add("orcd.intermediate_original", sizes_.ffn_original);
    if (source_.config.bos) head.add("tokenizer.ggml.bos_token_id", *source_.config.bos);
    if (source_.config.eos) head.add("tokenizer.ggml.eos_token_id", *source_.config.eos);
  }

  [[nodiscard]] std::uint64_t vocabulary() const { return source_.tensors.front().values.rows; }

  /// Norms and biases have one dimension and keep their values.
  [[nodiscard]] ggml_type type_for(const source_tensor& tensor) const {
    if (is_norm(tensor.name.role) || tensor.name.bias) return ggml_type::f32;
    if (tensor.action == tensor_action::embedding) return ggml_type::q8_0;
    return tensor.action == tensor_action::raw ? ggml_type::bf16 : ternary_;
  }

  result<void> add(const source_tensor& tensor) {
    const tensor_shape matrix = shape_of(tensor.name.role, sizes_, vocabulary());
    const bool vector = is_norm(tensor.name.role) || tensor.name.bias;
    const tensor_shape shape =
        tensor.name.bias ? tensor_shape{matrix.rows, 1, matrix.padded_rows, 1} : matrix;
    const std::uint64_t rows = tensor.values.matrix_rows();
    if (rows != shape.rows || tensor.values.cols != shape.cols) {
      return refuse("tensor " + in_quotes(tensor.file_name) + " is " +
                    extents_text(rows, tensor.values.cols) + "; it must be " +
                    extents_text(shape.rows, shape.cols));
    }
    if (vector && tensor.action != tensor_action::raw) {
      return refuse("tensor " + in_quotes(tensor.file_name) + " has action " +
                    std::to_string(static_cast<int>(tensor.action)) + "; what has one dimension must have 0");
    }
    const ggml_type type = type_for(tensor);
    if (!vector && shape.padded_cols % engine::traits_of(type).block_elems != 0) {
      return refuse("tensor " + in_quotes(tensor.file_name) + " has " + std::to_string(shape.padded_cols) +
                    " columns; " + std::string(engine::traits_of(type).name) + " needs a multiple of " +
                    std::to_string(engine::traits_of(type).block_elems));
    }
    add_conversion(tensor, shape, type, vector);
    return {};
  }

  void add_conversion(const source_tensor& tensor, const tensor_shape& shape, ggml_type type, bool vector) {
    conversion c;
    c.how = tensor.action == tensor_action::ternarize ? conversion::kind::ternarize
            : tensor.action == tensor_action::repack  ? conversion::kind::repack
                                                      : conversion::kind::values;
    c.file_name = tensor.file_name;
    c.from = tensor.values;
    c.scale = tensor.scale;
    c.regroup = regrouping_of(tensor.name.role, sizes_);
    c.rows = shape.padded_rows;
    c.cols = shape.padded_cols;
    if (vector && c.regroup == 0) {  // one row: its values are next to one another
      c.cols = std::exchange(c.rows, 1);
      c.from.cols = std::exchange(c.from.rows, 1);
    }
    std::vector<std::uint64_t> extents{vector ? shape.padded_rows : c.cols};
    if (!vector) extents.push_back(c.rows);
    c.tensor = out_.header.add_tensor(gguf_name(tensor.name), std::move(extents), type);
    if (scale_tensors_ && c.how != conversion::kind::values) {
      std::string name = gguf_name(tensor.name);
      name.replace(name.size() - 6, 6, "scale");
      c.scale_tensor = out_.header.add_tensor(std::move(name), {1}, ggml_type::f32);
    }
    out_.conversions.push_back(std::move(c));
  }

  /// The scale of TQ blocks is an f16: what it cannot hold goes beside the matrix, where the family has a
  /// place for it. It is one for all matrices or for none.
  [[nodiscard]] bool needs_scale_tensors() const {
    if (sizes_.arch != model_arch::bitnet) return false;
    if (ternary_ != ggml_type::tq1_0 && ternary_ != ggml_type::tq2_0) return false;
    return std::any_of(source_.tensors.begin(), source_.tensors.end(), [](const source_tensor& t) {
      return t.action == tensor_action::ternarize || (t.action == tensor_action::repack && !is_half(t.scale));
    });
  }

  const source_model& source_;
  const model_sizes& sizes_;
  const ggml_type ternary_;
  std::uint32_t layers_ = 0;
  bool scale_tensors_ = false;
  image_plan out_;
};

}  // namespace

std::uint64_t image_plan::source_bytes() const noexcept {
  return std::accumulate(conversions.begin(), conversions.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const conversion& c) { return sum + c.from.data.size(); });
}

bool is_half(float value) noexcept {
  return half_to_float(kernels::host::float_to_half(value)) == value;
}

void put_tensors_header(image_plan& plan, model_arch arch) {
  put_words(plan, "TRLM", static_cast<std::uint32_t>(arch));
}

void put_adapter_header(image_plan& plan) {
  put_words(plan, "TRLA", 0);
  plan.magic.resize(12);
}

result<model_sizes> complete_sizes(const source_model& source, model_sizes sizes) {
  const auto complete = [&](tensor_role role, std::uint32_t& heads, std::uint32_t said) -> result<void> {
    const auto found = std::find_if(source.tensors.begin(), source.tensors.end(),
                                    [&](const source_tensor& t) { return t.name.role == role; });
    if (found == source.tensors.end()) return {};
    const std::uint64_t rows = found->values.matrix_rows();
    const std::uint64_t told = rows / sizes.head_dim;
    if (rows % sizes.head_dim != 0 || told == 0 || told > 1024 || (heads != 0 && told != heads) ||
        (said != 0 && told != said)) {
      const std::uint32_t wanted = heads != 0 ? heads : said;
      return refuse("tensor " + in_quotes(found->file_name) + " has " + std::to_string(rows) + " rows; " +
                    (wanted != 0 ? std::to_string(wanted) : "1 to 1024") + " heads of " +
                    std::to_string(sizes.head_dim) + " ask for " +
                    (wanted != 0 ? std::to_string(std::uint64_t{wanted} * sizes.head_dim) : "a multiple"));
    }
    heads = static_cast<std::uint32_t>(told);
    return {};
  };
  const model_sizes& said = source.config.sizes;
  if (auto done = complete(attn_q, sizes.heads, said.heads); !done) return done.error();
  const std::uint32_t kv = said.kv_heads != 0 ? said.kv_heads : said.heads;
  if (auto done = complete(attn_k, sizes.kv_heads, kv); !done) return done.error();
  return sizes;
}

result<image_plan> plan_model(const source_model& source, const model_sizes& sizes, ggml_type ternary) {
  if (source.tensors.empty() || source.tensors.front().name.role != token_embd) {
    return refuse("there is no tensor for 'token_embd.weight'");
  }
  if (!source.tensors.back().name.in_layer()) return refuse("the model has no layers");
  const std::string& activation = source.config.activation;
  if (sizes.arch == model_arch::llama && !activation.empty() && activation != "silu") {
    return refuse("'hidden_act' in config.json is " + engine::in_quotes(activation) +
                  "; Llama's must be silu, as its GGUF cannot name another");
  }
  return model_planner(source, sizes, ternary).plan();
}

}  // namespace orcd::app
