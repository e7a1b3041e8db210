// A backend with room for LoRA adapters over a model made in memory, whose sequences run together or alone.
// For the tests of every backend.
#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/gguf/gguf_file.hpp"
#include "engine/model/model_spec.hpp"
#include "test/unit/gpu/tiny_adapter.hpp"

namespace orcd::test {

using logits_list = std::vector<std::vector<float>>;

/// A sequence of a rig: it prefills in chunks and then decodes greedily, a step at a time.
struct run_of_one {
  std::vector<engine::token_id> pending;
  std::vector<engine::active_adapter> adapters;
  std::uint32_t chunk = 16;
  std::uint32_t position = 0;
  logits_list logits = {};
  std::vector<engine::token_id> tokens = {};  ///< sampled
  std::vector<engine::token_id> given = {};   ///< fed in place of what is sampled, as far as there are some
};

/// Without `room`: for six adapters of rank 8.
class adapter_rig {
 public:
  static constexpr std::uint32_t context = 256;  // a page
  static constexpr std::uint32_t prompt_tokens = 19;
  static constexpr std::uint32_t decoded = 3;

  adapter_rig(bytes image, std::unique_ptr<engine::accelerator> device, std::uint32_t slots = 5,
              engine::adapter_room room = {6, 8}, std::uint32_t positions = context, std::uint32_t drafts = 0)
      : pages_((positions + engine::kv_page_positions - 1) / engine::kv_page_positions),
        image_(std::move(image)),
        file_(engine::gguf_file::parse(image_, "tiny").value()),
        model_(engine::load_model(file_).value()),
        device_(std::move(device)) {
    engine::accelerator_config config{.slots = slots, .context_tokens = positions, .banned_tokens = {}};
    config.adapters = room;
    config.draft_tokens = drafts;
    plan = device_->load(model_, config, [](unsigned) {}).value();
  }

  [[nodiscard]] const engine::model& model() const { return model_; }
  [[nodiscard]] engine::accelerator& device() { return *device_; }

