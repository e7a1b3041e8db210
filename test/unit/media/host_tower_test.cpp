// Towers, and texts behind media, against transformers (test/oracle/media_towers.py, media_qwen.py,
// media_sounds.py).
#include "gpu/host/host_tower.hpp"

#include <boost/json.hpp>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>

#include "engine/base/kv_window.hpp"
#include "engine/media/log_mel.hpp"
#include "engine/media/prepare_picture.hpp"
#include "engine/media/tower.hpp"
#include "engine/schedule/sequence_media.hpp"
#include "gpu/host/host_backend.hpp"
#include "made_picture.hpp"
#include "made_sound.hpp"

using namespace orcd;
namespace data = boost::unit_test::data;
namespace json = boost::json;

namespace {

const std::vector<std::string> names{"gemma3",       "gemma3-mixed", "idefics3",      "idefics3-mixed",
                                     "qwen2",        "qwen25",       "qwen3",         "qwen3-mixed",
                                     "qwen35",       "voxtral",      "voxtral-mixed", "gemma4",
                                     "gemma4-mixed", "pixtral",      "mistral3"};

std::string read(const std::string& name) {
  std::ifstream file(ORCD_TEST_DATA "/media/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<float> floats(const std::string& name) {
  const std::string bytes = read(name);
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(float));
  return out;
}

/// The small models have windows that no usual picture fits into.
engine::model_spec with_wide_windows(engine::model_spec text) {
  constexpr std::uint32_t wide = 512;
  for (engine::layer_spec& layer : text.layers)
    if (layer.window > 0) layer.window = wide;
  return text;
}

struct golden_media {
  explicit golden_media(const std::string& name)
      : facts(json::parse(read(name + ".json")).as_object()),
        text_file(
            engine::gguf_file::open(ORCD_TEST_DATA "/" + std::string(facts.at("text").as_string())).value()),
        text(engine::load_model(text_file).value()),
        tower(engine::open_tower(ORCD_TEST_DATA "/media/" + name + ".gguf", with_wide_windows(text.spec))
                  .value()) {
    if (facts.contains("rows_max"))
      tower.spec.pictures.rows_max = facts.at("rows_max").to_number<std::uint32_t>();
  }

  [[nodiscard]] engine::prepared_medium medium(std::size_t index) const {
    if (tower.spec.sound) {
      const auto count = facts.at("samples").as_array()[index].to_number<std::size_t>();
      const auto samples = test::made_sound(count, facts.at("seed").to_number<std::uint32_t>());
      return {engine::log_mel(samples, tower.spec.sound->bins)};
    }
    const auto& size = facts.at("pictures").as_array()[index].as_array();
    return {engine::prepare_picture(
        test::made_picture(size[0].to_number<std::uint32_t>(), size[1].to_number<std::uint32_t>()),
        tower.spec.pictures, engine::picture_detail::automatic)};
  }
  /// One in so many rows is in the golden.
  [[nodiscard]] std::uint32_t kept() const {
    return facts.contains("kept") ? facts.at("kept").to_number<std::uint32_t>() : 1;
  }
  [[nodiscard]] std::uint32_t rows(std::size_t index) const {
    return facts.at("rows").as_array()[index].to_number<std::uint32_t>();
  }

  json::object facts;
  engine::gguf_file text_file;
  engine::model text;
  engine::tower tower;
};

double relative_error(std::span<const float> ours, std::span<const float> theirs) {
  BOOST_REQUIRE_EQUAL(ours.size(), theirs.size());
  double off = 0.0, size = 0.0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    off += std::pow(static_cast<double>(ours[i]) - theirs[i], 2);
    size += std::pow(static_cast<double>(theirs[i]), 2);
  }
  return std::sqrt(off / size);
}

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

/// The prompt of a golden as a job has it: media_token at the places of its pictures' rows.
struct golden_prompt {
  std::vector<engine::token_id> tokens;
  std::vector<engine::job_medium> media;
};

golden_prompt prompt_behind(const golden_media& golden) {
  golden_prompt out;
  const engine::tower_spec& spec = golden.tower.spec;
  for (const auto& token : golden.facts.at("tokens").as_array()) {
    const bool row = token.as_int64() < 0;
    const auto at = static_cast<std::uint32_t>(out.tokens.size());
    if (row && (at == 0 || out.tokens.back() != engine::media_token)) {
      engine::job_medium medium;
      medium.rows = golden.rows(out.media.size());
      medium.runs = {{at, medium.rows, 0}};
      medium.see_each_other = spec.rows_see_each_other;
      if (spec.rows_are_grid) {
        const auto& grid = golden.facts.at("grids").as_array()[out.media.size()].as_array();
        medium.columns = grid[1].to_number<std::uint32_t>();
      }
      out.media.push_back(medium);
    }
    out.tokens.push_back(row ? engine::media_token : static_cast<engine::token_id>(token.as_int64()));
  }
  return out;
}

