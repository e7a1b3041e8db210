#include "test/support/fake_accelerator.hpp"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "engine/base/ensure.hpp"

namespace orcd::test {

using engine::sequence_step;
using engine::slot_id;
using engine::token_id;

namespace {

std::string at_slot(const char* what, slot_id slot, std::uint64_t got, std::uint64_t limit) {
  return std::string(what) + " (slot " + std::to_string(static_cast<std::uint32_t>(slot)) + ": " +
         std::to_string(got) + ", expected " + std::to_string(limit) + ")";
}

void require(bool holds, const char* what, slot_id slot, std::uint64_t got, std::uint64_t limit) {
  if (!holds) throw contract_violation(at_slot(what, slot, got, limit));
}

}  // namespace

token_id hashed_token(std::span<const token_id> sequence, token_id first, std::uint32_t count) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const token_id token : sequence) {
    hash = (hash ^ static_cast<std::uint32_t>(token)) * 0x100000001b3ULL;
  }
  return first + static_cast<token_id>((hash >> 32U) % count);
}

fake_accelerator::fake_accelerator(fake_options options)
    : options_(std::move(options)), slots_(options_.slots), logits_(options_.vocab, 0.0F) {
  ORCD_ENSURE(options_.slots > 0 && options_.chunk_tokens > 0);
  if (!options_.next) {
    options_.next = [](std::span<const token_id> sequence) { return hashed_token(sequence); };
  }
}

engine::result<engine::memory_plan> fake_accelerator::load(const engine::model&,
                                                           const engine::accelerator_config&,
                                                           const std::function<void(unsigned)>& progress) {
  if (progress) progress(100);
  return engine::memory_plan{};
}

void fake_accelerator::launch(std::span<const sequence_step> sequences, const engine::interrupt_flag&) {
  if (launched_.size() >= options_.launch_depth) throw contract_violation("launched too far ahead");
  check(sequences);
  launched_.emplace_back();
  launched_.back().number = ++steps_;
  for (const auto& part : sequences) launched_.back().slots.emplace_back(part.slot, at(part.slot).releases);
  fail(launched_.back().number, false);
  for (const auto& part : sequences) compute(part, launched_.back());
}

bool fake_accelerator::collect(const engine::interrupt_flag& interrupt,
                               std::vector<engine::sampled_token>& sampled) {
  if (launched_.empty()) throw contract_violation("collected what was not launched");
  if (options_.during_step) options_.during_step();
  fail(launched_.front().number, true);
  if (!sleep_step(interrupt)) {
    drop_launched();
    return false;
  }
  const launched& step = launched_.front();
  sampled.insert(sampled.end(), step.sampled.begin(), step.sampled.end());
  records_.insert(records_.end(), step.records.begin(), step.records.end());
  launched_.pop_front();
  return true;
}

void fake_accelerator::release(slot_id slot) noexcept {
  ORCD_ENSURE(static_cast<std::uint32_t>(slot) < slots_.size());
  slot_state& state = at(slot);
  if (state.held) --held_;
  slot_state fresh;
  fresh.releases = state.releases + 1;
  state = std::move(fresh);
  ++releases_;
}

std::vector<token_id> fake_accelerator::expected(std::vector<token_id> prompt, std::uint32_t tokens) const {
  const std::size_t start = prompt.size();
  for (std::uint32_t i = 0; i < tokens; ++i) prompt.push_back(options_.next(prompt));
  return {prompt.begin() + static_cast<std::ptrdiff_t>(start), prompt.end()};
}

void fake_accelerator::check(std::span<const sequence_step> sequences) const {
  require(!sequences.empty(), "a step without sequences", slot_id{}, 0, 1);
  require(sequences.size() <= slots_.size(), "more sequences than slots", slot_id{}, sequences.size(),
          slots_.size());
  std::vector<bool> seen(slots_.size(), false);
  for (const auto& part : sequences) {
    const auto index = static_cast<std::uint32_t>(part.slot);
    require(index < slots_.size(), "slot out of range", part.slot, index, slots_.size());
    require(!seen[index], "slot twice in one step", part.slot, 2, 1);
    seen[index] = true;
    check_part(part);
  }
}

