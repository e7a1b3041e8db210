// Rows of encoded media: from a tower to the blocks that keep them, and from there into the residual stream.
// Determinism class: exact. Bound: memory.
#pragma once

#include <cstdint>

struct CUstream_st;

namespace orcd::kernels {

/// Rows in blocks: row i of a medium is the (i % block_rows)-th of blocks[i / block_rows]. A row has parts of
/// part_width values each.
struct row_store {
  float* rows = nullptr;  ///< [blocks][block_rows][row_width]
  std::uint32_t block_rows = 0;
  std::uint32_t row_width = 0;
  std::uint32_t part_width = 0;  ///< divides row_width
};

/// Part `part` of the medium's rows `first` and on.
struct store_rows_args {
  row_store to;
  const std::uint32_t* blocks = nullptr;  ///< device
  const float* x = nullptr;               ///< [rows][part_width]
  std::uint32_t first = 0;
  std::uint32_t rows = 0;
  std::uint32_t part = 0;
};
[[nodiscard]] int launch_store_rows(const store_rows_args& args, CUstream_st* stream);

/// A column of a pass, and the row of the store, of all blocks, that stands there.
struct given_row {
  std::int32_t column = 0;
  std::int32_t row = 0;
};

/// x[column] = part `part` of its row times `scale`; `adds`: that is added to it.
struct give_rows_args {
  row_store from;
  const given_row* given = nullptr;  ///< device, [count]
  std::uint32_t count = 0;
  std::uint32_t part = 0;
  float scale = 1.0F;
  bool adds = false;
  float* x = nullptr;  ///< [..][part_width]
};
[[nodiscard]] int launch_give_rows(const give_rows_args& args, CUstream_st* stream);

}  // namespace orcd::kernels
