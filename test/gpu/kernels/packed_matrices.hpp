// What the tests of packed products share: matrices of every format in files' blocks and on the GPU, inputs,
// f64 results, and the instances of the throughput kernel.
#pragma once

#include <cuda_fp16.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "engine/gguf/ggml_type.hpp"
#include "kernels/host/matmul.hpp"
#include "kernels/product/packed_matmul.hpp"
#include "kernels/product/repack.hpp"
#include "test/gpu/device_array.hpp"
#include "test/support/random_blocks.hpp"

namespace orcd::test {

using engine::ggml_type;
using kernels::packed_format;

struct format_pair {
  ggml_type file;
  packed_format packed;
  float spread;
};
inline std::ostream& operator<<(std::ostream& out, const format_pair& f) {
  return out << engine::traits_of(f.file).name;
}
inline const std::vector<format_pair> formats{
    {ggml_type::q4_0, packed_format::q4_0, 0.05F},       {ggml_type::q4_1, packed_format::q4_1, 0.05F},
    {ggml_type::q5_0, packed_format::q5_0, 0.05F},       {ggml_type::q5_1, packed_format::q5_1, 0.05F},
    {ggml_type::q8_0, packed_format::q8_0, 0.05F},       {ggml_type::q4_k, packed_format::q4_k, 0.05F},
    {ggml_type::q5_k, packed_format::q5_k, 0.05F},       {ggml_type::q6_k, packed_format::q6_k, 0.05F},
    {ggml_type::mxfp4, packed_format::mxfp4, 0.05F},     {ggml_type::f16, packed_format::f16, 0.05F},
    {ggml_type::bf16, packed_format::bf16, 0.05F},       {ggml_type::f32, packed_format::f32, 0.05F},
    {ggml_type::q2_k, packed_format::q2_k, 0.05F},       {ggml_type::q3_k, packed_format::q3_k, 0.05F},
    {ggml_type::iq4_nl, packed_format::iq4_nl, 0.05F},   {ggml_type::iq4_xs, packed_format::iq4_xs, 0.05F},
    {ggml_type::nvfp4, packed_format::nvfp4, 0.05F},     {ggml_type::iq3_s, packed_format::iq3_s, 0.05F},
    {ggml_type::iq3_xxs, packed_format::iq3_xxs, 0.05F}, {ggml_type::iq2_s, packed_format::iq2_s, 0.05F},
    {ggml_type::iq2_xs, packed_format::iq2_xs, 0.05F},   {ggml_type::iq2_xxs, packed_format::iq2_xxs, 0.05F},
};

/// A random matrix on both sides, of which every value is multiplied by `factor`.
class test_matrix {
 public:
  test_matrix(const format_pair& format, std::uint32_t rows, std::uint32_t cols, std::uint64_t seed,
              float factor = 1.0F)
      : rows_(rows), cols_(cols), values_(static_cast<std::size_t>(rows) * cols) {
    std::mt19937_64 random(seed);
    const auto raw =
        random_payload(format.file, static_cast<std::uint64_t>(rows) * cols, format.spread, random);
    const std::uint64_t row_bytes = engine::row_bytes(engine::traits_of(format.file), cols);
    for (std::uint32_t r = 0; r < rows; ++r) {
      kernels::host::dequantize_row(format.file, raw.data() + r * row_bytes, cols,
                                    values_.data() + std::size_t{r} * cols);
    }
    for (float& value : values_) value *= factor;
    const device_array<std::byte> staged(std::span<const std::byte>(raw.data(), raw.size()));
    packed_.emplace(kernels::packed_bytes(format.packed, rows, cols));
    const std::uint64_t scales = kernels::packed_row_scales(format.packed, rows);
    if (scales > 0) row_scale_.emplace(scales);
    const kernels::repack_args args{staged.data(),
                                    row_bytes,
                                    rows,
                                    cols,
                                    format.packed,
                                    packed_->data(),
                                    row_scale_ ? row_scale_->data() : nullptr,
                                    factor};
    BOOST_REQUIRE_EQUAL(kernels::launch_repack(args, nullptr), 0);
    BOOST_REQUIRE_EQUAL(cudaDeviceSynchronize(), cudaSuccess);
    view.data = packed_->data();
    view.row_scale = row_scale_ ? row_scale_->data() : nullptr;
    view.rows = rows;
    view.cols = cols;
    view.format = format.packed;
  }

  /// y[m][r] in f64 over f16 activations.
  [[nodiscard]] std::vector<double> multiply(const std::vector<float>& x, std::uint32_t columns) const {
    std::vector<double> y(std::size_t{columns} * rows_);
    for (std::uint32_t m = 0; m < columns; ++m) {
      for (std::uint32_t r = 0; r < rows_; ++r) {
        double sum = 0;
        for (std::uint32_t c = 0; c < cols_; ++c) {
          sum += double{values_[std::size_t{r} * cols_ + c]} * double{x[std::size_t{m} * cols_ + c]};
        }
        y[std::size_t{m} * rows_ + r] = sum;
      }
    }
    return y;
  }

