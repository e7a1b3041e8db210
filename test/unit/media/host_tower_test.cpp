// Towers, and texts behind media, against transformers (test/oracle/media_towers.py, media_qwen.py,
// media_sounds.py).
#include "gpu/host/host_tower.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "gpu/host/host_backend.hpp"
#include "test/unit/media/golden_media.hpp"

using namespace orcd;
using test::golden_media;
using test::relative_error;
namespace data = boost::unit_test::data;

namespace {

std::vector<float> encode(const golden_media& golden, const engine::prepared_medium& medium,
                          unsigned threads) {
  kernels::host::thread_pool pool(threads);
  gpu::host_tower tower(golden.tower, pool);
  const std::size_t width = golden.tower.spec.row_width();
  std::vector<float> out(golden.tower.spec.picture_rows_max() * medium.parts() * width, NAN);
  std::uint32_t rows = 0;
  tower.begin(medium, [&](std::uint32_t i) { return rows = i + 1, out.data() + i * width; });
  while (!tower.go_on()) {
  }
  out.resize(rows * width);
  return out;
}

/// The prompt of the golden, in chunks, with the rows of media at their places; the logits of a position.
std::vector<float> logits_at(const golden_media& golden, std::uint32_t position, std::uint32_t chunk) {
  auto device = gpu::make_host_backend({.threads = 1, .chunk_tokens = chunk});
  engine::accelerator_config config;
  config.context_tokens = 512;
  config.kv = {engine::kv_type::f32, engine::kv_type::f32};
  config.media = {&golden.tower, test::golden_sequence::blocks};
  BOOST_REQUIRE(device->load(golden.text, config, [](unsigned) {}));
  return test::golden_logits(*device, golden, position, chunk);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(host_towers)

BOOST_DATA_TEST_CASE(rows_are_those_of_transformers, data::make(test::golden_media_names()), name) {
  const golden_media golden(name);
  const auto expected = test::golden_floats(name + ".rows.f32");
  const std::size_t width = golden.tower.spec.row_width();
  std::size_t at = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto all = encode(golden, golden.medium(i), 1);
    BOOST_REQUIRE_EQUAL(all.size(), golden.rows(i) * width);
    const std::vector<float> ours = golden.kept_rows(all);
    const double error = relative_error(ours, std::span(expected).subspan(at, ours.size()));
    BOOST_TEST_MESSAGE(name << ": relative error " << error);
    BOOST_TEST(error < 1e-5, name << ": " << error);
    at += ours.size();
  }
}

BOOST_DATA_TEST_CASE(bits_do_not_depend_on_threads, data::make(test::golden_media_names()), name) {
  const golden_media golden(name);
  const auto medium = golden.medium(0);
  BOOST_TEST((encode(golden, medium, 1) == encode(golden, medium, 3)));
}

BOOST_AUTO_TEST_CASE(a_window_may_be_larger_than_any_view) {
  golden_media golden("qwen25");
  const auto picture = golden.medium(0);
  golden.tower.spec.window = 64;
  const auto whole = encode(golden, picture, 1);
  golden.tower.spec.window = 65'536;  // whose square is more than 32 bits hold
  BOOST_TEST((encode(golden, picture, 1) == whole));
}

BOOST_DATA_TEST_CASE(logits_behind_media_are_those_of_transformers, data::make(test::golden_media_names()),
                     name) {
  const golden_media golden(name);
  const auto expected = test::golden_floats(name + ".logits.f32");
  const std::uint32_t vocab = golden.text.spec.vocab;
  const auto& positions = golden.facts.at("positions").as_array();
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const auto position = positions[i].to_number<std::uint32_t>();
    if (test::sees_behind(golden, position)) continue;  // a step has all of them
    const auto whole = logits_at(golden, position, 64);
    const double error = relative_error(whole, std::span(expected).subspan(i * vocab, vocab));
    BOOST_TEST_MESSAGE(name << " at " << position << ": relative error " << error);
    BOOST_TEST(error < 1e-4, name << " at " << position << ": " << error);
    BOOST_TEST((whole == logits_at(golden, position, 5)), name << " at " << position << ", cut");
  }
}

BOOST_AUTO_TEST_SUITE_END()
