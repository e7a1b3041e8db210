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

bool fake_accelerator::step(std::span<const sequence_step> sequences, const engine::interrupt_flag& interrupt,
                            std::vector<engine::sampled_token>& sampled) {
  check(sequences);
  const std::uint64_t number = ++steps_;
  if (options_.during_step) options_.during_step(sequences);
  for (const auto& fault : options_.faults) {
    if (fault.step != number) continue;
    spoil(sequences);
    throw engine::accelerator_failure(fault.code, "injected fault at step " + std::to_string(number));
  }
  if (!sleep_step(interrupt)) {
    spoil(sequences);
    return false;
  }
  for (const auto& part : sequences) {
    append(part);
    if (recording_) note(number, part);
    if (part.sample != nullptr) sampled.push_back({part.slot, options_.next(at(part.slot).tokens)});
  }
  return true;
}

void fake_accelerator::release(slot_id slot) noexcept {
  ORCD_ENSURE(static_cast<std::uint32_t>(slot) < slots_.size());
  slot_state& state = at(slot);
  if (state.held) --held_;
  state = slot_state{};
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
    const slot_state& state = slots_[index];
    require(!state.spoiled, "step after an unfinished step without release", part.slot, part.position, 0);
    require(part.position == state.tokens.size(), "position is not the next one", part.slot, part.position,
            state.tokens.size());
    require(!part.tokens.empty(), "no tokens", part.slot, 0, 1);
    require(part.tokens.size() <= options_.chunk_tokens, "chunk too long", part.slot, part.tokens.size(),
            options_.chunk_tokens);
    require(part.position + part.tokens.size() <= options_.context_tokens, "context overrun", part.slot,
            part.position + part.tokens.size(), options_.context_tokens);
    for (const token_id token : part.tokens) {
      require(token >= 0 && static_cast<std::uint32_t>(token) < options_.vocab,
              "token outside the vocabulary", part.slot, static_cast<std::uint32_t>(token), options_.vocab);
    }
    if (part.sample == nullptr) continue;
    require(part.sample->params != nullptr, "sample request without parameters", part.slot, 0, 1);
    require(part.sample->draw >= 0.0 && part.sample->draw < 1.0, "draw outside [0, 1)", part.slot, 0, 0);
    require(part.sample->recent.size() <= part.sample->params->repeat_last_n, "look-back window too long",
            part.slot, part.sample->recent.size(), part.sample->params->repeat_last_n);
  }
}

void fake_accelerator::spoil(std::span<const sequence_step> sequences) {
  for (const auto& part : sequences) {
    slot_state& state = at(part.slot);
    if (!state.held) ++held_;
    state.held = true;
    state.spoiled = true;
  }
}

void fake_accelerator::append(const sequence_step& part) {
  slot_state& state = at(part.slot);
  if (!state.held) ++held_;
  state.held = true;
  state.tokens.insert(state.tokens.end(), part.tokens.begin(), part.tokens.end());
}

void fake_accelerator::note(std::uint64_t number, const sequence_step& part) {
  fake_record seen;
  seen.step = number;
  seen.slot = part.slot;
  seen.position = part.position;
  seen.tokens = static_cast<std::uint32_t>(part.tokens.size());
  if (part.sample != nullptr) {
    seen.sampled = true;
    seen.draw = part.sample->draw;
    seen.recent.assign(part.sample->recent.begin(), part.sample->recent.end());
  }
  records_.push_back(std::move(seen));
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
