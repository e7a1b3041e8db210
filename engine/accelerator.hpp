// The interface between serving logic and the device that computes: load this model, append these tokens to
// these sequences, sample. gpu/ implements it twice, as the host backend and the CUDA backend. Every call
// comes from the one GPU thread, except that `interrupt` may be set from anywhere.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/ids.hpp"
#include "engine/model/boundary_budget.hpp"
#include "engine/model/kv_type.hpp"
#include "engine/model/pooling.hpp"
#include "engine/model/shared_weights.hpp"
#include "engine/sampling/logprobs.hpp"
#include "engine/sampling/sampling.hpp"

namespace orcd::engine {

struct lora_adapter;
struct model;
struct prepared_medium;
struct tower;

/// Thrown by an accelerator when its environment fails in a way that ends every sequence (a CUDA
/// error, a lost device). Caught in one place, the scheduler's step.
class accelerator_failure : public std::runtime_error {
 public:
  accelerator_failure(errc c, const std::string& what) : std::runtime_error(what), code(c) {}
  errc code;
};

/// Drafts of one sequence in a step at most.
inline constexpr std::uint32_t drafts_max = 15;

/// LoRA adapters that a worker has room for at most.
inline constexpr std::uint32_t adapters_max = 64;
/// Adapters that are applied to one sequence at most.
inline constexpr std::uint32_t active_adapters_max = 8;

/// Room for LoRA adapters (engine/lora/adapter.hpp): one adapter at each index below `count`.
struct adapter_room {
  std::uint32_t count = 0;  ///< 0: there are none, and nothing is planned for them
  std::uint32_t rank_max = 0;
};

/// An adapter that a sequence's products have, and how strongly.
struct active_adapter {
  std::uint32_t index = 0;  ///< of one that was put there
  float strength = 1.0F;    ///< finite
};

/// Encoded media are kept in blocks of so many rows.
inline constexpr std::uint32_t media_block_rows = 64;

/// What turns pictures or sounds into rows of the model's width, and room for such rows.
struct media_room {
  const tower* encoder = nullptr;  ///< null: there is none; outlives the accelerator
  std::uint32_t blocks = 0;        ///< of media_block_rows rows
};

/// Positions of a sequence that have rows of a medium in the place of tokens' embeddings.
struct media_rows {
  std::uint32_t position = 0;  ///< of the first; so many follow one another
  std::uint32_t count = 0;
  std::uint32_t first = 0;  ///< the medium's row that stands there
  /// Of the medium: its i-th row is the (i % media_block_rows)-th of blocks[i / media_block_rows].
  std::span<const std::uint32_t> blocks;
  /// Each attends to all of them, whatever the window; then a step that has one has all that follow it.
  bool see_each_other = false;
  /// Not 0: they are all rows of a picture, line by line, of so many columns (rotary_at()).
  std::uint32_t columns = 0;
};

/// How many more rows a grid has than its longer side is long.
[[nodiscard]] constexpr std::uint32_t shift_behind_grid(std::uint32_t rows, std::uint32_t columns) noexcept {
  const std::uint32_t lines = rows / columns;
  return rows - (lines > columns ? lines : columns);
}

/// What the accelerator was told to plan for.
struct accelerator_config {
  std::uint32_t slots = 1;
  std::uint32_t context_tokens = 0;              ///< positions per slot
  std::vector<token_id> banned_tokens;           ///< vocabulary rows that are never sampled
  std::vector<token_id> end_of_generation = {};  ///< tokens after which a sequence goes no further
  kv_types kv{};                                 ///< how K and V are kept
  /// Pages of the KV cache (of group 0), at least a slot's context; 0 = as many as slots * context_tokens
  /// take.
  std::uint32_t kv_pages = 0;
  /// Layers with a sliding window have groups of their own (kv_geometry), where that takes less memory.
  /// False: all layers are in group 0.
  bool window_groups = true;
  boundary_budget boundaries{};
  weight_source weights{};
  cache_source cache{};
  adapter_room adapters{};
  /// Drafts (sequence_step::samples) that the sequences of a step may bring, all together; the accelerator
  /// may plan for fewer. 0: none.
  std::uint32_t draft_tokens = 0;
  /// chunk_tokens() that is asked for; 0: as the accelerator does best with the model. The host backend and
  /// models that embed or rank do not look at it.
  std::uint32_t chunk_tokens = 0;
  media_room media{};
};

/// What a group of layers needs of a sequence's past.
enum class kv_need : std::uint8_t {
  all,     ///< every position
  window,  ///< the last ones
  state,   ///< what is kept of all of them together: a state, or the last rows of a convolution
};

/// Layers with the same need have pages in common: one page id stands for the same positions in all of them.
///
/// A group of states, of which there is one at most, is the last. What its layers keep of a running sequence
/// is the slot's, without pages; a page of it is what they have kept at one boundary, a position that is a
/// multiple of state_positions, so that another sequence can go on there.
struct kv_group {
  kv_need need = kv_need::all;
  std::uint32_t window = 0;          ///< positions that a token reads, its own included; 0: all
  std::uint32_t pages = 0;           ///< with ids 0 .. pages-1 of this group
  std::uint32_t boundary_pages = 0;  ///< of them, those beside what jobs can come to need; 0: for none
  std::uint64_t page_bytes = 0;      ///< of one page in all layers of the group
  friend constexpr bool operator==(const kv_group&, const kv_group&) = default;
};

/// A state exists at multiples of so many positions.
inline constexpr std::uint32_t state_positions = 8;

/// Groups beside group 0 at most.
inline constexpr std::uint32_t further_groups_max = 3;

/// How a loaded accelerator's KV cache is cut. Without pages, begin(), extend() and clear() are never called.
/// `pages` are those of group 0, whose layers need all positions; the further groups are 1, 2, ... A sequence
/// has a page table for each group.
struct kv_geometry {
  std::uint32_t page_positions = 0;  ///< of a page of any group
  std::uint32_t pages = 0;
  std::uint64_t page_bytes = 0;  ///< of a page of group 0; 0: not told, where there is no other group
  std::array<kv_group, further_groups_max> groups{};
  std::uint32_t group_count = 0;  ///< of `groups`

