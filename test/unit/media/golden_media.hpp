// Small projectors with what transformers makes of some media, and the prompts behind which their texts go on
// (test/oracle/media_towers.py, media_qwen.py, media_sounds.py): what tests of both backends share.
#pragma once

#include <algorithm>
#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/base/kv_window.hpp"
#include "engine/media/log_mel.hpp"
#include "engine/media/prepare_picture.hpp"
#include "engine/media/tower.hpp"
#include "engine/schedule/sequence_media.hpp"
#include "test/unit/media/made_picture.hpp"
#include "test/unit/media/made_sound.hpp"

namespace orcd::test {

inline const std::vector<std::string>& golden_media_names() {
  static const std::vector<std::string> names{
      "gemma3",        "gemma3-mixed", "idefics3",     "idefics3-mixed", "qwen2",
      "qwen25",        "qwen3",        "qwen3-mixed",  "qwen35",         "voxtral",
      "voxtral-mixed", "gemma4",       "gemma4-mixed", "pixtral",        "mistral3"};
  return names;
}

inline std::string read_golden(const std::string& name) {
  std::ifstream file(ORCD_TEST_DATA "/media/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<float> golden_floats(const std::string& name) {
  const std::string bytes = read_golden(name);
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(float));
  return out;
}

/// The small models have windows that no usual picture fits into.
inline engine::model_spec with_wide_windows(engine::model_spec text) {
  constexpr std::uint32_t wide = 512;
  for (engine::layer_spec& layer : text.layers)
    if (layer.window > 0) layer.window = wide;
  return text;
}

struct golden_media {
  explicit golden_media(const std::string& name)
      : facts(boost::json::parse(read_golden(name + ".json")).as_object()),
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
      const auto samples = made_sound(count, facts.at("seed").to_number<std::uint32_t>());
      return {engine::log_mel(samples, tower.spec.sound->bins)};
    }
    const auto& size = facts.at("pictures").as_array()[index].as_array();
    return {engine::prepare_picture(
        made_picture(size[0].to_number<std::uint32_t>(), size[1].to_number<std::uint32_t>()),
        tower.spec.pictures, engine::picture_detail::automatic)};
  }
  /// One in so many rows is in the golden.
  [[nodiscard]] std::uint32_t kept() const {
    return facts.contains("kept") ? facts.at("kept").to_number<std::uint32_t>() : 1;
  }
  [[nodiscard]] std::uint32_t rows(std::size_t index) const {
    return facts.at("rows").as_array()[index].to_number<std::uint32_t>();
  }
  /// Of [rows][row_width], those that the golden has.
  [[nodiscard]] std::vector<float> kept_rows(std::span<const float> all) const {
    const std::size_t width = tower.spec.row_width();
    std::vector<float> out;
    for (std::size_t at = 0; at < all.size(); at += kept() * width)
      out.insert(out.end(), all.begin() + static_cast<std::ptrdiff_t>(at),
                 all.begin() + static_cast<std::ptrdiff_t>(at + width));
    return out;
  }

  boost::json::object facts;
  engine::gguf_file text_file;
  engine::model text;
  engine::tower tower;
};

inline double relative_error(std::span<const float> ours, std::span<const float> theirs) {
  BOOST_REQUIRE_EQUAL(ours.size(), theirs.size());
  double off = 0.0, size = 0.0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    off += std::pow(static_cast<double>(ours[i]) - theirs[i], 2);
    size += std::pow(static_cast<double>(theirs[i]), 2);
  }
  return std::sqrt(off / size);
}

/// The prompt of a golden as a job has it: media_token at the places of its pictures' rows.
struct golden_prompt {
  std::vector<engine::token_id> tokens;
  std::vector<engine::job_medium> media;
};

inline golden_prompt prompt_behind(const golden_media& golden) {
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

/// Whether a position's token sees rows behind it, with which it is always in one step.
inline bool sees_behind(const golden_media& golden, std::uint32_t position) {
  const auto media = prompt_behind(golden).media;
  return golden.tower.spec.rows_see_each_other &&
         std::any_of(media.begin(), media.end(), [position](const engine::job_medium& one) {
           const engine::media_run& run = one.runs.front();
           return position >= run.position && position + 1 < run.position + run.count;
         });
}

/// The golden's prompt on its way through a slot.
class golden_sequence {
 public:
  /// Its media lie in blocks from `first_block` on, in no order.
  golden_sequence(const golden_media& golden, std::uint32_t slot, std::uint32_t first_block)
      : golden_(golden), slot_(slot), prompt_(prompt_behind(golden)), blocks_{3, 1, 7, 0, 2, 4} {
    for (std::uint32_t& block : blocks_) block += first_block;
    media_.set(prompt_.media);
    for (const engine::job_medium& medium : prompt_.media) {
      const std::span own = std::span(blocks_).subspan(
          parts_.size(), engine::pages_over(medium.rows, engine::media_block_rows));
      parts_.push_back({medium.runs[0].position, medium.rows, 0, own, medium.see_each_other, medium.columns});
    }
  }
  static constexpr std::uint32_t blocks = 8;  ///< that it may use

  void encode(engine::accelerator& device) const {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const auto content = golden_.medium(i);
      device.begin_medium(content, parts_[i].blocks);
      while (!device.continue_medium()) {
      }
    }
  }
  [[nodiscard]] std::uint32_t position() const noexcept { return at_; }
  /// The next step, of `chunk` tokens at most, that ends behind `last`, whose logits it has then.
  [[nodiscard]] engine::sequence_step next(std::uint32_t last, std::uint32_t chunk) {
    const bool see = golden_.tower.spec.rows_see_each_other;
    std::uint32_t count = std::min(chunk, last + 1 - at_);
    // Rows that see each other are never cut.
    for (const engine::media_rows& part : parts_) {
      if (see && at_ < part.position && at_ + count > part.position) count = part.position - at_;
      if (see && at_ == part.position) count = part.count;
    }
    own_.clear();
    for (const engine::media_rows& part : parts_)
      if (part.position < at_ + count && part.position + part.count > at_) own_.push_back(part);
    const bool ends = at_ + count == last + 1;
    engine::sequence_step step{engine::slot_id{slot_},
                               at_,
                               std::span(prompt_.tokens).subspan(at_, count),
                               ends ? &ask_ : nullptr,
                               nullptr,
                               1,
                               {},
                               own_,
                               media_.rotary_shift(at_)};
    at_ += count;
    return step;
  }

 private:
  const golden_media& golden_;
  std::uint32_t slot_;
  golden_prompt prompt_;
  std::vector<std::uint32_t> blocks_;
  engine::sequence_media media_;
  std::vector<engine::media_rows> parts_, own_;
  engine::sampling_params greedy_{.temperature = 0.0F};
  engine::sample_request ask_{.params = &greedy_};
  std::uint32_t at_ = 0;
};

/// The logits behind a position, of a prompt that goes through `device` by itself.
inline std::vector<float> golden_logits(engine::accelerator& device, const golden_media& golden,
                                        std::uint32_t position, std::uint32_t chunk, std::uint32_t slot = 0) {
  golden_sequence sequence(golden, slot, 0);
  sequence.encode(device);
  const engine::interrupt_flag interrupt{false};
  std::vector<engine::sampled_token> sampled;
  while (sequence.position() <= position) {
    const engine::sequence_step step = sequence.next(position, chunk);
    BOOST_REQUIRE(device.step({&step, 1}, interrupt, sampled));
  }
  const auto logits = device.logits(engine::slot_id{slot});
  return {logits.begin(), logits.end()};
}

}  // namespace orcd::test
