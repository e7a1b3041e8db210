// Adapters in pieces: put together again they are the adapter, in the order in which a device reads it.
#include "gpu/plan/adapter_pieces.hpp"

#include <boost/test/unit_test.hpp>

#include "engine/gguf/gguf_file.hpp"
#include "kernels/layer/lora_args.hpp"
#include "test/support/tiny_model.hpp"
#include "test/unit/gpu/tiny_adapter.hpp"

namespace orcd::test {
namespace {

/// A room into which all pieces of at most `most` values have been copied.
std::vector<float> copied(const gpu::adapter_layout& layout, const engine::lora_adapter& adapter,
                          std::uint64_t most) {
  std::vector<float> room(layout.floats(), -1.0F);
  gpu::adapter_pieces pieces(layout, adapter);
  for (auto piece = pieces.next(most); !piece.empty(); piece = pieces.next(most)) {
    std::uint64_t values = 0;
    for (const gpu::adapter_part& part : piece) {
      BOOST_TEST_REQUIRE(part.count > 0U);
      values += part.count;
      for (std::uint64_t i = 0; i < part.count; ++i) {
        const std::uint64_t at = part.first + i;
        const std::uint64_t to = at / part.width * part.row_step + at % part.width * part.column_step;
        BOOST_TEST_REQUIRE(room.at(part.to + to) == -1.0F);  // once
        room[part.to + to] = part.from[i];
      }
    }
    BOOST_TEST_REQUIRE(values <= most);
  }
  return room;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(adapter_pieces)

BOOST_AUTO_TEST_CASE(pieces_of_any_size_give_the_same_room) {
  const bytes image = make_tiny_model({});
  const engine::gguf_file file = engine::gguf_file::parse(image, "tiny").value();
  const engine::model m = engine::load_model(file).value();
  const gpu::adapter_layout layout(m, {1, 5});
  const engine::lora_adapter adapter = make_tiny_adapter(m, {.rank = 4});
  std::vector<float> want(layout.floats(), -1.0F);
  for (const engine::lora_pair& pair : adapter.pairs) {
    const auto& place = layout.places()[static_cast<std::size_t>(layout.find(pair.target, pair.layer))];
    for (std::uint32_t r = 0; r < pair.rank; ++r) {
      for (std::uint32_t c = 0; c < pair.in; ++c) {
        want[place.a_at + r * kernels::lora_stride(pair.in) + c] =
            adapter.a(pair)[std::uint64_t{r} * pair.in + c];
      }
      for (std::uint32_t o = 0; o < pair.out; ++o) {
        want[place.b_at + r * kernels::lora_stride(pair.out) + o] =
            adapter.b(pair)[std::uint64_t{o} * pair.rank + r];
      }
    }
  }
  const std::uint64_t all = adapter.values.size();
  for (const std::uint64_t most : {std::uint64_t{7}, std::uint64_t{100}, std::uint64_t{4096}, all, all + 1})
    BOOST_TEST((copied(layout, adapter, most) == want), most);
}

BOOST_AUTO_TEST_CASE(an_adapter_without_pairs_has_no_piece) {
  const engine::lora_adapter none;
  const gpu::adapter_layout layout;
  gpu::adapter_pieces pieces(layout, none);
  BOOST_TEST(pieces.next(16).empty());
  BOOST_TEST(pieces.next(16).empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
