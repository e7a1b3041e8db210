#include <cstring>
#include <limits>

#include "test/unit/gguf/expect.hpp"

using namespace orcd;
using namespace orcd::test;
using engine::ggml_type;

namespace {

gguf_writer with_tensor(std::string name, std::vector<std::uint64_t> extents, std::uint32_t type,
                        std::size_t size, std::optional<std::uint64_t> offset = {}) {
  gguf_writer w;
  w.add_tensor({std::move(name), std::move(extents), type, bytes(size), offset});
  return w;
}

constexpr std::uint32_t f32 = 0;

}  // namespace

BOOST_AUTO_TEST_SUITE(tensor_table)

BOOST_AUTO_TEST_CASE(views_name_the_right_bytes) {
  gguf_writer w = small_writer();
  w.add_tensor("c", {3, 2, 2, 2}, ggml_type::f16, bytes(48, std::byte{3}));
  w.faults.no_padding_at_end = true;  // tools drop the padding after the last tensor
  const bytes image = w.build();
  const auto file = parse(image);
  BOOST_REQUIRE(file.has_value());
  const engine::tensor_view* b = file->find_tensor("b");
  BOOST_REQUIRE(b != nullptr);
  BOOST_TEST((b->type == ggml_type::q8_0));
  BOOST_TEST(b->dims == 2U);
  BOOST_TEST(b->cols() == 32U);
  BOOST_TEST(b->rows() == 2U);
  BOOST_TEST(b->experts() == 1U);
  BOOST_TEST(b->bytes == 68U);
  BOOST_TEST(b->data - image.data() == static_cast<std::ptrdiff_t>(b->file_offset));
  for (std::size_t i = 0; i < b->bytes; ++i) BOOST_REQUIRE((b->data[i] == std::byte{2}));
  const engine::tensor_view* c = file->find_tensor("c");
  BOOST_REQUIRE(c != nullptr);
  BOOST_TEST(c->elements() == 24U);
  BOOST_TEST(c->bytes == 48U);
  BOOST_TEST(c->file_offset + c->bytes == image.size());
  BOOST_TEST(file->find_tensor("d") == nullptr);
  BOOST_TEST(file->tensors()[0].name == "a");
}

BOOST_AUTO_TEST_CASE(every_supported_type_has_its_size) {
  for (const engine::type_traits& t : engine::supported_types()) {
    const std::uint64_t size = 9ULL * 3 * t.block_bytes + t.trailer_bytes;
    const bytes image =
        with_tensor("t", {3 * t.block_elems, 9}, static_cast<std::uint32_t>(t.type), size).build();
    const auto file = parse(image);
    BOOST_REQUIRE_MESSAGE(file.has_value(), t.name);
    BOOST_TEST(file->find_tensor("t")->bytes == size, t.name);
    BOOST_TEST(file->tensor_bytes() == size);
  }
}

BOOST_AUTO_TEST_CASE(refuses_unsupported_types_by_name) {
  expect_refused(with_tensor("blk.0.x", {256}, 19, 50).build(),
                 {"type of tensor 'blk.0.x'", "19 (IQ1_S)", "not supported", "Q4_K, Q5_K, Q6_K", "MXFP4"});
  expect_refused(with_tensor("t", {32}, 4, 18).build(), {"removed(4)"});
  expect_refused(with_tensor("t", {32}, 38, 18).build(), {"38 (removed(38), TL1 in BitNet forks)"});
  expect_refused(with_tensor("t", {32}, 43, 18).build(), {"43 (unknown)"});
  expect_refused(with_tensor("t", {32}, 0xFFFFFFFF, 18).build(), {"4294967295 (unknown)"});
}

