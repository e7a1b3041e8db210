#include "test/support/fake_accelerator.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/base/ensure.hpp"
#include "engine/lora/adapter.hpp"
#include "test/support/fake_tokens.hpp"
#include "test/support/pause.hpp"

namespace orcd::test {

using engine::sequence_step;
using engine::slot_id;
using engine::token_id;

namespace {

std::string at_slot(const char* what, slot_id slot, std::uint64_t got, std::uint64_t limit) {
  return std::string(what) + " (slot " + std::to_string(static_cast<std::uint32_t>(slot)) + ": " +
         std::to_string(got) + ", expected " + std::to_string(limit) + ")";
}

bool is_clear(std::span<const std::uint64_t> page) {
  return std::all_of(page.begin(), page.end(), [](std::uint64_t value) { return value == 0; });
}

void accept(const std::string& wrong) {
  if (!wrong.empty()) throw contract_violation(wrong);
}

void require(bool holds, const char* what, slot_id slot, std::uint64_t got, std::uint64_t limit) {
  if (!holds) throw contract_violation(at_slot(what, slot, got, limit));
}

// The wanted token, or the next one by id that is allowed, round the vocabulary.
token_id allowed_from(token_id wanted, engine::token_mask mask, std::uint32_t vocab) {
  for (std::uint32_t i = 0; i < vocab; ++i) {
    const auto token = static_cast<token_id>((static_cast<std::uint32_t>(wanted) + i) % vocab);
    if (engine::allows(mask, token)) return token;
  }
  return -1;
}

}  // namespace

fake_accelerator::fake_accelerator(fake_options options)
    : options_(std::move(options)),
      slots_(options_.slots),
      windows_(options_.pages, options_.slots),
      states_(options_.pages),
      logits_(options_.vocab, 0.0F),
      adapters_(options_.adapters) {
  ORCD_ENSURE(options_.slots > 0 && options_.chunk_tokens > 0);
  kv_.assign(options_.pages.pages, std::vector<std::uint64_t>(options_.pages.page_positions, 0));
  loose_.assign(options_.pages.pages, std::vector<bool>(options_.pages.page_positions, false));
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

void fake_accelerator::begin(const engine::sequence_start& start) {
  check_start(start);
  slot_state& state = at(start.slot);
  if (++begun_ == options_.begin_out_of_memory) {
    if (!state.held) ++held_;
    state.held = true;
    launched_.clear();
    throw engine::accelerator_failure(engine::errc::vram_oom, "begin: out of memory");
  }
  for (std::uint32_t i = 0; start.copy && i < start.copy->positions; ++i)
    write(start.copy->to, i, page(start.copy->from)[i], steps_ + 1);
  if (!state.held) ++held_;
  state.held = true;
  state.tokens.assign(start.held.begin(), start.held.end());
  state.certain = state.tokens.size();
  state.pages.assign(start.pages.begin(), start.pages.end());
  fake_adapters applied;
  for (const engine::active_adapter& one : start.adapters) {
    require(one.index < adapters_.size() && !adapters_[one.index].empty(), "no such adapter", start.slot,
            one.index, adapters_.size());
    state.adapters.push_back(one.index);
    applied.emplace_back(adapters_[one.index], one.strength);
  }
  state.flavour = flavour_of(applied);
  const std::vector<std::uint64_t> hashes = hashes_of(state.tokens, state.flavour);
  const std::uint32_t size = options_.pages.page_positions;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    require(page(state.pages[i / size])[i % size] == hashes[i],
            "a page does not hold what it was said to hold", start.slot, i, hashes.size());
  }
  accept(windows_.begin(start, hashes));
  accept(states_.begin(start, hashes));
}

void fake_accelerator::extend(slot_id slot, std::uint32_t group, std::uint32_t have,
                              std::span<const engine::kv_page> pages) {
  slot_state& state = at(slot);
  require(state.held && !state.spoiled, "extended a slot that has to be begun", slot, 0, 1);
  require(!pages.empty() && (group > 0 || have == state.pages.size()), "pages that do not follow the others",
          slot, have, state.pages.size());
  if (++extended_ == options_.extend_out_of_memory) {
    launched_.clear();
    throw engine::accelerator_failure(engine::errc::vram_oom, "extend: out of memory");
  }
  if (group > 0) return accept(windows_.extend(slot, group, have, pages));
  for (const engine::kv_page id : pages) {
    const bool known = std::find(state.pages.begin(), state.pages.end(), id) != state.pages.end();
    require(!known, "the same page twice", slot, static_cast<std::uint64_t>(id), 0);
    require(is_clear(page(id)), "a further page that is not clear", slot, static_cast<std::uint64_t>(id), 0);
    state.pages.push_back(id);
  }
}

bool fake_accelerator::is_used(std::uint32_t adapter) const noexcept {
  return std::any_of(slots_.begin(), slots_.end(), [&](const slot_state& state) {
    return std::find(state.adapters.begin(), state.adapters.end(), adapter) != state.adapters.end();
  });
}

engine::result<void> fake_accelerator::put_adapter(std::uint32_t index, const engine::lora_adapter& adapter) {
  if (index >= adapters_.size()) return engine::error(engine::errc::model_load_failed, "no room");
  if (is_used(index)) throw contract_violation("an adapter is put over one that is in use");
  if (++puts_ == options_.put_out_of_memory) {
    throw engine::accelerator_failure(engine::errc::vram_oom, "put: out of memory");
  }
  adapters_[index] = adapter.digest;
  return {};
}

engine::result<void> fake_accelerator::begin_adapter(std::uint32_t index,
                                                     const engine::lora_adapter& adapter) {
  if (auto put = put_adapter(index, adapter); !put) return put;
  adapters_[index].clear();
  put_ = {index, options_.adapter_parts, &adapter};
  return {};
}

bool fake_accelerator::continue_adapter() {
  if (put_.adapter == nullptr) throw contract_violation("no adapter to go on with");
  if (--put_.parts > 0) return false;
  adapters_[put_.index] = put_.adapter->digest;
  put_ = {};
  return true;
}

void fake_accelerator::drop_adapter(std::uint32_t index) noexcept {
  ORCD_ENSURE(index < adapters_.size() && !is_used(index));
  adapters_[index].clear();
}

token_id fake_accelerator::next_of(std::span<const token_id> tokens, std::uint64_t flavour) const {
  const token_id token = options_.next(tokens);
  if (flavour == 0) return token;
  // Another token than without, among those of hashed_token().
  return 10 +
         static_cast<token_id>((static_cast<std::uint64_t>(token) - 10 + 1 + (flavour >> 32U) % 89) % 90);
}

void fake_accelerator::check_start(const engine::sequence_start& start) const {
  const auto index = static_cast<std::uint32_t>(start.slot);
  require(options_.pages.pages > 0, "begin without pages", start.slot, 0, 1);
  require(index < slots_.size(), "slot out of range", start.slot, index, slots_.size());
  require(!slots_[index].held, "begin in a slot that was not released", start.slot, 1, 0);
  const std::uint32_t size = options_.pages.page_positions;
  require(start.held.size() <= start.pages.size() * size, "more tokens than pages", start.slot,
          start.held.size(), start.pages.size() * size);
  std::vector<bool> seen(kv_.size(), false);
  for (const engine::kv_page id : start.pages) {
    const auto page = static_cast<std::size_t>(id);
    require(id >= 0 && page < kv_.size() && !seen[page], "not a page, or twice", start.slot, page,
            kv_.size());
    seen[page] = true;
  }
  if (!start.copy) return;
  require(start.copy->positions > 0 && start.copy->positions < size, "a copy of no or a whole page",
          start.slot, start.copy->positions, size);
  // The first page that the sequence writes, which nobody has written to since it was cleared.
  const auto& to = kv_.at(static_cast<std::size_t>(start.copy->to));
  require(start.copy->to == start.pages[start.held.size() / size], "a copy to another page", start.slot, 0,
          1);
  require(is_clear(to), "a copy to a page in use", start.slot, 1, 0);
}

void fake_accelerator::clear(std::uint32_t group, std::span<const engine::kv_page> pages) noexcept {
  if (states_.any() && group == options_.pages.group_count) return states_.clear(pages);
  if (group > 0) return windows_.clear(group, pages);
  for (const engine::kv_page id : pages) {
    ORCD_ENSURE(id >= 0 && static_cast<std::size_t>(id) < kv_.size());
    for (const slot_state& state : slots_) {
      ORCD_ENSURE(std::find(state.pages.begin(), state.pages.end(), id) == state.pages.end());
    }
    for (std::uint32_t i = 0; i < options_.pages.page_positions; ++i) write(id, i, 0, steps_ + 1);
    loose_[static_cast<std::size_t>(id)].assign(options_.pages.page_positions, false);
  }
}

std::vector<engine::kv_page> fake_accelerator::written_pages() const {
  std::vector<engine::kv_page> out;
  for (std::size_t i = 0; i < kv_.size(); ++i)
    if (!is_clear(kv_[i])) out.push_back(static_cast<engine::kv_page>(i));
  return out;
}

/// A position of a page is written once, or again with the same: by the sequence that had to go back. What a
/// wrong draft has written may be replaced.
void fake_accelerator::store(slot_state& state, slot_id slot, std::size_t from, std::uint64_t step) {
  const std::uint32_t size = options_.pages.page_positions;
  if (size == 0) return;
  const std::vector<std::uint64_t> hashes = hashes_of(state.tokens, state.flavour);
  accept(windows_.compute(slot, hashes, from, state.certain));
  require(state.tokens.size() <= state.pages.size() * size, "a position without a page", slot,
          state.tokens.size(), state.pages.size() * size);
  for (std::size_t i = from; i < hashes.size(); ++i) {
    const std::uint64_t hash = hashes[i];
    const std::uint64_t kept = page(state.pages[i / size])[i % size];
    std::vector<bool>::reference loose = loose_[static_cast<std::size_t>(state.pages[i / size])][i % size];
    // A wrong draft may come where a lost step had the right one; whoever goes on from there would notice.
    const bool wrong = i >= state.certain;
    require(kept == 0 || kept == hash || loose || wrong, "a page holds something else", slot, i, from);
    loose = wrong;
    write(state.pages[i / size], i % size, hash, step);
  }
}

void fake_accelerator::write(engine::kv_page id, std::size_t position, std::uint64_t value,
                             std::uint64_t done_with) {
  std::uint64_t& kept = page(id)[position];
  if (options_.can_die) pending_.push_back({id, position, kept, value, done_with});
  kept = value;
}

void fake_accelerator::die() {
  ORCD_ENSURE(options_.can_die);
  for (auto one = pending_.rbegin(); one != pending_.rend(); ++one)
    page(one->page)[one->position] = one->before;
  late_.insert(late_.end(), pending_.begin(), pending_.end());
  pending_.clear();
  launched_.clear();
  slots_.assign(slots_.size(), {});
  held_ = 0;
}

void fake_accelerator::end_late_writes() {
  for (const pending_write& one : late_) page(one.page)[one.position] = one.after;
  late_.clear();
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
  std::erase_if(pending_, [&](const pending_write& one) { return one.done_with <= step.number; });
  sampled.insert(sampled.end(), step.sampled.begin(), step.sampled.end());
  records_.insert(records_.end(), step.records.begin(), step.records.end());
  launched_.pop_front();
  return true;
}

/// As far back as a device might.
bool fake_accelerator::keep_state(slot_id slot, const engine::state_copy& what) noexcept {
  constexpr std::size_t back = 12;
  const slot_state& state = at(slot);
  const std::size_t has = state.tokens.size();
  ORCD_ENSURE(states_.any() && state.held && what.position > 0);
  if (state.spoiled || what.position > state.certain || what.position + back < has) return false;
  states_.save(what, hashes_of(state.tokens, state.flavour));
  return true;
}

void fake_accelerator::release(slot_id slot) noexcept {
  ORCD_ENSURE(static_cast<std::uint32_t>(slot) < slots_.size());
  slot_state& state = at(slot);
  if (state.held) --held_;
  windows_.release(slot);
  slot_state fresh;
  fresh.releases = state.releases + 1;
  state = std::move(fresh);
  ++releases_;
}

std::vector<token_id> fake_accelerator::expected(std::vector<token_id> prompt, std::uint32_t tokens,
                                                 const fake_adapters& adapters) const {
  const std::size_t start = prompt.size();
  for (std::uint32_t i = 0; i < tokens; ++i) prompt.push_back(next_of(prompt, flavour_of(adapters)));
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
  std::size_t drafts = 0;
  for (const auto& part : sequences) drafts += part.drafts();
  require(drafts <= options_.draft_tokens, "too many drafts in a step", slot_id{}, drafts,
          options_.draft_tokens);
  // Of all prompts together: whoever decodes beside them waits for no more than for one chunk.
  std::size_t prompts = 0;
  for (const auto& part : sequences) {
    const bool decodes = part.sample != nullptr && part.count() == part.samples;
    prompts += decodes ? 0 : part.tokens.size();
  }
  require(prompts <= options_.chunk_tokens, "too many tokens of prompts in a step", slot_id{}, prompts,
          options_.chunk_tokens);
}

void fake_accelerator::check_part(const sequence_step& part) const {
  const slot_state& state = slots_[static_cast<std::uint32_t>(part.slot)];
  require(!state.spoiled, "step after an unfinished step without release", part.slot, part.position, 0);
  const bool in_vain = part.tokens.empty() && state.ended;
  require(in_vain || part.position == state.certain, "position is not the next one", part.slot, part.position,
          state.certain);
  require(!part.tokens.empty() || state.last.has_value(), "no token to feed back", part.slot, 0, 1);
  require(!part.tokens.empty() || part.sample != nullptr, "fed back without a request", part.slot, 0, 1);
  if (part.pool != nullptr) {
    require(part.sample == nullptr, "a pooled sequence that samples", part.slot, 1, 0);
    require(part.position + part.count() <= part.pool->tokens, "more tokens than to pool", part.slot,
            part.position + part.count(), part.pool->tokens);
  }
  require(part.tokens.size() <= options_.chunk_tokens, "chunk too long", part.slot, part.tokens.size(),
          options_.chunk_tokens);
  require(part.position + part.count() <= options_.context_tokens, "context overrun", part.slot,
          part.position + part.count(), options_.context_tokens);
  for (const token_id token : part.tokens) {
    require(token >= 0 && static_cast<std::uint32_t>(token) < options_.vocab, "token outside the vocabulary",
            part.slot, static_cast<std::uint32_t>(token), options_.vocab);
  }
  if (part.sample == nullptr) return;
  require(part.sample->allowed.empty() || !part.tokens.empty(), "a mask for a token fed back", part.slot, 0,
          1);
  require(part.samples == 1 || part.samples == part.tokens.size(), "drafts without requests", part.slot,
          part.samples, part.tokens.size());
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
  if (!launched_.empty()) states_.lose(launched_.front().number);
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
  const std::size_t before = state.certain;
  state.tokens.resize(before);
  if (seen.fed_back) state.tokens.push_back(*state.last);
  state.tokens.insert(state.tokens.end(), part.tokens.begin(), part.tokens.end());
  state.ended = false;
  if (part.drafts() > 0) return compute_drafts(state, part, step);
  state.certain = state.tokens.size();
  store(state, part.slot, before, step.number);
  if (states_.any()) accept(states_.compute(part, hashes_of(state.tokens, state.flavour), step.number));
  if (part.pool != nullptr && part.ends_with_result()) {
    step.sampled.push_back({.slot = part.slot, .pooled = pooled_of(state.tokens)});
  }
  if (!seen.sampled) return;
  const bool told =
      !part.sample->params->needs_logits() || std::ranges::equal(part.sample->seen, state.tokens);
  require(told, "a choice by the host without the sequence's tokens", part.slot, part.sample->seen.size(),
          state.tokens.size());
  const token_id token = sample(state, *part.sample);
  step.sampled.push_back({part.slot, token, logprobs_of(token, *part.sample)});
}

/// Each token samples with what was before it; the drafts behind the first wrong one were computed for
/// nothing.
void fake_accelerator::compute_drafts(slot_state& state, const sequence_step& part, launched& step) {
  const std::vector<token_id> all = state.tokens;
  const std::size_t first = all.size() - part.samples;
  state.certain = all.size();
  for (std::uint32_t i = 0; i < part.samples; ++i) {
    state.tokens.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(first + i + 1));
    const token_id token = sample(state, part.sample[i]);
    step.sampled.push_back({part.slot, token, logprobs_of(token, part.sample[i])});
    const bool wrong = i + 1 < part.samples && all[first + i + 1] != token;
    if (wrong) state.certain = std::min(state.certain, first + i + 1);
  }
  state.tokens = all;
  state.last.reset();
  state.ended = false;
  store(state, part.slot, first, step.number);
}

engine::token_logprobs fake_accelerator::logprobs_of(token_id token, const engine::sample_request& request) {
  engine::token_logprobs out;
  if (!request.logprobs) return out;
  out.chosen = -static_cast<float>(token) / 8.0F;
  out.listed = request.top_logprobs;
  out.rank = request.params->tells_rank ? 7 : 0;
  for (std::uint32_t i = 0; i < out.listed; ++i) {
    out.top[i] = {static_cast<token_id>(i), -static_cast<float>(i)};
  }
  return out;
}

token_id fake_accelerator::sample(slot_state& state, const engine::sample_request& request) const {
  token_id token = next_of(state.tokens, state.flavour);
  if (!request.allowed.empty()) token = allowed_from(token, request.allowed, options_.vocab);
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
    pause(std::min<std::chrono::steady_clock::duration>(left, std::chrono::milliseconds(1)),
          "a step takes its time, and sees within a millisecond that it is to end");
  }
  return false;
}

}  // namespace orcd::test
