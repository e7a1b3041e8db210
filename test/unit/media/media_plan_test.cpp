// What media take of a GPU, planned without one: places of a tower's tensors, what is made of them before
// they are sent, and steps that are long enough for rows that see each other.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstring>

#include "gpu/plan/media/media_layout.hpp"
#include "gpu/plan/media/tower_weights.hpp"
#include "gpu/plan/slice_reader.hpp"
#include "gpu/plan/work_layout.hpp"
#include "kernels/host/matmul.hpp"
#include "kernels/host/recode.hpp"
#include "kernels/tower/tower_attention.hpp"
#include "test/unit/media/golden_media.hpp"

using namespace orcd;
using test::golden_media;
namespace data = boost::unit_test::data;

namespace {

constexpr std::uintptr_t base = 1U << 20U;

std::uint64_t bytes_of(const gpu::weight_piece& piece) {
  if (piece.packed) return kernels::packed_bytes(piece.format, piece.rows, piece.cols);
  return std::uint64_t{piece.rows} * piece.cols * sizeof(float);
}

const gpu::weight_piece& piece_at(const gpu::tower_weight_layout& layout, const void* address) {
  const auto offset = reinterpret_cast<std::uintptr_t>(address) - base;
  const auto found = std::find_if(layout.pieces.begin(), layout.pieces.end(),
                                  [&](const gpu::weight_piece& piece) { return piece.offset == offset; });
  BOOST_REQUIRE(found != layout.pieces.end());
  return *found;
}

float value_of(const gpu::weight_piece& piece, std::uint64_t index) {
  float out = 0.0F;
  std::memcpy(&out, piece.raw + index * sizeof out, sizeof out);
  return out;
}

std::vector<float> row_of(const engine::tensor_view& matrix, std::uint64_t row) {
  std::vector<float> out(matrix.cols());
  const std::uint64_t bytes = engine::row_bytes(engine::traits_of(matrix.type), matrix.cols());
  kernels::host::dequantize_row(matrix.type, matrix.data + row * bytes,
                                static_cast<std::uint32_t>(matrix.cols()), out.data());
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(media_plans)

BOOST_DATA_TEST_CASE(tensors_have_places_of_their_own, data::make(test::golden_media_names()), name) {
  const golden_media golden(name);
  const auto layout = gpu::lay_out_tower(golden.tower, base);
  const auto sizes = gpu::lay_out_tower(golden.tower, 0);
  BOOST_REQUIRE(layout && sizes);
  BOOST_TEST(layout->bytes == sizes->bytes);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
  for (const gpu::weight_piece& piece : layout->pieces) {
    BOOST_TEST_REQUIRE((piece.raw != nullptr), std::string(piece.name));
    BOOST_TEST((piece.packed || piece.sent == engine::ggml_type::f32), std::string(piece.name));
    BOOST_TEST((!piece.packed || piece.sent != engine::ggml_type::f32), std::string(piece.name));
    places.emplace_back(piece.offset, piece.offset + bytes_of(piece));
    const std::uint64_t scales = piece.packed ? kernels::packed_row_scales(piece.format, piece.rows) : 0;
    if (scales > 0)
      places.emplace_back(piece.row_scale_offset, piece.row_scale_offset + scales * sizeof(float));
  }
  std::sort(places.begin(), places.end());
  for (std::size_t i = 1; i < places.size(); ++i) BOOST_TEST(places[i - 1].second <= places[i].first);
  BOOST_TEST(places.back().second <= layout->bytes);
}

BOOST_AUTO_TEST_CASE(a_still_picture_is_both_frames) {
  const golden_media golden("qwen2");
  const auto layout = gpu::lay_out_tower(golden.tower, base).value();
  const gpu::weight_piece& piece = piece_at(layout, layout.weights.patch.weight.data);
  const auto first = row_of(golden.tower.weights.patch, 3),
             second = row_of(golden.tower.weights.second_frame, 3);
  BOOST_TEST(piece.cols == first.size());
  for (std::uint64_t c = 0; c < piece.cols; ++c)
    BOOST_TEST_REQUIRE(value_of(piece, 3 * piece.cols + c) == first[c] + second[c]);
}

BOOST_AUTO_TEST_CASE(projections_have_rows_of_outputs) {
  const golden_media golden("gemma3");
  const auto layout = gpu::lay_out_tower(golden.tower, base).value();
  const engine::tensor_view& from = golden.tower.weights.projection;
  const gpu::weight_piece& piece = piece_at(layout, layout.weights.projection.weight.data);
  BOOST_TEST(piece.rows == golden.tower.spec.out_width);
  const auto row = row_of(from, 5);
  for (std::uint64_t r = 0; r < piece.rows; ++r)
    BOOST_TEST_REQUIRE(value_of(piece, r * piece.cols + 5) == row[r]);
}

BOOST_AUTO_TEST_CASE(floats_go_as_halves) {
  const float values[] = {1.0F, -0.5F, 65504.0F, 1e-8F, 0.1F};
  std::uint16_t halves[5] = {};
  kernels::host::recode_as_f16(engine::ggml_type::f32, reinterpret_cast<const std::byte*>(values), 5,
                               reinterpret_cast<std::byte*>(halves));
  const std::uint16_t want[] = {0x3C00, 0xB800, 0x7BFF, 0x0000, 0x2E66};
  for (int i = 0; i < 5; ++i) BOOST_TEST(halves[i] == want[i], "value " << i);
}

BOOST_DATA_TEST_CASE(an_arena_has_room_for_all_parts, data::make(test::golden_media_names()), name) {
  const golden_media golden(name);
  const engine::tower_spec& spec = golden.tower.spec;
  const engine::media_room room{&golden.tower, 8};
  gpu::cuda_extents extents;
  extents.chunk_tokens = 64;
  const gpu::media_layout at(golden.text.spec, room, extents);
  BOOST_TEST(at.bytes == gpu::media_arena_bytes(golden.text.spec, room, extents).value());
  BOOST_TEST(at.rows - at.weights >= gpu::lay_out_tower(golden.tower, 0)->bytes);
  BOOST_TEST(at.blocks - at.rows >= std::uint64_t{8} * engine::media_block_rows * spec.row_width() * 4);
  const std::uint64_t patches = spec.patches_max();
  BOOST_TEST(at.normed - at.stream >= patches * spec.width * 4);
  BOOST_TEST(at.heads - at.normed >= patches * kernels::padded_cols(spec.width) * 2);
  BOOST_TEST(at.floats - at.heads >=
             3 * spec.heads * patches * kernels::tower_head_width(spec.head_width()) * 2);
  BOOST_TEST(at.bytes > at.axes - (at.axes == at.bytes ? 1 : 0));
  const gpu::media_layout none(golden.text.spec, {}, extents);
  BOOST_TEST(none.bytes == 0U);
}

BOOST_AUTO_TEST_CASE(heads_that_no_kernel_takes_are_named) {
  golden_media golden("qwen25");
  golden.tower.spec.width = 2 * 320;
  const auto refused = gpu::check_cuda_tower(golden.tower.spec);
  BOOST_REQUIRE(!refused);
  BOOST_TEST(refused.error().message == "a tower with heads of 320 values: the CUDA kernels take up to 256");
  BOOST_TEST(refused.error().param == "mmproj");
}

BOOST_AUTO_TEST_CASE(steps_are_long_enough_for_rows_that_see_each_other) {
  golden_media golden("gemma3");
  engine::picture_rules& rules = golden.tower.spec.pictures;
  rules.side = 1'000 * rules.patch * rules.merge / 20;  // 2,500 rows a view
  engine::accelerator_config config;
  config.context_tokens = 4'096;
  config.media = {&golden.tower, 64};
  const std::uint32_t rows = golden.tower.spec.view_rows_max();
  BOOST_TEST(rows == 2'500U);
  auto choices = gpu::choices_for(golden.text.spec, config);
  BOOST_TEST(choices.chunk_tokens >= rows);
  while (const auto shorter = gpu::with_shorter_steps(choices)) choices = *shorter;
  BOOST_TEST(choices.chunk_tokens >= rows);
  config.chunk_tokens = 8;
  BOOST_TEST(gpu::choices_for(golden.text.spec, config).chunk_tokens == rows);
}

BOOST_AUTO_TEST_SUITE_END()