  [[nodiscard]] constexpr std::span<const kv_group> further() const noexcept {
    return std::span(groups).first(group_count);
  }
  [[nodiscard]] constexpr bool has_states() const noexcept {
    return group_count > 0 && groups[group_count - 1].need == kv_need::state;
  }
};

/// What layers have kept of a sequence's first `position` tokens, for a page of the group of states.
struct state_copy {
  std::uint32_t position = 0;  ///< a multiple of state_positions
  kv_page page = 0;
};

/// The first `positions` positions of a page, for another one that is clear.
struct page_copy {
  kv_page from = 0;
  kv_page to = 0;
  std::uint32_t positions = 0;
};

/// A sequence's pages of a group that does not need all positions. Of a group of states: the page whose state
/// it goes on from, which is copied; none where it begins at position 0.
struct group_pages {
  std::uint32_t first = 0;         ///< positions from first * page_positions on; those before are not read
  std::span<const kv_page> pages;  ///< in the order of positions
  std::optional<page_copy> copy = {};  ///< between pages of the group, made first
};

/// Where a sequence's keys and values lie. `pages` are in the order of positions, distinct, and cover every
/// position that will be written before extend() adds more. Pages that hold nothing but `held` may belong to
/// other sequences too and are only read.
struct sequence_start {
  slot_id slot{};
  std::span<const kv_page> pages;       ///< of group 0
  std::span<const token_id> held = {};  ///< tokens whose KV the pages hold, after the copy
  std::optional<page_copy> copy = {};   ///< made first
  /// Applied to every token of the sequence in this order, which decides the bits; at most
  /// active_adapters_max, with distinct indices. What the pages hold was computed with the same.
  std::span<const active_adapter> adapters = {};
  /// Of each further group, in their order: what the first position after `held` reads of the positions
  /// before it is there, after the copy.
  std::span<const group_pages> further = {};
};

/// Bytes planned before anything is allocated (M0-W-1011, 1020). Shown by `inspect plan` and /health.
struct memory_plan {
  std::uint64_t weights_bytes = 0;
  std::uint64_t kv_bytes = 0;
  std::uint64_t workspace_bytes = 0;
  std::uint64_t logits_bytes = 0;
  std::uint64_t adapters_bytes = 0;  ///< room for adapters and what steps need to apply them
  std::uint64_t states_bytes = 0;    ///< what layers without attention keep of the slots' sequences
  std::uint64_t media_bytes = 0;     ///< encoded media, and what encoding needs
  std::uint64_t pinned_bytes = 0;    ///< of host memory; not part of total()
  [[nodiscard]] std::uint64_t total() const noexcept {
    return weights_bytes + kv_bytes + workspace_bytes + logits_bytes + adapters_bytes + states_bytes +
           media_bytes;
  }
};

/// The device a loaded accelerator computes on. The host backend has none.
struct device_facts {
  std::int32_t index = -1;
  std::string name;
  std::string uuid;
};

/// Asks for one token after the last of a sequence's tokens. The look-back window of the penalties is the
/// last params->repeat_last_n tokens of the sequence, which the accelerator knows.
struct sample_request {
  const sampling_params* params = nullptr;
  double draw = 0.0;
  std::uint32_t remaining = 1;     ///< tokens the sequence may still get, this one included
  bool stop_at_end = true;         ///< end-of-generation tokens end the sequence
  bool logprobs = false;           ///< with the log probability of the token
  std::uint32_t top_logprobs = 0;  ///< and those of this many most likely tokens, at most top_logprobs_max
  /// The tokens that may be chosen; empty = all. Read before launch() returns. Log probabilities do not
  /// depend on it. A mask depends on the token before, so that a request with a mask never comes with an
  /// empty sequence_step::tokens.
  token_mask allowed = {};
  /// Where params->needs_logits(): all tokens of the sequence, up to the last of the step's. Read before
  /// launch() returns. Such a request comes with no drafts and never with an empty sequence_step::tokens.
  std::span<const token_id> seen = {};
};

/// Asks for the pooled states of a sequence instead of a token; the model's spec says how they are pooled. It
/// is given with every step of the sequence, which begins at position 0; the step of the last token gives the
/// result. Where tokens attend to later ones (an encoder), the whole sequence comes in one step.
struct pool_request {
  std::uint32_t tokens = 0;          ///< of the whole sequence
  std::uint32_t second_segment = 0;  ///< where the second of two texts begins; 0 = there is none
};

/// One sequence's part of a step: `tokens` are appended at positions position, position+1, ...
struct sequence_step {
  slot_id slot{};
  std::uint32_t position = 0;
  /// Empty: the one token that was sampled last in this slot, even if it was not collected yet. If that token
  /// ended the sequence (end of generation, `remaining`, none), the step does nothing for it and the token
  /// sampled is -1.
  std::span<const token_id> tokens;
  const sample_request* sample = nullptr;  ///< null while a prompt is still being prefilled
  const pool_request* pool = nullptr;      ///< of a pooled sequence; then there is no sample
  /// More than one: all but the first of the tokens are drafts, `sample` is an array with a request for what
  /// follows each token, and there are as many tokens and results. A result has the bits that the same tokens
  /// would have got one a step. The next step of the sequence brings its tokens with it, and goes on behind
  /// the last draft, or at an earlier position: what was computed beyond that is written again before
  /// anything reads it.
  std::uint32_t samples = 1;

