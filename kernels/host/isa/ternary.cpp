// Products of ternary weights with int8 activations, of one x86 level, straight from the file's blocks;
// definition in kernels/host/ternary.hpp. A tile of rows and columns shares the codes that are unpacked for
// it and the activations that are loaded. Compiled for two more levels than the other sources
// (kernels/CMakeLists.txt).
#include "kernels/host/ternary.hpp"

#include "kernels/host/isa/code_vectors.hpp"
#include "kernels/host/kernel_table.hpp"
#include "kernels/product/quant_blocks.hpp"

namespace orcd::kernels::host::ORCD_ISA {
namespace {

// Of each format: where group `g` of 128 values of a row is, and how its codes are unpacked.

struct i2_s_codes {
  static constexpr std::size_t block_values = 128, block_bytes = sizeof(block_i2_s);
  static constexpr int shifts[4] = {6, 4, 2, 0};
  ORCD_INLINE const std::uint8_t* quarters(const std::byte* row, std::uint32_t g) {
    return reinterpret_cast<const std::uint8_t*>(row) + std::size_t{g} * block_bytes;
  }
};

struct tq2_0_codes {
  static constexpr std::size_t block_values = 256, block_bytes = sizeof(block_tq2_0);
  static constexpr int shifts[4] = {0, 2, 4, 6};
  ORCD_INLINE const std::uint8_t* quarters(const std::byte* row, std::uint32_t g) {
    return reinterpret_cast<const std::uint8_t*>(row) + std::size_t{g / 2} * block_bytes + 32 * (g % 2);
  }
};

struct tq1_0_codes {
  static constexpr std::size_t block_values = 256, block_bytes = sizeof(block_tq1_0);

  /// q * 3 / 256 of a byte.
  ORCD_INLINE std::uint8_t byte_code(unsigned byte) {
    const auto q = static_cast<std::uint8_t>(byte);
    return static_cast<std::uint8_t>((q >= 86) + (q >= 171));
  }
  template <int count>
  ORCD_INLINE void codes_at(const std::uint8_t* from, unsigned power, std::uint8_t* out) {
    for (int j = 0; j < count; ++j) out[j] = byte_code(from[j] * power);
  }
  ORCD_INLINE void bytes(const std::byte* row, std::uint32_t g, std::uint8_t* out) {
    static constexpr unsigned powers[5] = {1, 3, 9, 27, 81};
    const auto& b = *reinterpret_cast<const block_tq1_0*>(row + std::size_t{g / 2} * block_bytes);
    if (g % 2 == 0) {
      for (int k = 0; k < 4; ++k) codes_at<32>(b.qs, powers[k], out + 32 * k);
      return;
    }
    codes_at<32>(b.qs, powers[4], out);
    for (int k = 0; k < 5; ++k) codes_at<16>(b.qs + 32, powers[k], out + 32 + 16 * k);
    for (int k = 0; k < 4; ++k) codes_at<4>(b.qh, powers[k], out + 112 + 4 * k);
  }

#if defined(__AVX2__)
  ORCD_INLINE __m256i code_of(__m256i q) {
    const __m256i above = _mm256_cmpeq_epi8(_mm256_max_epu8(q, _mm256_set1_epi8(86)), q);
    const __m256i far_above =
        _mm256_cmpeq_epi8(_mm256_max_epu8(q, _mm256_set1_epi8(static_cast<char>(171))), q);
    return _mm256_sub_epi8(_mm256_setzero_si256(), _mm256_add_epi8(above, far_above));
  }
  ORCD_INLINE __m256i times_three(__m256i q) {
    return _mm256_add_epi8(q, _mm256_add_epi8(q, q));
  }
  ORCD_INLINE __m128i times_three(__m128i q) {
    return _mm_add_epi8(q, _mm_add_epi8(q, q));
  }
  ORCD_INLINE void vectors(const std::byte* row, std::uint32_t g, code_vector* out) {
    const auto& b = *reinterpret_cast<const block_tq1_0*>(row + std::size_t{g / 2} * block_bytes);
    __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b.qs));
    __m256i quarters[4];
    if (g % 2 == 0) {
      for (int k = 0; k < 4; ++k, first = times_three(first)) quarters[k] = code_of(first);
      return join(quarters, out);
    }
    for (int k = 0; k < 4; ++k) first = times_three(first);
    quarters[0] = code_of(first);
    __m128i sixteens[6];
    sixteens[0] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b.qs + 32));
    for (int k = 1; k < 5; ++k) sixteens[k] = times_three(sixteens[k - 1]);
    const __m128i last = _mm_loadu_si32(b.qh);
    const __m128i second = times_three(last), third = times_three(second);
    sixteens[5] =
        _mm_unpacklo_epi64(_mm_unpacklo_epi32(last, second), _mm_unpacklo_epi32(third, times_three(third)));
    for (int i = 0; i < 3; ++i)
      quarters[1 + i] = code_of(_mm256_set_m128i(sixteens[2 * i + 1], sixteens[2 * i]));
    join(quarters, out);
  }