  kernels::packed_matrix view;

 private:
  std::uint32_t rows_, cols_;
  std::vector<float> values_;
  std::optional<device_array<std::byte>> packed_;
  std::optional<device_array<float>> row_scale_;
};

/// Random activations that f16 holds exactly, on both sides; padded with zeros to a multiple of 64.
struct test_input {
  test_input(std::uint32_t cols, std::uint32_t columns, std::uint64_t seed)
      : stride((cols + 63) / 64 * 64),
        values(std::size_t{cols} * columns),
        halves(std::size_t{stride} * columns) {
    std::mt19937_64 random(seed);
    for (std::uint32_t m = 0; m < columns; ++m) {
      for (std::uint32_t c = 0; c < cols; ++c) {
        const __half h = __float2half_rn(random_unit(random) * 2.0F);
        halves[std::size_t{m} * stride + c] = h;
        values[std::size_t{m} * cols + c] = __half2float(h);
      }
    }
    device.emplace(std::span<const __half>(halves));
    std::vector<__half> in_packed_order(halves.size());
    for (std::size_t i = 0; i < halves.size(); ++i) {
      const auto place = kernels::place_of_half(kernels::half_order::packed, static_cast<std::uint32_t>(i));
      in_packed_order[place] = halves[i];
    }
    packed.emplace(std::span<const __half>(in_packed_order));
  }
  std::uint32_t stride;
  std::vector<float> values;
  std::vector<__half> halves;
  std::optional<device_array<__half>> device;
  std::optional<device_array<__half>> packed;  ///< the same in packed order
};

inline double relative_error(const std::vector<float>& got, const std::vector<double>& want) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return std::sqrt(difference / norm);
}

inline kernels::packed_matmul_args arguments(const test_matrix& w, const test_input& x, std::uint32_t first,
                                             std::uint32_t columns, const device_array<float>& out) {
  kernels::packed_matmul_args a;
  a.w[0] = w.view;
  a.columns = columns;
  a.x = x.device->data() + std::size_t{first} * x.stride;
  a.x_stride = x.stride;
  a.out = out.data() + std::size_t{first} * w.view.rows;
  a.out_stride = w.view.rows;
  return a;
}

struct shape {
  std::uint32_t rows, cols;
};
inline std::ostream& operator<<(std::ostream& out, const shape& s) {
  return out << s.rows << "x" << s.cols;
}
inline const std::vector<shape> shapes{{16, 256}, {72, 768}, {1000, 1536}, {129, 4864}};

/// Makes a product take its input in this order.
inline void take_input(kernels::packed_matmul_args& a, const test_input& x, kernels::half_order order) {
  const bool is_packed = order == kernels::half_order::packed;
  a.x += (is_packed ? x.packed : x.device)->data() - x.device->data();
  a.x_order = order;
}

/// Every instance of the throughput kernel, and the one that it chooses itself, for both orders of the input.
struct instance {
  std::uint32_t tile_columns, row_blocks;
  kernels::half_order order = kernels::half_order::natural;
};
inline std::ostream& operator<<(std::ostream& out, const instance& i) {
  return out << "tiles of " << i.tile_columns << " columns and " << i.row_blocks << " sets of rows, input in "
             << (i.order == kernels::half_order::packed ? "packed" : "natural") << " order";
}
inline const std::vector<instance> instances{{0, 0},
                                             {16, 1},
                                             {16, 2},
                                             {16, 4},
                                             {32, 1},
                                             {32, 2},
                                             {32, 4},
                                             {64, 1},
                                             {64, 2},
                                             {128, 0},
                                             {0, 0, kernels::half_order::packed},
                                             {32, 4, kernels::half_order::packed},
                                             {64, 4, kernels::half_order::packed},
                                             {128, 0, kernels::half_order::packed}};

// Both operands are f16: rounding 2^-12 of a weight's range at worst, averaged over a row.
inline constexpr double tolerance = 1e-3;

/// The few-column product; of rows so long that not all columns fit, one column after the other.
inline int launch_few(const kernels::packed_matmul_args& a) {
  kernels::tiled_matmul_args part{};
  part.matmul = a;
  if (a.columns <= 1 || a.columns > kernels::matvec_columns_max ||
      kernels::balanced_matvec_takes(a, a.columns))
    return kernels::launch_balanced_matvec(part, nullptr);
  part.matmul.columns = 1;
  for (std::uint32_t column = 0; column < a.columns; ++column) {
    part.matmul.x = a.x + std::size_t{column} * a.x_stride;
    if (a.out != nullptr) part.matmul.out = a.out + std::size_t{column} * a.out_stride;
    if (a.act != nullptr) part.matmul.act = a.act + std::size_t{column} * a.act_stride;
    if (const int status = kernels::launch_balanced_matvec(part, nullptr); status != 0) return status;
  }
  return 0;
}

}  // namespace orcd::test