  /// States that the step passes or ends at, in rising order, to be copied when it does: at positions behind
  /// its first and up to its end. Read before launch() returns. None with drafts. A step that computes
  /// nothing for the sequence copies none.
  std::span<const state_copy> states = {};
  /// Where the tokens are media_token, in the order of positions. Such a step has no drafts.
  std::span<const media_rows> media = {};
  /// Positions that grids of rows which end at or before `position` have more than their sides are long
  /// (rotary_at()).
  std::uint32_t rotary_shift = 0;

  /// Positions that the step fills.
  [[nodiscard]] std::uint32_t count() const noexcept {
    return tokens.empty() ? 1 : static_cast<std::uint32_t>(tokens.size());
  }
  /// Whether collect() will return a result for it.
  [[nodiscard]] bool ends_with_result() const noexcept {
    return sample != nullptr || (pool != nullptr && position + count() == pool->tokens);
  }
  [[nodiscard]] std::uint32_t drafts() const noexcept { return sample != nullptr ? samples - 1 : 0; }
};

/// What the heads of a model that rotates by three positions (rope_spec::axes) are turned by at a position.
struct rotary_position {
  std::uint32_t time = 0, line = 0, column = 0;
  friend constexpr bool operator==(const rotary_position&, const rotary_position&) = default;
};

/// The rows of a grid have one time, and their line and column count from it; what follows goes on behind the
/// grid's longer side. All else has one number. Source: Qwen2-VL, arXiv 2409.12191, 2.1.
[[nodiscard]] constexpr rotary_position rotary_at(const sequence_step& step,
                                                  std::uint32_t position) noexcept {
  std::uint32_t shift = step.rotary_shift;
  for (const media_rows& part : step.media) {
    if (part.columns == 0) continue;
    if (position < part.position) break;
    const std::uint32_t time = part.position - shift, row = position - part.position;
    if (row < part.count) return {time, time + row / part.columns, time + row % part.columns};
    shift += shift_behind_grid(part.count, part.columns);
  }
  return {position - shift, position - shift, position - shift};
}

struct sampled_token {
  slot_id slot{};
  token_id token = -1;
  token_logprobs logprobs = {};  ///< if asked for
  pooled_values pooled = {};     ///< of a pooled sequence, in place of a token
};

/// Set to make a running step return early; its sequences may then only be released.
using interrupt_flag = std::atomic<bool>;

/// What keeps one sequence or one tenant from another, or ends something, has no default: a backend that had
/// forgotten it would do nothing in silence.
class accelerator {
 public:
  virtual ~accelerator() = default;