BOOST_AUTO_TEST_CASE(refuses_bad_names) {
  expect_refused(with_tensor("", {4}, f32, 16).build(), {"tensor name", "empty"});
  expect_refused(with_tensor(std::string(64, 'x'), {4}, f32, 16).build(), {"tensor name", "64", "63"});
  expect_refused(with_tensor(std::string("a\0b", 3), {4}, f32, 16).build(), {"tensor name", "NUL"});
  BOOST_TEST(parse(with_tensor(std::string(63, 'x'), {4}, f32, 16).build()).has_value());
  gguf_writer w = small_writer();
  w.add_tensor("a", {4}, ggml_type::f32, bytes(16));
  expect_refused(w.build(), {"tensor 'a' occurs twice"});
}

BOOST_AUTO_TEST_CASE(refuses_bad_dimensions) {
  expect_refused(with_tensor("t", {}, f32, 4).build(), {"dimension count of tensor 't'", "is 0", "1 to 4"});
  expect_refused(with_tensor("t", {1, 1, 1, 1, 1}, f32, 4).build(), {"dimension count", "is 5"});
  expect_refused(with_tensor("t", {4, 0}, f32, 0).build(), {"dimension 1 of tensor 't'", "is 0"});
  expect_refused(with_tensor("t", {std::numeric_limits<std::uint64_t>::max()}, f32, 4).build(),
                 {"dimension 0", "18446744073709551615"});
  expect_refused(with_tensor("t", {(1ULL << 31U) + 1}, f32, 4).build(), {"dimension 0", "2147483648"});
  // 2^31 * 2^31 * 4 wraps to 0 in 64 bits: the classic way to a small allocation for a big tensor.
  const std::uint64_t side = 1ULL << 31U;
  expect_refused(with_tensor("t", {side, side, 4}, f32, 4).build(), {"dimensions of tensor 't'", "limit"});
  expect_refused(with_tensor("t", {side, side, side, side}, f32, 4).build(), {"dimensions"});
  expect_refused(with_tensor("t", {1ULL << 30U, 1ULL << 18U}, f32, 4).build(), {"do not fit"});
}

BOOST_AUTO_TEST_CASE(refuses_columns_that_the_block_does_not_divide) {
  expect_refused(with_tensor("t", {48}, static_cast<std::uint32_t>(ggml_type::q4_0), 36).build(),
                 {"dimension 0 of tensor 't'", "48", "Q4_0", "32"});
  expect_refused(with_tensor("t", {128}, static_cast<std::uint32_t>(ggml_type::q6_k), 210).build(),
                 {"Q6_K", "256"});
}

BOOST_AUTO_TEST_CASE(refuses_bad_offsets) {
  constexpr std::uint64_t last = std::numeric_limits<std::uint64_t>::max() - 15;
  expect_refused(with_tensor("t", {4}, f32, 16, last).build(), {"offset of tensor 't'", "must be 0"});
  expect_refused(with_tensor("t", {4}, f32, 64, 32).build(), {"offset of tensor 't'", "is 32", "must be 0"});
  expect_refused(with_tensor("t", {4}, f32, 64, 1).build(), {"offset of tensor 't'", "is 1"});
  gguf_writer overlap = small_writer();
  overlap.tensors[1].offset = 0;
  expect_refused(overlap.build(), {"offset of tensor 'b'", "is 0", "must be 32"});
}

BOOST_AUTO_TEST_CASE(refuses_data_that_is_not_there) {
  gguf_writer w = with_tensor("t", {8}, f32, 16);
  w.faults.no_padding_at_end = true;
  expect_refused(w.build(), {"data of tensor 't'", "32 bytes", "16 bytes", "truncated"});
  gguf_writer header_only = with_tensor("t", {8}, f32, 0);
  header_only.faults.no_padding_at_end = true;
  BOOST_TEST(!parse(header_only.build()).has_value());
}