/// The prompt of the golden, in chunks, with the rows of media at their places; the logits of a position.
std::vector<float> logits_at(const golden_media& golden, std::uint32_t position, std::uint32_t chunk) {
  auto device = gpu::make_host_backend({.threads = 1, .chunk_tokens = chunk});
  engine::accelerator_config config;
  config.context_tokens = 512;
  config.kv = {engine::kv_type::f32, engine::kv_type::f32};
  config.media = {&golden.tower, 8};
  BOOST_REQUIRE(device->load(golden.text, config, [](unsigned) {}));
  const std::vector<std::uint32_t> blocks{3, 1, 7, 0, 2, 4};
  const golden_prompt prompt = prompt_behind(golden);
  engine::sequence_media media;
  media.set(prompt.media);
  std::vector<engine::media_rows> parts;
  for (const engine::job_medium& medium : prompt.media) {
    const std::span own =
        std::span(blocks).subspan(parts.size(), engine::pages_over(medium.rows, engine::media_block_rows));
    const auto content = golden.medium(parts.size());
    device->begin_medium(content, own);
    while (!device->continue_medium()) {
    }
    parts.push_back({medium.runs[0].position, medium.rows, 0, own, medium.see_each_other, medium.columns});
  }
  const bool see = golden.tower.spec.rows_see_each_other;
  const engine::sampling_params greedy{.temperature = 0.0F};
  const engine::sample_request ask{.params = &greedy};
  const engine::interrupt_flag interrupt{false};
  std::vector<engine::sampled_token> sampled;
  for (std::uint32_t at = 0; at <= position;) {
    std::uint32_t count = std::min(chunk, position + 1 - at);
    // Rows that see each other are never cut.
    for (const engine::media_rows& part : parts) {
      if (see && at < part.position && at + count > part.position) count = part.position - at;
      if (see && at == part.position) count = part.count;
    }
    std::vector<engine::media_rows> own;
    for (const engine::media_rows& part : parts)
      if (part.position < at + count && part.position + part.count > at) own.push_back(part);
    const bool last = at + count == position + 1;
    const engine::sequence_step step{engine::slot_id{0},
                                     at,
                                     std::span(prompt.tokens).subspan(at, count),
                                     last ? &ask : nullptr,
                                     nullptr,
                                     1,
                                     {},
                                     own,
                                     media.rotary_shift(at)};
    BOOST_REQUIRE(device->step({&step, 1}, interrupt, sampled));
    at += count;
  }
  const auto logits = device->logits(engine::slot_id{0});
  return {logits.begin(), logits.end()};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(host_towers)

BOOST_DATA_TEST_CASE(rows_are_those_of_transformers, data::make(names), name) {
  const golden_media golden(name);
  const auto expected = floats(name + ".rows.f32");
  const std::size_t width = golden.tower.spec.row_width();
  std::size_t at = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto all = encode(golden, golden.medium(i), 1);
    BOOST_REQUIRE_EQUAL(all.size(), golden.rows(i) * width);
    std::vector<float> ours;
    for (std::size_t row = 0; row < golden.rows(i); row += golden.kept())
      ours.insert(ours.end(), all.begin() + static_cast<std::ptrdiff_t>(row * width),
                  all.begin() + static_cast<std::ptrdiff_t>((row + 1) * width));
    const double error = relative_error(ours, std::span(expected).subspan(at, ours.size()));
    BOOST_TEST_MESSAGE(name << ": relative error " << error);
    BOOST_TEST(error < 1e-5, name << ": " << error);
    at += ours.size();
  }
}

BOOST_DATA_TEST_CASE(bits_do_not_depend_on_threads, data::make(names), name) {
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

BOOST_DATA_TEST_CASE(logits_behind_media_are_those_of_transformers, data::make(names), name) {
  const golden_media golden(name);
  const auto expected = floats(name + ".logits.f32");
  const std::uint32_t vocab = golden.text.spec.vocab;
  const auto& positions = golden.facts.at("positions").as_array();
  const auto media = prompt_behind(golden).media;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const auto position = positions[i].to_number<std::uint32_t>();
    const bool within = std::any_of(media.begin(), media.end(), [position](const engine::job_medium& one) {
      const engine::media_run& run = one.runs.front();
      return position >= run.position && position + 1 < run.position + run.count;
    });
    if (golden.tower.spec.rows_see_each_other && within) continue;  // a step has all of them
    const auto whole = logits_at(golden, position, 64);
    const double error = relative_error(whole, std::span(expected).subspan(i * vocab, vocab));
    BOOST_TEST_MESSAGE(name << " at " << position << ": relative error " << error);
    BOOST_TEST(error < 1e-4, name << " at " << position << ": " << error);
    BOOST_TEST((whole == logits_at(golden, position, 5)), name << " at " << position << ", cut");
  }
}

BOOST_AUTO_TEST_SUITE_END()