  [[nodiscard]] std::vector<engine::token_id> prompt(std::uint32_t seed,
                                                     std::uint32_t count = prompt_tokens) const {
    std::vector<engine::token_id> out;
    for (std::uint32_t i = 0; i < count; ++i) {
      out.push_back(static_cast<engine::token_id>((seed * 7919U + i * 104'729U + i * i) % model_.spec.vocab));
    }
    return out;
  }

  void put(std::uint32_t index, const tiny_adapter_options& options) {
    const auto done = device_->put_adapter(index, make_tiny_adapter(model_, options));
    BOOST_TEST_REQUIRE(done.has_value(), done.error().message);
  }
  /// Four, one of them of part of the matrices.
  void put_four() {
    using engine::lora_target;
    put(0, {.rank = 8, .seed = 1, .size = 0.5F});
    put(1, {.rank = 1, .seed = 2, .size = 0.5F});
    put(3, {.rank = 5, .seed = 3, .size = 0.5F, .wanted = [](lora_target target) {
              return target == lora_target::attn_v || target == lora_target::attn_qkv ||
                     target == lora_target::ffn_down;
            }});
    put(5, {.rank = 4, .seed = 4, .size = 0.5F});
  }

  /// Of the four: one alone, several in an order, none, some that others have too, and one with another
  /// strength.
  [[nodiscard]] std::vector<run_of_one> five_runs() const {
    return {{prompt(1), {{0, 1.0F}}, 16},
            {prompt(1), {{1, 0.5F}, {0, 1.0F}, {5, -2.0F}}, 3},
            {prompt(2), {}, 7},
            {prompt(3), {{0, 1.0F}, {3, 1.0F}}, 16},
            {prompt(1), {{0, 0.5F}, {5, 1.0F}, {1, 0.5F}}, 5}};
  }

  void begin(std::uint32_t slot, const run_of_one& run) {
    std::vector<engine::kv_page> pages;
    for (std::uint32_t i = 0; i < pages_; ++i)
      pages.push_back(static_cast<engine::kv_page>(slot * pages_ + i));
    const std::vector<engine::group_pages> further(device_->kv_pages().group_count);
    device_->begin({engine::slot_id{slot}, pages, {}, {}, run.adapters, further});
  }

  /// Runs sequence i in slot i, all in the same steps, until each has its tokens.
  void run(std::vector<run_of_one>& runs) {
    for (std::uint32_t i = 0; i < runs.size(); ++i) begin(i, runs[i]);
    while (step(runs)) {
    }
    for (std::uint32_t i = 0; i < runs.size(); ++i) device_->release(engine::slot_id{i});
  }

  /// One step of those that lack tokens; whether there was one.
  bool step(std::vector<run_of_one>& runs) {
    std::vector<engine::sequence_step> parts;
    std::vector<std::size_t> which;
    for (std::uint32_t i = 0; i < runs.size(); ++i) {
      const std::size_t count = std::min<std::size_t>(runs[i].chunk, runs[i].pending.size());
      if (runs[i].logits.size() > decoded) continue;
      const bool last = count == runs[i].pending.size();
      parts.push_back({engine::slot_id{i}, runs[i].position, std::span(runs[i].pending).first(count),
                       last ? &request_ : nullptr});
      which.push_back(i);
    }
    if (parts.empty()) return false;
    std::vector<engine::sampled_token> sampled;
    BOOST_REQUIRE(device_->step(parts, never_, sampled));
    auto next = sampled.begin();
    for (std::size_t k = 0; k < parts.size(); ++k) {
      run_of_one& one = runs[which[k]];
      one.position += parts[k].count();
      one.pending.erase(one.pending.begin(), one.pending.begin() + parts[k].count());
      if (parts[k].sample == nullptr) continue;
      const auto row = device_->logits(parts[k].slot);
      one.logits.emplace_back(row.begin(), row.end());
      one.tokens.push_back((next++)->token);
      const std::size_t n = one.tokens.size() - 1;
      one.pending = {n < one.given.size() ? one.given[n] : one.tokens[n]};
    }
    return true;
  }

  /// Prefills the prompts, then feeds each the first `decoded` of its given tokens in a row, all in one step.
  /// Leaves what that sampled behind each and the logits behind the last.
  void run_in_a_row(std::vector<run_of_one>& runs) {
    const std::vector<engine::sample_request> requests(decoded, request_);
    std::vector<engine::sequence_step> rows;
    for (std::uint32_t i = 0; i < runs.size(); ++i) {
      begin(i, runs[i]);
      const auto count = static_cast<std::uint32_t>(runs[i].pending.size());
      std::vector<engine::sampled_token> none;
      const engine::sequence_step prompt{engine::slot_id{i}, 0, runs[i].pending};
      BOOST_REQUIRE(device_->step({&prompt, 1}, never_, none));
      rows.push_back({engine::slot_id{i}, count, std::span(runs[i].given).first(decoded), requests.data()});
      rows.back().samples = decoded;
    }
    std::vector<engine::sampled_token> sampled;
    BOOST_REQUIRE(device_->step(rows, never_, sampled));
    BOOST_REQUIRE(sampled.size() == runs.size() * decoded);
    for (std::uint32_t i = 0; i < runs.size(); ++i) {
      for (std::uint32_t k = 0; k < decoded; ++k) runs[i].tokens.push_back(sampled[i * decoded + k].token);
      const auto row = device_->logits(engine::slot_id{i});
      runs[i].logits.emplace_back(row.begin(), row.end());
      device_->release(engine::slot_id{i});
    }
  }

  run_of_one run_alone(run_of_one one) {
    std::vector<run_of_one> runs{std::move(one)};
    run(runs);
    return std::move(runs.front());
  }
  logits_list alone(std::vector<engine::token_id> prompt, std::vector<engine::active_adapter> adapters,
                    std::uint32_t chunk = 16) {
    return run_alone({std::move(prompt), std::move(adapters), chunk}).logits;
  }

  engine::memory_plan plan;

 private:
  std::uint32_t pages_;  ///< of a slot
  bytes image_;
  engine::gguf_file file_;
  engine::model model_;
  std::unique_ptr<engine::accelerator> device_;
  const engine::interrupt_flag never_{false};
  const engine::sampling_params greedy_{.temperature = 0.0F};
  const engine::sample_request request_{.params = &greedy_, .draw = 0.0};
};

/// Of the norms of the difference and of `b`.
inline double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / norm);
}

}  // namespace orcd::test