BOOST_AUTO_TEST_CASE(the_scale_behind_a_tensor_is_its_factor) {
  bytes data(128 / 4 + 32, std::byte{0x55});
  const float scale = 0.6875F;
  std::memcpy(data.data() + 32, &scale, sizeof scale);
  gguf_writer w;
  w.add_tensor("t", {128}, ggml_type::i2_s, data);
  w.add_tensor("u", {4}, ggml_type::f32, bytes(16));
  const bytes image = w.build();
  const auto file = parse(image);
  BOOST_REQUIRE(file.has_value());
  BOOST_TEST(file->tensors()[0].bytes == 64U);
  BOOST_TEST(file->tensors()[0].factor == scale);
  BOOST_TEST(file->tensors()[1].factor == 1.0F);
  gguf_writer cut = with_tensor("t", {128}, 36, 63);
  cut.faults.no_padding_at_end = true;
  expect_refused(cut.build(), {"data of tensor 't'", "64 bytes", "63 bytes"});
}

// A fork uses the same id for blocks of 128 values in 34 bytes.
BOOST_AUTO_TEST_CASE(blocks_of_a_fork_are_refused_by_name) {
  constexpr std::uint64_t values = 2048;
  const bytes ours(values / 64 * 18), theirs(values / 128 * 34);
  const auto file_of = [](const bytes& first) {
    gguf_writer w;
    w.add_tensor({"t", {256, values / 256}, 42, first, {}});
    w.add_tensor("u", {4}, ggml_type::f32, bytes(16));
    return w.build();
  };
  BOOST_TEST(parse(file_of(ours)).has_value());
  expect_refused(file_of(theirs), {"offset of tensor 'u'", "must be 576", "128 values and 34 bytes"});
  gguf_writer last = with_tensor("t", {256, values / 256}, 42, theirs.size());
  last.faults.no_padding_at_end = true;
  expect_refused(last.build(), {"data of tensor 't'", "576 bytes", "128 values and 34 bytes"});
  gguf_writer cut = with_tensor("t", {256, values / 256}, 42, theirs.size() - 1);
  cut.faults.no_padding_at_end = true;
  const bytes damaged = cut.build();
  BOOST_TEST(parse(damaged).error().message.find("128 values") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(blocks_that_could_be_of_either_kind_are_refused) {
  expect_refused(with_tensor("t", {128}, 42, 36).build(),
                 {"type of tensor 't'", "42 (Q2_0)", "128 values and 34"});
  BOOST_TEST(parse(with_tensor("t", {64}, 42, 18).build()).has_value());
  gguf_writer w = with_tensor("t", {128}, 42, 36);
  w.add_tensor({"u", {192}, 42, bytes(54), {}});  // tells for all
  BOOST_TEST(parse(w.build()).has_value());
}

BOOST_AUTO_TEST_CASE(refuses_a_layout_of_another_alignment) {
  gguf_writer w = small_writer();
  w.alignment = 64;
  w.faults.layout_alignment = 32;
  expect_refused(w.build(), {"offset of tensor 'b'", "must be 64"});
}

BOOST_AUTO_TEST_CASE(vocabulary_files_have_no_tensors) {
  gguf_writer w;
  w.add("general.architecture", "llama");
  w.faults.no_padding_at_end = true;
  const bytes image = w.build();
  const auto file = parse(image);
  BOOST_REQUIRE(file.has_value());
  BOOST_TEST(file->tensors().empty());
  BOOST_TEST(file->quant_kind() == "none");
}

BOOST_AUTO_TEST_CASE(type_names_are_known_even_when_unsupported) {
  BOOST_TEST(engine::known_type_name(12) == "Q4_K");
  BOOST_TEST(engine::known_type_name(23) == "IQ4_XS");
  BOOST_TEST(engine::known_type_name(35) == "TQ2_0");
  BOOST_TEST(engine::known_type_name(42) == "Q2_0");
  BOOST_TEST(engine::known_type_name(9999) == "unknown");
  for (const engine::type_traits& t : engine::supported_types()) {
    const auto id = static_cast<std::uint32_t>(t.type);
    BOOST_TEST(engine::known_type_name(id) == t.name);
    BOOST_TEST((engine::type_from_id(id) == t.type));
    BOOST_TEST(&engine::traits_of(t.type) == &t);
  }
  BOOST_TEST(!engine::type_from_id(19).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
