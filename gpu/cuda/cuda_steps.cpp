// Launching steps ahead and collecting their results; see cuda_steps.hpp.
#include "gpu/cuda/cuda_steps.hpp"

#include <algorithm>

#include "engine/base/ensure.hpp"
#include "gpu/plan/step_results.hpp"
#include "gpu/plan/step_wait.hpp"

namespace orcd::gpu {
namespace {

/// The ticket of the n-th launch; never 0, which unused results carry.
std::uint32_t ticket_of(std::uint64_t launch) noexcept {
  return static_cast<std::uint32_t>(launch % 0xFFFF'FFFFU) + 1;
}

/// `column`: of the first.
void want_states(cuda_recurrence& recurrence, std::span<const decoding_sequence> decodes,
                 std::uint32_t column) {
  for (const decoding_sequence& one : decodes) recurrence.want(column++, one.position, one.states);
}

}  // namespace

cuda_steps::cuda_steps(cuda_forward& forward, const sampler_layout& layout, const vram_arena& work,
                       const cuda_extents& extents, std::uint32_t vocab,
                       const engine::accelerator_config& config, const cuda_steps_options& options,
                       cudaStream_t stream, cuda_adapters& adapters, const cuda_media* media)
    : forward_(forward),
      adapters_(adapters),
      media_(media),
      extents_(extents),
      vocab_(vocab),
      options_(options),
      stream_(stream),
      depth_(launch_depth),
      sampler_(layout, work,
               {forward.steps(), forward.sample_rows(), forward.logits(), forward.banned(),
                forward.media().turns, forward.media().seen},
               vocab, extents.slots, extents.context, stream),
      ring_(extents.sampling(), depth_, options.pinned, sampler_.device_results()),
      choice_(vocab, extents.context, depth_, config.banned_tokens),
      sampled_slots_(depth_),
      filled_(extents.slots, 0),
      tables_(extents.slots, table_of::own),
      rows_(depth_, 0),
      row_waits_(extents.sampling() + 1),
      pooled_(depth_) {
  ORCD_ENSURE(work.bytes() >= layout.end && extents.sampling() <= kernels::sample_columns_max);
  sampler_.set_ends(config.end_of_generation);
  sampler_.set_results(ring_.target());
  for (auto& slots : sampled_slots_) slots.reserve(extents.sampling());
  decodes_.reserve(extents.sampling());
  decode_rows_.reserve(extents.sampling());
  pass_rows_.reserve(extents.sampling());
  pass_slots_.reserve(extents.slots + extents.sampling());
  chunks_.reserve(extents.slots);
  chunk_columns_.reserve(extents.slots);
  if (options_.keep_logits) host_logits_.assign(extents.slots, std::vector<float>(vocab));
  prepare();
}

/// That of a decode step, or null if its kernels are to be launched.
cudaGraphExec_t cuda_steps::graph_of(std::uint32_t sequences, bool in_a_row) const noexcept {
  if (in_a_row) {
    if (adapters_.some() || sequences > row_graphs_.size() + 1) return nullptr;
    return row_graphs_[sequences - 2].get();
  }
  if (forward_.is_one_kernel(sequences)) return nullptr;
  const std::size_t few = forward_.programs().size();
  if (!adapters_.some())
    return sequences > few && sequences <= few + graphs_.size() ? graphs_[sequences - few - 1].get()
                                                                : nullptr;
  const std::uint32_t kind = adapters_.kind_of_step();
  if (kind == cuda_adapters::graph_kinds || sequences > adapter_graphs_[kind].size()) return nullptr;
  return adapter_graphs_[kind][sequences - 1].get();
}

void cuda_steps::run_decode(std::uint32_t sequences) {
  forward_.decode(sequences);
  if (unsigned long long* const keys = forward_.keys(sequences))
    sampler_.sample(decodes_, keys);
  else
    sampler_.sample(sequences);
}

void cuda_steps::run_in_a_row(std::uint32_t columns) {
  forward_.decode_in_a_row(columns);
  sampler_.sample(columns);
}

/// The forward pass and the choice of all tokens that were begun.
void cuda_steps::run_decodes(std::uint32_t columns, bool in_a_row) {
  if (auto* const captured = graph_of(columns, in_a_row); captured != nullptr) {
    ORCD_CUDA(cudaGraphLaunch(captured, stream_));
  } else if (in_a_row) {
    run_in_a_row(columns);
  } else {
    run_decode(columns);
  }
}

void cuda_steps::launch(std::span<const engine::sequence_step> sequences,
                        const engine::interrupt_flag& interrupt) {
  ORCD_ENSURE(uncollected_ < depth_ && sequences.size() <= extents_.slots);
  try {
    enqueue(sequences, interrupt);
  } catch (const engine::accelerator_failure&) {
    drop();
    throw;
  }
}

void cuda_steps::enqueue(std::span<const engine::sequence_step> sequences,
                         const engine::interrupt_flag& interrupt) {
  const auto entry = static_cast<std::uint32_t>(launches_ % depth_);
  auto& slots = sampled_slots_[entry];
  slots.clear();
  pooled_[entry].clear();
  rows_[entry] = 0;
  chunks_.clear();
  decodes_.clear();
  decode_rows_.clear();
  choice_.begin(entry);
  interrupt_ = &interrupt;
  ++launches_;
  ++uncollected_;
  in_a_row_ = false;
  draft_masks_ = 0;
  for (const auto& sequence : sequences) {
    ORCD_ENSURE(sequence.tokens.size() <= extents_.chunk_tokens &&
                (!sequence.tokens.empty() || sequence.sample) &&
                (sequence.pool != nullptr) == pooling_.has_value());
    ORCD_ENSURE(sequence.position + sequence.count() <= extents_.context);
    if (interrupt.load(std::memory_order_relaxed)) {
      interrupted_ = true;
      return;
    }
    use_own_pages(sequence.slot);
    auto& filled = filled_[static_cast<std::size_t>(sequence.slot)];
    filled = std::max(filled, sequence.position + sequence.count());
    if (forward_.recurrence().any())
      forward_.recurrence().note(static_cast<std::uint32_t>(sequence.slot), sequence.position,
                                 sequence.count());
    if (sequence.pool != nullptr) {
      enqueue_pooled(sequence, entry);
    } else if (sequence.sample != nullptr && sequence.count() == sequence.samples && sequence.media.empty()) {
      add_decodes(sequence, entry);
    } else {
      add_chunk(sequence, entry);
    }
  }
  enqueue_passes();
  rows_[entry] = in_a_row_ ? static_cast<std::uint32_t>(decodes_.size()) : 0;
  ring_.launched(entry, static_cast<std::uint32_t>(slots.size()), ticket_of(launches_), stream_);
}

/// What the device is asked behind the sequence's i-th token that samples. Masks of drafts have rows behind
/// those of the slots.
kernels::sample_request cuda_steps::request_of(const engine::sequence_step& sequence, std::uint32_t i,
                                               std::uint32_t entry) {
  auto& slots = sampled_slots_[entry];
  const engine::sample_request& asked = sequence.sample[i];
  const auto result = static_cast<std::uint32_t>(entry * extents_.sampling() + slots.size());
  ORCD_ENSURE(slots.size() < extents_.sampling());
  slots.push_back(sequence.slot);
  const bool by_host = asked.params->needs_logits();
  ORCD_ENSURE(!by_host || (!sequence.tokens.empty() && sequence.samples == 1));
  if (by_host) return device_request(asked, result);
  if (i == 0 && !asked.params->biases.empty()) sampler_.write_biases(sequence.slot, asked.params->biases);
  if (asked.allowed.empty()) return device_request(asked, result);
  ORCD_ENSURE(!sequence.tokens.empty());
  const std::uint32_t row =
      i == 0 ? static_cast<std::uint32_t>(sequence.slot) : extents_.slots + draft_masks_++;
  sampler_.write_mask(row, asked.allowed);
  return device_request(asked, result, row);
}

/// Of the request that was made last.
sampled_row cuda_steps::row_of(const engine::sequence_step& sequence, std::uint32_t i,
                               std::uint32_t entry) const {
  const auto result = static_cast<std::uint32_t>(sampled_slots_[entry].size() - 1);
  return {sequence.slot, result, sequence.sample[i].params->needs_logits() ? sequence.sample + i : nullptr};
}

/// Adds a sequence's only token, or all that it has in a row, to the decode pass of the step.
void cuda_steps::add_decodes(const engine::sequence_step& sequence, std::uint32_t entry) {
  ORCD_ENSURE(decodes_.size() + sequence.samples <= extents_.sampling());
  in_a_row_ = in_a_row_ || sequence.samples > 1;
  for (std::uint32_t i = 0; i < sequence.samples; ++i) {
    decodes_.push_back({sequence.slot, sequence.tokens.empty() ? -1 : sequence.tokens[i],
                        sequence.position + i, request_of(sequence, i, entry), sequence.rotary_shift,
                        i == 0 ? sequence.states : std::span<const engine::state_copy>{}});
    decode_rows_.push_back(row_of(sequence, i, entry));
  }
}

void cuda_steps::add_chunk(const engine::sequence_step& sequence, std::uint32_t entry) {
  ORCD_ENSURE(sequence.samples == 1 && (sequence.media.empty() || media_ != nullptr));
  chunks_.push_back({sequence, {}, {}});
  if (sequence.sample == nullptr) return;
  chunks_.back().request = request_of(sequence, 0, entry);
  chunks_.back().row = row_of(sequence, 0, entry);
}

void cuda_steps::enqueue_pooled(const engine::sequence_step& sequence, std::uint32_t entry) {
  ORCD_ENSURE(sequence.position + sequence.count() <= sequence.pool->tokens);
  ORCD_ENSURE(causal_ || sequence.count() == sequence.pool->tokens);
  sampler_.begin_chunk(sequence, nullptr, ticket_of(launches_));
  forward_.set_form({causal_ ? 0 : sequence.pool->tokens, sequence.pool->second_segment});
  const std::uint32_t columns = sequence.count();
  forward_.prefill({.chunks = {&columns, 1}}, 0);
  auto pooled = pooling_->take(forward_, sequence);
  if (pooled != nullptr) pooled_[entry].push_back({.slot = sequence.slot, .pooled = std::move(pooled)});
}

/// The step's prompts and what decodes as few passes, each as many chunks as it has columns for. Where a
/// sequence has adapters, each has one of its own, whose kernels take tiles of one sequence's columns.
void cuda_steps::enqueue_passes() {
  if (chunks_.empty()) return decodes_.empty() ? void() : enqueue_decodes();
  const std::span<const prompt_chunk> chunks(chunks_);
  pass_slots_.clear();
  for (const prompt_chunk& one : chunks) pass_slots_.push_back(one.part.slot);
  for (const decoding_sequence& one : decodes_) pass_slots_.push_back(one.slot);
  adapters_.begin_step(pass_slots_);
  const bool apart = adapters_.some();
  for (std::size_t at = 0; at < chunks.size();) {
    std::size_t count = 1;
    std::uint32_t columns = chunks[at].part.count();
    while (!apart && at + count < chunks.size() &&
           columns + chunks[at + count].part.count() <= extents_.chunk_tokens)
      columns += chunks[at + count++].part.count();
    const bool last = !apart && at + count == chunks.size();
    enqueue_pass(chunks.subspan(at, count), last ? decodes_ : std::span<const decoding_sequence>{});
    at += count;
  }
  if (apart && !decodes_.empty()) enqueue_decodes();
}

void cuda_steps::enqueue_pass(std::span<const prompt_chunk> chunks,
                              std::span<const decoding_sequence> decodes) {
  pass_slots_.clear();
  chunk_columns_.clear();
  pass_rows_.clear();
  pass_place at;
  std::uint32_t given = 0;
  for (const prompt_chunk& one : chunks) {
    const bool samples = one.part.sample != nullptr;
    sampler_.begin_chunk(one.part, samples ? &one.request : nullptr, ticket_of(launches_), at);
    forward_.recurrence().want(at.column, one.part.position, one.part.states);
    if (!one.part.media.empty()) given += media_->place(one.part, at.column, given);
    pass_slots_.push_back(one.part.slot);
    chunk_columns_.push_back(one.part.count());
    if (samples) pass_rows_.push_back(one.row);
    at.column += one.part.count();
    at.row += samples ? 1 : 0;
  }
  if (!decodes.empty()) sampler_.begin_decode(decodes, ticket_of(launches_), at);
  want_states(forward_.recurrence(), decodes, at.column);
  for (const decoding_sequence& one : decodes) pass_slots_.push_back(one.slot);
  if (!decodes.empty()) pass_rows_.insert(pass_rows_.end(), decode_rows_.begin(), decode_rows_.end());
  adapters_.begin_step(pass_slots_);
  const auto rows = static_cast<std::uint32_t>(pass_rows_.size());
  forward_.prefill({chunk_columns_, static_cast<std::uint32_t>(decodes.size()), in_a_row_, given}, rows);
  forward_.recurrence().forget_wanted();
  if (rows == 0) return;
  sampler_.sample(rows);
  finish_rows(pass_rows_);
}

void cuda_steps::enqueue_decodes() {
  const auto sequences = static_cast<std::uint32_t>(decodes_.size());
  sampler_.begin_decode(decodes_, ticket_of(launches_));
  pass_slots_.clear();
  for (const decoding_sequence& one : decodes_) pass_slots_.push_back(one.slot);
  adapters_.begin_step(pass_slots_);
  want_states(forward_.recurrence(), decodes_, 0);
  run_decodes(sequences, in_a_row_);
  forward_.recurrence().forget_wanted();
  finish_rows(decode_rows_);
}

/// What is left to do with the logits of a pass: those of the next one take their place.
void cuda_steps::finish_rows(std::span<const sampled_row> rows) {
  for (std::uint32_t row = 0; row < rows.size(); ++row) keep_logits(row, rows[row].slot);
  const auto entry = static_cast<std::uint32_t>((launches_ - 1) % depth_);
  if (!choice_.choose(rows, forward_.logits(), entry, *interrupt_, stream_)) interrupted_ = true;
}

void cuda_steps::keep_logits(std::uint32_t row, engine::slot_id slot) {
  if (!options_.keep_logits) return;
  auto& kept = host_logits_[static_cast<std::size_t>(slot)];
  ORCD_CUDA(cudaMemcpyAsync(kept.data(), forward_.logits() + std::size_t{row} * vocab_,
                            kept.size() * sizeof(float), cudaMemcpyDeviceToHost, stream_));
  ORCD_CUDA(cudaStreamSynchronize(stream_));
}

bool cuda_steps::collect(const engine::interrupt_flag& interrupt,
                         std::vector<engine::sampled_token>& sampled) {
  ORCD_ENSURE(uncollected_ > 0);
  const auto entry = static_cast<std::uint32_t>((launches_ - uncollected_) % depth_);
  try {
    if (interrupted_ || !wait(entry, interrupt)) {
      drop();
      return false;
    }
    const auto results = ring_.results(entry);
    const std::size_t before = sampled.size();
    for (std::size_t i = 0; i < results.size(); ++i) {
      sampled.push_back(sampled_from(sampled_slots_[entry][i], results[i]));
    }
    choice_.replace(entry, std::span(sampled).subspan(before));
    sampled.insert(sampled.end(), pooled_[entry].begin(), pooled_[entry].end());
  } catch (const engine::accelerator_failure&) {
    drop();
    throw;
  }
  --uncollected_;
  return true;
}

/// False when interrupted. A step with drafts is waited for as long as the last one of so many tokens took.
/// A kernel that has failed writes no results, so the stream's status is checked now
/// and then.
bool cuda_steps::wait(std::uint32_t entry, const engine::interrupt_flag& interrupt) {
  const auto healthy = [&] {
    const cudaError_t status = cudaStreamQuery(stream_);
    if (status == cudaErrorNotReady) return;
    ORCD_CUDA(status);
    if (!ring_.ready(entry)) {
      throw engine::accelerator_failure(engine::errc::cuda_error, "a step ended without its results");
    }
  };
  step_pace pace;
  const std::uint32_t row = rows_[entry];
  if (row > 0) pace.expected = row_waits_[row];
  const auto begin = std::chrono::steady_clock::now();
  switch (wait_for_step([&] { return ring_.ready(entry); }, healthy, interrupt, pace)) {
    case step_end::done:
      if (row > 0) row_waits_[row] = std::chrono::steady_clock::now() - begin;
      return true;
    case step_end::interrupted: return false;
    case step_end::overdue: break;
  }
  throw overdue(pace);
}

/// Forgets the steps under way: what is in the stream still runs to its end.
void cuda_steps::drop() noexcept {
  forward_.recurrence().spoil();
  uncollected_ = 0;
  interrupted_ = false;
}

void cuda_steps::begin(const engine::sequence_start& start) {
  ORCD_ENSURE(start.held.size() <= extents_.context);
  tables_[static_cast<std::size_t>(start.slot)] = table_of::begun;
  try {
    forward_.pages().begin(start);
    if (forward_.recurrence().any())
      forward_.recurrence().begin(static_cast<std::uint32_t>(start.slot), start.further.back(),
                                  static_cast<std::uint32_t>(start.held.size()));
    adapters_.use(start.slot, start.adapters);
    sampler_.set_history(start.slot, start.held);
  } catch (const engine::accelerator_failure&) {
    drop();
    throw;
  }
}

void cuda_steps::extend(engine::slot_id slot, std::uint32_t group, std::uint32_t have,
                        std::span<const engine::kv_page> pages) {
  ORCD_ENSURE(tables_[static_cast<std::size_t>(slot)] == table_of::begun);
  try {
    forward_.pages().set(static_cast<std::uint32_t>(slot), group, pages, have);
  } catch (const engine::accelerator_failure&) {
    drop();
    throw;
  }
}

/// Gives a sequence that was not begun the slot's own pages.
void cuda_steps::use_own_pages(engine::slot_id slot) {
  auto& table = tables_[static_cast<std::size_t>(slot)];
  if (table == table_of::begun) return;
  ORCD_ENSURE(forward_.pages().table_count() == 1 &&
              extents_.pages() >= extents_.slots * extents_.pages_per_slot());
  if (table == table_of::own) return;
  forward_.pages().set_own(static_cast<std::uint32_t>(slot));
  table = table_of::own;
}

// If the context is lost, the next step reports it.
void cuda_steps::clear(std::uint32_t group, std::span<const engine::kv_page> pages) noexcept {
  try {
    if (group < forward_.pages().table_count())
      forward_.pages().clear(group, pages);
    else
      forward_.recurrence().clear(pages);
  } catch (const engine::accelerator_failure&) {
    return;
  }
}

void cuda_steps::release(engine::slot_id slot) noexcept {
  auto& filled = filled_[static_cast<std::size_t>(slot)];
  auto& table = tables_[static_cast<std::size_t>(slot)];
  if (table == table_of::own) clear(0, forward_.pages().own(static_cast<std::uint32_t>(slot), filled));
  if (table == table_of::begun) table = table_of::ended;
  filled = 0;
  try {
    adapters_.use(slot, {});
  } catch (const engine::accelerator_failure&) {
    return;  // the next step reports it
  }
}

std::span<const float> cuda_steps::logits(engine::slot_id slot) const noexcept {
  if (!options_.keep_logits) return {};
  return host_logits_[static_cast<std::size_t>(slot)];
}

}  // namespace orcd::gpu
