#include <cmath>

#include "app/quantize/image_plan.hpp"
#include "app/quantize/refuse.hpp"
#include "app/quantize/tensor_shapes.hpp"
#include "engine/gguf/byte_cursor.hpp"

namespace orcd::app {
namespace {

using engine::error;
using engine::ggml_type;
using engine::in_quotes;
using engine::result;

result<void> check_shape(const std::string& name, const source_matrix& m, std::uint64_t rows,
                         std::uint64_t cols) {
  if (m.rows == rows && m.cols == cols) return {};
  return refuse("tensor " + in_quotes(name) + " is " + extents_text(m.rows, m.cols) + "; it must be " +
                extents_text(rows, cols));
}

/// F16 has values that BF16 has not.
ggml_type type_for(const source_matrix& m) noexcept {
  return m.type == source_type::bf16 ? ggml_type::bf16 : ggml_type::f32;
}

void add_half(image_plan& out, const std::string& file_name, const std::string& name,
              const source_matrix& from, std::uint64_t rows, std::uint64_t cols, std::uint32_t regroup) {
  conversion c;
  c.file_name = file_name;
  c.from = from;
  c.rows = rows;
  c.cols = cols;
  c.regroup = regroup;
  c.tensor = out.header.add_tensor(name, {cols, rows}, type_for(from));
  out.conversions.push_back(std::move(c));
}

}  // namespace

result<image_plan> plan_adapter(const source_model& source, const model_sizes& sizes,
                                std::optional<std::uint32_t> rank) {
  // One alpha is for all targets, and readers divide it by each one's rank.
  const std::uint64_t r = rank ? *rank : source.targets.front().a.rows;
  image_plan out;
  out.header.add("general.type", std::string_view("adapter"));
  out.header.add("general.architecture", gguf_architecture(sizes.arch));
  out.header.add("adapter.type", std::string_view("lora"));
  const auto alpha = static_cast<float>(source.lora_scale * static_cast<double>(r));
  if (!std::isfinite(alpha) || alpha == 0.0F) return refuse("the adapter's alpha is no number other than 0");
  out.header.add("adapter.lora.alpha", alpha);
  for (const source_target& target : source.targets) {
    const tensor_shape shape = shape_of(target.role, sizes, 0);
    const std::string a = target.file_name + ".lora_A.weight";
    const std::string b = target.file_name + ".lora_B.weight";
    if (auto done = check_shape(a, target.a, r, shape.cols); !done) return done.error();
    if (auto done = check_shape(b, target.b, shape.rows, r); !done) return done.error();
    if (!source.tensors.empty() && target.layer > source.tensors.back().name.layer) {
      return refuse("tensor " + in_quotes(a) + " is of layer " + std::to_string(target.layer) +
                    "; the model's last is " + std::to_string(source.tensors.back().name.layer));
    }
    const std::uint32_t regroup = regrouping_of(target.role, sizes);
    const std::string name = gguf_name({target.role, target.layer, false});
    add_half(out, a, name + ".lora_a", target.a, r, shape.padded_cols, 0);
    add_half(out, b, name + ".lora_b", target.b, shape.padded_rows, r, regroup);
  }
  return out;
}

}  // namespace orcd::app
