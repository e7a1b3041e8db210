// --verify: good models pass, and one bad number is named by tensor, expert, row and block.
#include "gpu/weight_check.hpp"

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "engine/gguf/gguf_file.hpp"
#include "test/support/tiny_model.hpp"
#include "test/support/wait_until.hpp"
#include "test/unit/gpu/tiny_backend.hpp"

namespace orcd::test {
namespace {

using engine::ggml_type;

engine::result<void> check(const bytes& image, unsigned threads = 2) {
  const auto file = engine::gguf_file::parse(image, "tiny").value();
  const std::atomic<bool> stop{false};
  return gpu::check_weights(file.tensors(), threads, stop);
}

/// The half at `offset` of a tensor's payload becomes NaN.
void spoil(gguf_writer& writer, const std::string& tensor, std::size_t offset) {
  const std::uint16_t nan = 0x7e01;
  std::memcpy(writer.find_tensor(tensor)->data.data() + offset, &nan, sizeof nan);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(weight_check)

BOOST_AUTO_TEST_CASE(every_family_and_type_that_is_sound_passes) {
  for (const tiny_case& c : every_tiny_model()) {
    const auto good = check(make_tiny_model(c.options));
    BOOST_TEST(good.has_value(), c.name << ": " << (good ? "" : good.error().message));
  }
}

BOOST_AUTO_TEST_CASE(a_bad_scale_is_named_by_its_place) {
  tiny_model_options options;
  options.matrix_type = ggml_type::q8_0;
  auto writer = make_tiny_writer(options);
  // 128 columns are 4 blocks of 34 bytes a row: row 3, block 1.
  spoil(writer, "blk.1.ffn_down.weight", (3 * 4 + 1) * 34);
  const auto bad = check(writer.build());
  BOOST_REQUIRE(!bad);
  BOOST_TEST((bad.error().code == engine::errc::model_load_failed));
  BOOST_TEST(bad.error().message ==
             "tensor 'blk.1.ffn_down.weight' (Q8_0) is corrupt: row 3, block 1: d is NaN");
}

BOOST_AUTO_TEST_CASE(an_expert_and_a_plain_value_are_named_too) {
  tiny_model_options options;
  options.family = "gpt-oss";
  options.expert_type = ggml_type::mxfp4;
  auto writer = make_tiny_writer(options);
  auto* experts = writer.find_tensor("blk.0.ffn_up_exps.weight");
  BOOST_REQUIRE(experts != nullptr && experts->extents.size() == 3U);
  const std::uint64_t in_row = experts->extents[0] / 32;
  const std::uint64_t rows = experts->extents[1];
  experts->data[((2 * rows + 7) * in_row + 1) * 17] = std::byte{255};
  const auto bad = check(writer.build());
  BOOST_REQUIRE(!bad);
  BOOST_TEST(contains(bad.error().message, "'blk.0.ffn_up_exps.weight' (MXFP4)"), bad.error().message);
  BOOST_TEST(contains(bad.error().message, "expert 2, row 7, block 1: scale is NaN"), bad.error().message);

  auto norm = make_tiny_writer({});
  const float infinite = std::numeric_limits<float>::infinity();
  std::memcpy(norm.find_tensor("blk.0.attn_norm.weight")->data.data() + 5 * sizeof(float), &infinite,
              sizeof infinite);
  const auto plain = check(norm.build());
  BOOST_REQUIRE(!plain);
  BOOST_TEST(contains(plain.error().message, "'blk.0.attn_norm.weight' (F32)"), plain.error().message);
  BOOST_TEST(contains(plain.error().message, "row 0, column 5: value is infinite"), plain.error().message);
}

BOOST_AUTO_TEST_CASE(of_several_the_first_in_the_file_is_named_whatever_the_threads_do) {
  // More than one chunk for each thread: 3 x 24 MiB of F16 values.
  gguf_writer writer;
  const std::uint64_t cols = 1024;
  const std::uint64_t rows = 12 * 1024;
  for (const char* name : {"a", "b", "c"}) {
    writer.add_tensor(name, {cols, rows}, ggml_type::f16, bytes(cols * rows * 2));
  }
  spoil(writer, "c", 0);
  spoil(writer, "b", 2 * (cols * 11'000 + 17));
  spoil(writer, "b", 2 * (cols * 9'000 + 3));
  const bytes image = writer.build();
  for (int round = 0; round < 20; ++round) {
    const auto bad = check(image, 8);
    BOOST_REQUIRE(!bad);
    BOOST_TEST_REQUIRE(contains(bad.error().message, "'b' (F16) is corrupt: row 9000, column 3"),
                       bad.error().message);
  }
}

BOOST_AUTO_TEST_CASE(it_runs_beside_its_owner_and_stops_when_told) {
  auto writer = make_tiny_writer({});
  const bytes sound = writer.build();
  const auto file = engine::gguf_file::parse(sound, "tiny").value();
  gpu::weight_check good(file.tensors(), 2);
  BOOST_TEST(good.finish().has_value());
  BOOST_TEST(!good.failed());

  const float infinite = std::numeric_limits<float>::infinity();
  std::memcpy(writer.find_tensor("output_norm.weight")->data.data(), &infinite, sizeof infinite);
  const bytes broken = writer.build();
  const auto other = engine::gguf_file::parse(broken, "tiny").value();
  gpu::weight_check bad(other.tensors(), 2);
  wait_until([&] { return bad.done_within(std::chrono::milliseconds(50)); });
  BOOST_TEST(bad.failed());
  BOOST_TEST(!bad.finish().has_value());

  const std::atomic<bool> stopped{true};
  BOOST_TEST(gpu::check_weights(other.tensors(), 2, stopped).has_value());
  const gpu::weight_check left_alone(other.tensors(), 2);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