  /// Loads the weights and allocates all memory that steps will need; nothing is allocated after it returns.
  /// `progress` is called with the share done, 0..100, on the calling thread. Once per object (M0-W-1001): a
  /// second call is an error. Weights that were to be imported and are not what the file would have given, or
  /// are damaged, or a cache of another size: stale_weights, after which it may be called once more.
  [[nodiscard]] virtual result<memory_plan> load(const model& m, const accelerator_config& config,
                                                 const std::function<void(unsigned percent)>& progress) = 0;

  /// The weights for other processes, after a load() with weights.share; else null. Valid like this object.
  [[nodiscard]] virtual const shared_weights* exported_weights() const noexcept { return nullptr; }

  /// Lets go of weights that others have, too (exported or imported). No step until they are mapped again,
  /// and exported_weights() has no descriptor any more. What is not shared stays. Throws accelerator_failure.
  virtual void unmap_weights() = 0;
  /// The same weights again, of which every byte is checked. Errors: stale_weights where they are others.
  [[nodiscard]] virtual result<void> map_weights(const shared_weights& from) = 0;
  /// The KV cache for other processes, after a load() with cache.share; else null. Valid like this object.
  [[nodiscard]] virtual const shared_cache* exported_cache() const noexcept { return nullptr; }

  /// Copies an adapter into the room at `index`, in place of what is there, which no sequence has that began
  /// and was not released. Takes effect after every step launched so far. Errors: model_load_failed, of an
  /// index, a rank, a matrix or a shape that the plan has no room for.
  [[nodiscard]] virtual result<void> put_adapter(std::uint32_t, const lora_adapter&) {
    return error(errc::model_load_failed, std::string("the ") + name() + " backend takes no LoRA adapters");
  }
  /// The same in parts, so that steps can go on between them: begins it, and does the next part, which takes
  /// a fraction of a millisecond; returns whether that was the last. `adapter` stays as it is until then, no
  /// other is put, and no sequence gets it. Throws accelerator_failure, after which there is nothing to go on
  /// with.
  [[nodiscard]] virtual result<void> begin_adapter(std::uint32_t index, const lora_adapter& adapter) {
    return put_adapter(index, adapter);
  }
  [[nodiscard]] virtual bool continue_adapter() { return true; }
  /// Forgets the adapter at `index`, if there is one; as for put_adapter(), no sequence has it.
  virtual void drop_adapter(std::uint32_t index) noexcept = 0;

  /// Blocks for the rows of encoded media, the same after load(); 0: it takes none.
  [[nodiscard]] virtual std::uint32_t media_blocks() const noexcept { return 0; }
  /// Turns a medium into rows of the model's width, which it puts into the given blocks; no step that was
  /// not collected reads them. In slices, so that steps go on between them: begins it, in place of one that
  /// has not ended, and does the next slice; returns whether that was the last. The medium stays as it is
  /// until then. Its rows depend on nothing else. Throws accelerator_failure.
  virtual void begin_medium(const prepared_medium&, std::span<const std::uint32_t>) { refuse_media(); }
  [[nodiscard]] virtual bool continue_medium() { refuse_media(); }

  /// The most tokens of one sequence in a step; longer prompts go in chunks of this. The results do not
  /// depend on it. After load() of an encoder it is the context, because its sequences cannot be cut. It
  /// bounds the tokens of all pooled sequences of a step together as well; other prompts that have more
  /// together take as long as several steps.
  [[nodiscard]] virtual std::uint32_t chunk_tokens() const noexcept = 0;

  /// Steps that may be launched before the first of them is collected; at least one, the same after
  /// load(). More than one lets the device go on while the host looks at the tokens.
  [[nodiscard]] virtual std::uint32_t launch_depth() const noexcept { return 1; }

  /// Drafts that a step takes, of all its sequences together; the same after load().
  [[nodiscard]] virtual std::uint32_t draft_tokens() const noexcept { return 0; }
  /// The time of a decode step with so many tokens, where one of a single token takes 1; does not fall with
  /// their number. 1 at least. Where load() has not measured it, every token costs as much as the first.
  [[nodiscard]] virtual double step_cost(std::uint32_t tokens) const noexcept {
    return tokens == 0 ? 1.0 : tokens;
  }

