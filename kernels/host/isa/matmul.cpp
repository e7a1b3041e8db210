// Dequantization and products of one x86 level. Two paths with the same definition (kernels/host/matmul.hpp):
// a single column decodes blocks in registers; several columns share rows that are decoded once into a
// buffer that stays in the first-level cache.
#include "kernels/host/matmul.hpp"

#include "kernels/host/isa/for_format.hpp"
#include "kernels/host/kernel_table.hpp"

namespace orcd::kernels::host::ORCD_ISA {
namespace {

// Rows and columns of a register tile: as many accumulators as the level's registers hold.
constexpr int tile_rows = part_width == 16 ? 4 : 2;
constexpr int tile_columns = 4;
constexpr int buffer_rows = 4;
constexpr int buffer_cols = 1024;  // a multiple of every block size
constexpr int column_group = 32;

struct place {
  const float* x;
  float* y;
};

ORCD_INLINE place column_place(const matmul_args& a, std::uint32_t column) {
  const std::size_t x_row = a.x_rows ? a.x_rows[column] : column;
  const std::size_t y_row = a.y_rows ? a.y_rows[column] : column;
  return {a.x + x_row * a.x_stride, a.y + y_row * a.y_stride};
}

ORCD_INLINE void finish(const matmul_args& a, float* y, std::uint32_t row, float sum) {
  sum *= a.weights.factor;
  if (a.bias) sum += a.bias[row];
  y[row] = a.accumulate ? y[row] + sum : sum;
}

/// One row times one column, decoding on the fly.
template <class Format>
ORCD_INLINE float_lanes dot(const std::byte* row, const float* x, std::uint32_t cols) {
  float_lanes sum = splat(0.0F);
  const std::uint32_t blocks = cols / Format::elems;
  for (std::uint32_t b = 0; b < blocks; ++b) {
    const float* xs = x + std::size_t{b} * Format::elems;
    Format::decode(
        row + std::size_t{b} * Format::bytes, [&](int offset, float_lanes w) __attribute__((always_inline)) {
          sum = sum + w * load(xs + offset);
        });
  }
  if constexpr (Format::elems == lane_count) {
    const std::uint32_t rest = cols % lane_count;
    if (rest != 0) sum = sum + decode_tail<Format>(row, cols) * load_tail(x + (cols - rest), rest);
  }
  return sum;
}

ORCD_INLINE std::size_t bytes_per_row(const weight_matrix& w, int elems, int bytes) {
  if (elems == lane_count) return std::size_t{w.cols} * static_cast<unsigned>(bytes / elems);
  return std::size_t{w.cols / static_cast<unsigned>(elems)} * static_cast<unsigned>(bytes);
}

template <class Format>
void rows_by_columns(const matmul_args& a, std::uint32_t row_begin, std::uint32_t row_end) {
  const std::size_t row_bytes = bytes_per_row(a.weights, Format::elems, Format::bytes);
  for (std::uint32_t row = row_begin; row < row_end; ++row) {
    for (std::uint32_t column = 0; column < a.columns; ++column) {
      const place at = column_place(a, column);
      finish(a, at.y, row, fold(dot<Format>(a.weights.data + row * row_bytes, at.x, a.weights.cols)));
    }
  }
}

struct tile_buffer {
  alignas(64) float rows[buffer_rows][buffer_cols];
  alignas(64) float_lanes sums[buffer_rows][column_group];
};

/// Adds the products of Rows buffered rows and Columns columns to their sums, one native part of the
/// lanes after the other, so that the accumulators stay in registers.
template <int Rows, int Columns>
ORCD_INLINE void tile(tile_buffer& t, int row, int column, const float* const* x, int cols) {
  ORCD_EACH_PART {
    float_part sum[Rows][Columns];
    for (int r = 0; r < Rows; ++r)
      for (int c = 0; c < Columns; ++c) sum[r][c] = t.sums[row + r][column + c].part[p];
    for (int k = p * part_width; k < cols; k += lane_count) {
      float_part w[Rows];
      for (int r = 0; r < Rows; ++r) w[r] = load_part(&t.rows[row + r][k]);
      for (int c = 0; c < Columns; ++c) {
        const float_part v = load_part(x[c] + k);
        for (int r = 0; r < Rows; ++r) sum[r][c] = sum[r][c] + w[r] * v;
      }
    }
    for (int r = 0; r < Rows; ++r)
      for (int c = 0; c < Columns; ++c) t.sums[row + r][column + c].part[p] = sum[r][c];
  }
}

template <int Rows>
ORCD_INLINE void tile_row(tile_buffer& t, int row, const place* at, int columns, int first_col, int cols) {
  int column = 0;
  const float* x[tile_columns];
  for (; column + tile_columns <= columns; column += tile_columns) {
    for (int c = 0; c < tile_columns; ++c) x[c] = at[column + c].x + first_col;
    tile<Rows, tile_columns>(t, row, column, x, cols);
  }
  for (; column < columns; ++column) {
    x[0] = at[column].x + first_col;
    tile<Rows, 1>(t, row, column, x, cols);
  }
}

template <class Format>
ORCD_INLINE void decode_rows(tile_buffer& t, const std::byte* rows, std::size_t row_bytes, int count,
                             int first_col, int cols) {
  for (int r = 0; r < count; ++r) {
    const std::byte* from = rows + static_cast<std::size_t>(r) * row_bytes +
                            static_cast<std::size_t>(first_col / Format::elems) * Format::bytes;
    float* to = t.rows[r];
    for (int k = 0; k < cols; k += Format::elems, from += Format::bytes) {
      Format::decode(
          from, [&](int offset, float_lanes w) __attribute__((always_inline)) { store(to + k + offset, w); });
    }
  }
}

/// `count` rows times up to column_group columns.
template <class Format>
void tiled_rows(const matmul_args& a, tile_buffer& t, std::uint32_t row, int count,
                std::uint32_t first_column, int columns) {
  const std::size_t row_bytes = bytes_per_row(a.weights, Format::elems, Format::bytes);
  place at[column_group];
  for (int c = 0; c < columns; ++c) at[c] = column_place(a, first_column + static_cast<unsigned>(c));
  for (int r = 0; r < count; ++r)
    for (int c = 0; c < columns; ++c) t.sums[r][c] = splat(0.0F);
  const int all_cols = static_cast<int>(a.weights.cols);
  for (int first = 0; first < all_cols; first += buffer_cols) {
    const int cols = all_cols - first < buffer_cols ? all_cols - first : buffer_cols;
    decode_rows<Format>(t, a.weights.data + row * row_bytes, row_bytes, count, first, cols);
    int r = 0;
    for (; r + tile_rows <= count; r += tile_rows) tile_row<tile_rows>(t, r, at, columns, first, cols);
    for (; r < count; ++r) tile_row<1>(t, r, at, columns, first, cols);
  }
  for (int r = 0; r < count; ++r)
    for (int c = 0; c < columns; ++c) finish(a, at[c].y, row + static_cast<unsigned>(r), fold(t.sums[r][c]));
}

template <class Format>
void rows_by_tiles(const matmul_args& a, std::uint32_t row_begin, std::uint32_t row_end) {
  tile_buffer t;
  for (std::uint32_t row = row_begin; row < row_end; row += buffer_rows) {
    const std::uint32_t rows = row_end - row < buffer_rows ? row_end - row : buffer_rows;
    for (std::uint32_t column = 0; column < a.columns; column += column_group) {
      const std::uint32_t columns = a.columns - column < column_group ? a.columns - column : column_group;
      tiled_rows<Format>(a, t, row, static_cast<int>(rows), column, static_cast<int>(columns));
    }
  }
}

}  // namespace

void matmul_rows(const matmul_args& a, std::uint32_t row_begin, std::uint32_t row_end) {
  const bool tiled = a.columns > 1 && a.weights.cols % lane_count == 0;
  for_format(
      a.weights.type, [&](auto format) __attribute__((always_inline)) {
        using format_type = decltype(format);
        if (tiled) {
          rows_by_tiles<format_type>(a, row_begin, row_end);
        } else {
          rows_by_columns<format_type>(a, row_begin, row_end);
        }
      });
}

void dequantize_row(engine::ggml_type type, const std::byte* row, std::uint32_t cols, float* out) {
  for_format(
      type, [&](auto format) __attribute__((always_inline)) {
        using format_type = decltype(format);
        const std::uint32_t blocks = cols / format_type::elems;
        for (std::uint32_t b = 0; b < blocks; ++b) {
          float* to = out + std::size_t{b} * format_type::elems;
          format_type::decode(
              row + std::size_t{b} * format_type::bytes, [&](int offset, float_lanes v) __attribute__((
                                                             always_inline)) { store(to + offset, v); });
        }
        if constexpr (format_type::elems == lane_count) {
          const std::uint32_t rest = cols % lane_count;
          if (rest != 0) store_tail(out + (cols - rest), decode_tail<format_type>(row, cols), rest);
        }
      });
}

}  // namespace orcd::kernels::host::ORCD_ISA