#endif
};

template <class Format>
inline constexpr bool in_quarters = Format::block_bytes != sizeof(block_tq1_0);

struct place {
  const std::int8_t* values;
  float scale;
  std::int32_t sum;
  float* y;
};

ORCD_INLINE place column_place(const matmul_args& a, std::uint32_t column) {
  const std::size_t x_row = a.x_rows ? a.x_rows[column] : column;
  const std::size_t y_row = a.y_rows ? a.y_rows[column] : column;
  return {a.ints.values + x_row * a.x_stride, a.ints.scales[x_row], a.ints.sums[x_row],
          a.y + y_row * a.y_stride};
}

/// `codes`: the sum of codes from 0 to 2 times the activations.
ORCD_INLINE void finish(const matmul_args& a, const place& at, std::uint32_t row, std::int32_t codes) {
  float y = static_cast<float>(codes - at.sum) / at.scale * a.weights.code_scale;
  if (a.bias) y += a.bias[row];
  at.y[row] = a.accumulate ? at.y[row] + y : y;
}

#if defined(__AVX2__)

// Rows and columns of a register tile: as many sums as the level's registers hold. One column has more rows,
// whose sums do not wait for each other.
constexpr std::uint32_t tile_columns = 4;
template <std::uint32_t Columns>
constexpr std::uint32_t tile_rows = Columns == 1         ? 8
                                    : vector_codes == 64 ? 4
                                                         : 2;
constexpr int group_vectors = code_group / vector_codes;

template <class Format>
ORCD_INLINE void unpack(const std::byte* row, std::uint32_t group, code_vector* out) {
  if constexpr (in_quarters<Format>) {
    constexpr auto& s = Format::shifts;
    unpack_quarters<s[0], s[1], s[2], s[3]>(Format::quarters(row, group), out);
  } else {
    Format::vectors(row, group, out);
  }
}

template <class Format, std::uint32_t Rows, std::uint32_t Columns>
ORCD_INLINE void tile(const matmul_args& a, std::uint32_t row, const place* at) {
  const std::size_t row_bytes = a.weights.cols / Format::block_values * Format::block_bytes;
  const std::byte* const rows = a.weights.data + row * row_bytes;
  product_sums sums[Rows][Columns];
  for (std::uint32_t r = 0; r < Rows; ++r)
    for (std::uint32_t c = 0; c < Columns; ++c) sums[r][c] = product_sums{};
  const std::uint32_t groups = a.weights.cols / code_group;
  for (std::uint32_t first = 0; first < groups; first += fold_groups) {
    const std::uint32_t end = groups - first < fold_groups ? groups : first + fold_groups;
    for (std::uint32_t g = first; g < end; ++g) {
      if constexpr (Columns == 1) {
        const std::int8_t* values = at[0].values + std::size_t{g} * code_group;
        for (std::uint32_t r = 0; r < Rows; ++r) {
          code_vector codes[group_vectors];
          unpack<Format>(rows + r * row_bytes, g, codes);
          for (int i = 0; i < group_vectors; ++i)
            product_sums::add(sums[r][0], codes[i], load_codes(values + i * vector_codes));
        }
        continue;
      }
      code_vector codes[Rows][group_vectors];
      for (std::uint32_t r = 0; r < Rows; ++r) unpack<Format>(rows + r * row_bytes, g, codes[r]);
      for (std::uint32_t c = 0; c < Columns; ++c) {
        for (int i = 0; i < group_vectors; ++i) {
          const code_vector values = load_codes(at[c].values + std::size_t{g} * code_group +
                                                static_cast<unsigned>(i * vector_codes));
          for (std::uint32_t r = 0; r < Rows; ++r) product_sums::add(sums[r][c], codes[r][i], values);
        }
      }
    }
    for (std::uint32_t r = 0; r < Rows; ++r)
      for (std::uint32_t c = 0; c < Columns; ++c) product_sums::fold(sums[r][c]);
  }
  for (std::uint32_t r = 0; r < Rows; ++r)
    for (std::uint32_t c = 0; c < Columns; ++c) finish(a, at[c], row + r, fold_sums(sums[r][c].wide));
}