  /// How the KV cache is cut, the same after load().
  [[nodiscard]] virtual kv_geometry kv_pages() const noexcept { return {}; }

  /// Gives a released slot its pages; steps go on at position held.size(). Both spans are read before it
  /// returns. A slot that is used without begin(), from position 0, has the n-th context's worth of pages, n
  /// being the slot, and release() clears them: that needs a pool of slots * context with no page in use
  /// otherwise, and group 0 alone. Throws accelerator_failure: then the slot may only be released, and no
  /// launched step will be collected.
  virtual void begin(const sequence_start& start) = 0;

  /// Gives a sequence that has begun further pages of a group, for positions from have * page_positions on,
  /// which follow those that it has: distinct from those, clear, and no more than its context takes. The span
  /// is read before it returns. Takes effect after every step launched so far, none of which reaches them.
  /// Allocates nothing. Throws as begin() does.
  virtual void extend(slot_id slot, std::uint32_t group, std::uint32_t have,
                      std::span<const kv_page> pages) = 0;

  /// Zeroes pages of a group, so that the next sequence that gets them finds nothing of what they held. Takes
  /// effect after every step and copy launched so far, and before every later one. A sequence goes on while
  /// pages of a window are cleared that were its own: later steps begin at positions that do not read them,
  /// and its table's entries for them mean nothing from then on. Never fails: an error shows in the next
  /// step.
  virtual void clear(std::uint32_t group, std::span<const kv_page> pages) noexcept = 0;

  /// Waits until the device has done all that it was given. Never fails: an error shows in the next step.
  virtual void wait_idle() noexcept = 0;

  /// Begins a step for all given sequences (distinct slots, at most config.slots); what the arguments
  /// refer to is read before it returns. Same tokens at the same positions give the same bits, whatever
  /// else is in the step and however many steps are under way. Throws accelerator_failure.
  virtual void launch(std::span<const sequence_step> sequences, const interrupt_flag& interrupt) = 0;

  /// Waits for the oldest launched step. One result per sequence that asked, in the order given, is appended
  /// to `sampled`. Returns false when `interrupt` made a step stop early: then no launched step will be
  /// collected, and the sequences of all of them may only be released. The same holds after an
  /// accelerator_failure, which launch() and collect() may throw.
  [[nodiscard]] virtual bool collect(const interrupt_flag& interrupt,
                                     std::vector<sampled_token>& sampled) = 0;

  /// launch() and collect(), for callers that do not run ahead.
  [[nodiscard]] bool step(std::span<const sequence_step> sequences, const interrupt_flag& interrupt,
                          std::vector<sampled_token>& sampled) {
    launch(sequences, interrupt);
    return collect(interrupt, sampled);
  }

  /// Copies what layers keep of a sequence's first `what.position` tokens to a page of the group of states,
  /// before the sequence is released: all that was launched for these positions has been collected. False,
  /// with nothing copied, where the sequence has gone on too far since then, or was in a step that did not
  /// complete.
  [[nodiscard]] virtual bool keep_state(slot_id, const state_copy&) noexcept { return false; }

  /// Forgets a sequence; its pages keep what they hold. The slot may be used again at once, even while a
  /// launched step still has a part for it: that part's token is collected and means nothing. Never fails.
  virtual void release(slot_id slot) noexcept = 0;

  /// The logits of the sequence that last sampled in `slot`, for tests; [vocab].
  [[nodiscard]] virtual std::span<const float> logits(slot_id slot) const noexcept = 0;

  [[nodiscard]] virtual const char* name() const noexcept = 0;          ///< "host", "cuda"
  [[nodiscard]] virtual bool resident() const noexcept = 0;             ///< all model memory is in VRAM
  [[nodiscard]] virtual std::uint64_t vram_bytes() const noexcept = 0;  ///< 0 on the host backend
  [[nodiscard]] virtual device_facts device() const { return {}; }      ///< after load()

  /// Checks that all model memory is still in VRAM: one sentence for each allocation that is not, so that an
  /// empty list is good. Takes microseconds; never allocates device memory (M0-W-1012).
  [[nodiscard]] virtual std::vector<std::string> audit() = 0;
  /// After accelerator_failure: the device itself is gone or broken, so that a new process would fail
  /// on it as well.
  [[nodiscard]] virtual bool device_lost() const noexcept { return false; }

 private:
  [[noreturn]] void refuse_media() const {
    throw accelerator_failure(errc::internal, std::string("the ") + name() + " backend takes no media");
  }
};

}  // namespace orcd::engine
