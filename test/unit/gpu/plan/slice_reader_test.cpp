// The host half of an upload: slices cover every row, and every slice arrives whole through few slots.
#include "gpu/plan/slice_reader.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/host/matmul.hpp"
#include "test/support/random_blocks.hpp"

namespace orcd::test {
namespace {

using engine::ggml_type;

gpu::weight_piece piece_of(ggml_type type, std::uint32_t rows, std::uint32_t cols, const std::byte* raw,
                           bool packed) {
  gpu::weight_piece piece;
  piece.raw = raw;
  piece.row_bytes = engine::row_bytes(engine::traits_of(type), cols);
  piece.type = type;
  piece.rows = rows;
  piece.cols = cols;
  piece.packed = packed;
  piece.sent = packed ? gpu::sent_type_of(type) : ggml_type::f32;
  piece.format = gpu::packed_format_of(type);
  return piece;
}

/// Three pieces over random bytes: packed with an odd number of rows, f32 rows, and rows to be decoded.
struct pieces_fixture {
  pieces_fixture() {
    std::mt19937_64 random(5);
    packed = random_payload(ggml_type::q8_0, 1003 * 64, 0.1F, random);
    floats = random_payload(ggml_type::f32, 7 * 96, 0.1F, random);
    halves = random_payload(ggml_type::f16, 33 * 64, 0.1F, random);
    pieces.push_back(piece_of(ggml_type::q8_0, 1003, 64, packed.data(), true));
    pieces.push_back(piece_of(ggml_type::f32, 7, 96, floats.data(), false));
    pieces.push_back(piece_of(ggml_type::f16, 33, 64, halves.data(), false));
    ternary = random_payload(ggml_type::tq2_0, 35 * 512, 0.1F, random);
    pieces.push_back(piece_of(ggml_type::tq2_0, 35, 512, ternary.data(), true));
    pieces.push_back(piece_of(ggml_type::tq2_0, 35, 512, ternary.data(), false));
    pieces.back().codes = true;
    pieces.back().sent = ggml_type::i2_s;
    scaled = piece_of(ggml_type::f16, 33, 64, halves.data(), false);
    scaled.factor = 0.37F;
    pieces.push_back(scaled);
  }
  bytes packed, floats, halves, ternary;
  gpu::weight_piece scaled;
  std::vector<gpu::weight_piece> pieces;
};

/// Rows in other blocks hold the values of the file's, but for the scale of codes.
bool same_values(const gpu::weight_slice& slice, const std::byte* from, const std::byte* slot) {
  const gpu::weight_piece& piece = *slice.piece;
  std::vector<float> want(piece.cols), got(piece.cols);
  for (std::uint32_t r = 0; r < slice.rows; ++r) {
    kernels::host::dequantize_row(piece.type, from + r * piece.row_bytes, piece.cols, want.data());
    kernels::host::dequantize_row(piece.sent, slot + r * piece.staged_row_bytes(), piece.cols, got.data());
    for (std::uint32_t i = 0; i < piece.cols; ++i) {
      if (piece.codes ? std::copysign(got[i] != 0.0F, got[i]) != std::copysign(want[i] != 0.0F, want[i])
                      : got[i] != want[i])
        return false;
    }
  }
  return true;
}

bool arrived_whole(const gpu::weight_slice& slice, const std::byte* slot) {
  const gpu::weight_piece& piece = *slice.piece;
  const std::byte* from = piece.raw + slice.first_row * piece.row_bytes;
  if (piece.sent != piece.type && piece.sent != ggml_type::f32) return same_values(slice, from, slot);
  if (piece.packed || piece.type == ggml_type::f32) return std::memcmp(from, slot, slice.bytes()) == 0;
  std::vector<float> row(piece.cols);
  for (std::uint32_t r = 0; r < slice.rows; ++r) {
    kernels::host::dequantize_row(piece.type, from + r * piece.row_bytes, piece.cols, row.data());
    for (float& v : row) v *= piece.factor;
    if (std::memcmp(row.data(), slot + r * piece.staged_row_bytes(), piece.staged_row_bytes()) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(slice_reader)

BOOST_FIXTURE_TEST_CASE(slices_cover_every_row_once_in_whole_tiles, pieces_fixture) {
  for (const std::uint64_t slot : {6144U, 8192U, 20'000U, 1U << 20}) {
    std::vector<std::uint32_t> covered(pieces.size(), 0);
    for (const auto& slice : gpu::cut_slices(pieces, slot)) {
      const auto index = static_cast<std::size_t>(slice.piece - pieces.data());
      BOOST_TEST(slice.first_row == covered[index]);
      BOOST_TEST(slice.first_row % kernels::tile_rows == 0U);
      BOOST_TEST(slice.bytes() <= slot);
      BOOST_TEST(slice.rows > 0U);
      covered[index] += slice.rows;
    }
    for (std::size_t i = 0; i < pieces.size(); ++i) BOOST_TEST(covered[i] == pieces[i].rows);
  }
}

BOOST_FIXTURE_TEST_CASE(staging_is_bounded_and_holds_sixteen_of_the_widest_rows, pieces_fixture) {
  const auto small = gpu::staging_for(pieces);
  BOOST_TEST(small.slot_bytes >= 16 * 96 * sizeof(float));
  BOOST_TEST(small.slots >= 2U);
  std::vector<gpu::weight_piece> large(3, piece_of(ggml_type::q4_k, 200'000, 4096, packed.data(), true));
  const auto usual = gpu::staging_for(large);
  BOOST_TEST(usual.slot_bytes == 4U << 20);
  BOOST_TEST(usual.slots == 16U);
  large.push_back(piece_of(ggml_type::f32, 32, gpu::packed_cols_max * 2, packed.data(), true));
  BOOST_TEST(gpu::staging_for(large).slot_bytes == std::uint64_t{16} * 2 * gpu::packed_cols_max * 4);
}

BOOST_FIXTURE_TEST_CASE(every_slice_arrives_whole_through_two_slots, pieces_fixture) {
  constexpr std::uint64_t slot_bytes = 8192;
  const auto slices = gpu::cut_slices(pieces, slot_bytes);
  BOOST_REQUIRE(slices.size() > 8U);
  bytes ring(2 * slot_bytes);
  std::vector<std::byte*> slots{ring.data(), ring.data() + slot_bytes};
  for (const unsigned threads : {1U, 3U}) {
    gpu::slice_reader reader(slices, slots, threads);
    std::vector<unsigned> seen(slices.size(), 0);
    for (std::size_t i = 0; i < slices.size(); ++i) {
      const auto filled = reader.take(true);
      BOOST_REQUIRE(filled);
      ++seen[filled->slice];
      BOOST_TEST(arrived_whole(slices[filled->slice], slots[filled->slot]));
      // Poisoned, so that a slot nobody fills again is found.
      std::memset(slots[filled->slot], 0xA5, slot_bytes);
      reader.give_back(filled->slot);
    }
    for (const unsigned times : seen) BOOST_TEST(times == 1U);
    BOOST_TEST(!reader.take(false));
  }
}

BOOST_FIXTURE_TEST_CASE(a_reader_that_is_given_up_early_ends, pieces_fixture) {
  constexpr std::uint64_t slot_bytes = 8192;
  const auto slices = gpu::cut_slices(pieces, slot_bytes);
  bytes ring(2 * slot_bytes);
  gpu::slice_reader reader(slices, {ring.data(), ring.data() + slot_bytes}, 4);
  BOOST_TEST(reader.take(true).has_value());  // and neither slot is given back
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