void fake_accelerator::check_part(const sequence_step& part) const {
  const slot_state& state = slots_[static_cast<std::uint32_t>(part.slot)];
  require(!state.spoiled, "step after an unfinished step without release", part.slot, part.position, 0);
  const bool in_vain = part.tokens.empty() && state.ended;
  require(in_vain || part.position == state.tokens.size(), "position is not the next one", part.slot,
          part.position, state.tokens.size());
  require(!part.tokens.empty() || state.last.has_value(), "no token to feed back", part.slot, 0, 1);
  require(!part.tokens.empty() || part.sample != nullptr, "fed back without a request", part.slot, 0, 1);
  require(part.tokens.size() <= options_.chunk_tokens, "chunk too long", part.slot, part.tokens.size(),
          options_.chunk_tokens);
  require(part.position + part.count() <= options_.context_tokens, "context overrun", part.slot,
          part.position + part.count(), options_.context_tokens);
  for (const token_id token : part.tokens) {
    require(token >= 0 && static_cast<std::uint32_t>(token) < options_.vocab, "token outside the vocabulary",
            part.slot, static_cast<std::uint32_t>(token), options_.vocab);
  }
  if (part.sample == nullptr) return;
  require(part.sample->params != nullptr, "sample request without parameters", part.slot, 0, 1);
  require(part.sample->draw >= 0.0 && part.sample->draw < 1.0, "draw outside [0, 1)", part.slot, 0, 0);
  require(part.sample->remaining > 0, "a token beyond the limit", part.slot, 0, 1);
}

void fake_accelerator::fail(std::uint64_t number, bool at_collect) {
  for (const auto& fault : options_.faults) {
    if (fault.step != number || fault.at_collect != at_collect) continue;
    drop_launched();
    throw engine::accelerator_failure(fault.code, "injected fault at step " + std::to_string(number));
  }
}

// A slot that was released since is its own again: nothing of the lost step is left in it.
void fake_accelerator::drop_launched() {
  for (const launched& step : launched_) {
    for (const auto& [slot, releases] : step.slots) {
      slot_state& state = at(slot);
      if (state.releases != releases) continue;
      if (!state.held) ++held_;
      state.held = true;
      state.spoiled = true;
    }
  }
  launched_.clear();
}

void fake_accelerator::compute(const sequence_step& part, launched& step) {
  slot_state& state = at(part.slot);
  fake_record seen{.step = step.number, .slot = part.slot, .position = part.position, .tokens = part.count()};
  seen.sampled = part.sample != nullptr;
  seen.draw = seen.sampled ? part.sample->draw : 0.0;
  seen.fed_back = part.tokens.empty();
  seen.in_vain = seen.fed_back && state.ended;
  if (recording_) step.records.push_back(seen);
  if (!state.held) ++held_;
  state.held = true;
  if (seen.in_vain) {
    step.sampled.push_back({part.slot, -1});
    return;
  }
  if (seen.fed_back) state.tokens.push_back(*state.last);
  state.tokens.insert(state.tokens.end(), part.tokens.begin(), part.tokens.end());
  state.ended = false;
  if (seen.sampled) step.sampled.push_back({part.slot, sample(state, *part.sample)});
}

token_id fake_accelerator::sample(slot_state& state, const engine::sample_request& request) const {
  const token_id token = options_.next(state.tokens);
  const auto& ends = options_.end_of_generation;
  const bool is_end = request.stop_at_end && std::find(ends.begin(), ends.end(), token) != ends.end();
  state.last = token;
  state.ended = token < 0 || is_end || request.remaining == 1;
  return token;
}

bool fake_accelerator::sleep_step(const engine::interrupt_flag& interrupt) const {
  const auto until = std::chrono::steady_clock::now() + options_.step_delay;
  while (!interrupt.load(std::memory_order_relaxed)) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left <= left.zero()) return true;
    std::this_thread::sleep_for(
        std::min<std::chrono::steady_clock::duration>(left, std::chrono::milliseconds(1)));
  }
  return false;
}

}  // namespace orcd::test