template <class Format, std::uint32_t Columns>
ORCD_INLINE void rows_by_columns(const matmul_args& a, std::uint32_t begin, std::uint32_t end,
                                 const place* at) {
  std::uint32_t row = begin;
  constexpr std::uint32_t together = tile_rows<Columns>;
  for (; row + together <= end; row += together) tile<Format, together, Columns>(a, row, at);
  for (; row < end; ++row) tile<Format, 1, Columns>(a, row, at);
}

/// Few columns at a time over all rows, whose codes then come from a near cache.
template <class Format>
void multiply(const matmul_args& a, std::uint32_t begin, std::uint32_t end) {
  std::uint32_t column = 0;
  place at[tile_columns];
  for (; column + tile_columns <= a.columns; column += tile_columns) {
    for (std::uint32_t c = 0; c < tile_columns; ++c) at[c] = column_place(a, column + c);
    rows_by_columns<Format, tile_columns>(a, begin, end, at);
  }
  for (; column < a.columns; ++column) {
    at[0] = column_place(a, column);
    rows_by_columns<Format, 1>(a, begin, end, at);
  }
}

#else

template <class Format>
ORCD_INLINE void unpack(const std::byte* row, std::uint32_t group, std::uint8_t* out) {
  if constexpr (in_quarters<Format>) {
    const std::uint8_t* from = Format::quarters(row, group);
    for (int k = 0; k < 4; ++k)
      for (int j = 0; j < 32; ++j) out[32 * k + j] = from[j] >> Format::shifts[k] & 3;
  } else {
    Format::bytes(row, group, out);
  }
}

/// As many columns at a time as have their sums here.
template <class Format>
void multiply(const matmul_args& a, std::uint32_t begin, std::uint32_t end) {
  constexpr std::uint32_t columns_max = 32;
  const std::size_t row_bytes = a.weights.cols / Format::block_values * Format::block_bytes;
  for (std::uint32_t first = 0; first < a.columns; first += columns_max) {
    const std::uint32_t columns = a.columns - first < columns_max ? a.columns - first : columns_max;
    place at[columns_max];
    for (std::uint32_t c = 0; c < columns; ++c) at[c] = column_place(a, first + c);
    for (std::uint32_t row = begin; row < end; ++row) {
      std::int32_t sums[columns_max] = {};
      for (std::uint32_t g = 0; g < a.weights.cols / code_group; ++g) {
        std::uint8_t codes[code_group];
        unpack<Format>(a.weights.data + row * row_bytes, g, codes);
        for (std::uint32_t c = 0; c < columns; ++c) {
          const std::int8_t* values = at[c].values + std::size_t{g} * code_group;
          for (int i = 0; i < code_group; ++i) sums[c] += codes[i] * values[i];
        }
      }
      for (std::uint32_t c = 0; c < columns; ++c) finish(a, at[c], row, sums[c]);
    }
  }
}

#endif

}  // namespace

void ternary_rows(const matmul_args& a, std::uint32_t row_begin, std::uint32_t row_end) {
  switch (a.weights.type) {
    case engine::ggml_type::i2_s: return multiply<i2_s_codes>(a, row_begin, row_end);
    case engine::ggml_type::tq2_0: return multiply<tq2_0_codes>(a, row_begin, row_end);
    case engine::ggml_type::tq1_0: return multiply<tq1_0_codes>(a, row_begin, row_end);
    default: return;
  }
}

}  // namespace orcd::kernels::host::ORCD_ISA
