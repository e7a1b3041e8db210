// An accelerator without a model, for tests of everything above the seam. The next token is a pure
// function of the sequence's tokens, so that a test can compute what any job must receive, whatever
// the batching and chunking. Checks the caller's side of the contract (engine/accelerator.hpp) and
// throws contract_violation, which nothing catches. With pages it keeps, for each position of each page, a
// hash of all tokens up to there, as a KV cache does: a sequence may only go on from pages that hold its own
// beginning and nothing else. LoRA adapters are part of that hash, and change every token. Faults and delays
// are injected by option. A step's tokens are decided when it is launched; the time it takes passes when it
// is collected. Launch, collect and release are called by one thread; the counters may be read by any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/accelerator.hpp"
#include "test/support/fake_states.hpp"
#include "test/support/fake_windows.hpp"

namespace orcd::test {

/// The scheduler broke a rule of the seam.
class contract_violation : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// The token that follows `sequence` (prompt and output so far). Must be pure.
using next_token = std::function<engine::token_id(std::span<const engine::token_id> sequence)>;

/// The default: a hash of all tokens, in [first, first + count).
[[nodiscard]] engine::token_id hashed_token(std::span<const engine::token_id> sequence,
                                            engine::token_id first = 10, std::uint32_t count = 90);

/// What adapters of these digests and strengths make of a sequence; 0 of none.
using fake_adapters = std::vector<std::pair<std::string, float>>;
[[nodiscard]] std::uint64_t flavour_of(const fake_adapters& adapters);

/// What it gathers of a pooled sequence: two numbers that its tokens alone decide.
[[nodiscard]] engine::pooled_values pooled_of(std::span<const engine::token_id> sequence);

/// Thrown as accelerator_failure in place of the n-th step (1-based, counted over the object's life).
struct fake_fault {
  std::uint64_t step = 0;
  engine::errc code = engine::errc::cuda_error;
  bool at_collect = false;  ///< found out when its tokens are waited for, as a real device does
};

struct fake_options {
  std::uint32_t slots = 1;
  std::uint32_t context_tokens = 4096;
  std::uint32_t chunk_tokens = 8;
  std::uint32_t vocab = 128;
  std::uint32_t launch_depth = 1;
  std::uint32_t draft_tokens = 0;                   ///< of a step; a further token costs a tenth of the first
  engine::kv_geometry pages{};                      ///< none: slots have memory of their own
  std::uint32_t adapters = 0;                       ///< room for so many
  std::uint32_t adapter_parts = 1;                  ///< in which one is put
  std::vector<engine::token_id> end_of_generation;  ///< what the device itself stops at
  std::chrono::microseconds step_delay{0};          ///< slept per collect, cut short by the interrupt flag
  next_token next;                                  ///< hashed_token when empty
  std::vector<fake_fault> faults;
  std::uint64_t begin_out_of_memory = 0;   ///< the n-th begin() fails so, after half its work; 1-based
  std::uint64_t extend_out_of_memory = 0;  ///< the n-th extend() fails so, 1-based
  std::uint64_t put_out_of_memory = 0;     ///< the n-th put_adapter() fails so, 1-based
  bool can_die = false;                    ///< die() may be called
  /// Called when a step is collected, before the interrupt flag is read: a test's place to cancel,
  /// interrupt or move its clock while "the device computes".
  std::function<void()> during_step;
};

/// One sequence's part of one step, as the accelerator saw it.
struct fake_record {
  std::uint64_t step = 0;
  engine::slot_id slot{};
  std::uint32_t position = 0;
  std::uint32_t tokens = 0;
  bool sampled = false;
  bool fed_back = false;  ///< the device took its own token
  bool in_vain = false;   ///< the sequence had ended before
  double draw = 0.0;
};

class fake_accelerator final : public engine::accelerator {
 public:
  explicit fake_accelerator(fake_options options = {});

  [[nodiscard]] engine::result<engine::memory_plan> load(
      const engine::model& m, const engine::accelerator_config& config,
      const std::function<void(unsigned percent)>& progress) override;
  [[nodiscard]] std::uint32_t chunk_tokens() const noexcept override { return options_.chunk_tokens; }
  [[nodiscard]] std::uint32_t launch_depth() const noexcept override { return options_.launch_depth; }
  [[nodiscard]] std::uint32_t draft_tokens() const noexcept override { return options_.draft_tokens; }
  [[nodiscard]] double step_cost(std::uint32_t tokens) const noexcept override { return 0.9 + 0.1 * tokens; }
  [[nodiscard]] engine::kv_geometry kv_pages() const noexcept override { return options_.pages; }
  void begin(const engine::sequence_start& start) override;
  void extend(engine::slot_id slot, std::uint32_t group, std::uint32_t have,
              std::span<const engine::kv_page> pages) override;
  [[nodiscard]] engine::result<void> put_adapter(std::uint32_t index,
                                                 const engine::lora_adapter& adapter) override;
  [[nodiscard]] engine::result<void> begin_adapter(std::uint32_t index,
                                                   const engine::lora_adapter& adapter) override;
  [[nodiscard]] bool continue_adapter() override;
  void drop_adapter(std::uint32_t index) noexcept override;
  void clear(std::uint32_t group, std::span<const engine::kv_page> pages) noexcept override;
  void wait_idle() noexcept override {}
  void launch(std::span<const engine::sequence_step> sequences,
              const engine::interrupt_flag& interrupt) override;
  [[nodiscard]] bool collect(const engine::interrupt_flag& interrupt,
                             std::vector<engine::sampled_token>& sampled) override;
  [[nodiscard]] bool keep_state(engine::slot_id slot, const engine::state_copy& what) noexcept override;
  void release(engine::slot_id slot) noexcept override;
  [[nodiscard]] std::span<const float> logits(engine::slot_id) const noexcept override { return logits_; }
  [[nodiscard]] const char* name() const noexcept override { return "fake"; }
  [[nodiscard]] bool resident() const noexcept override { return false; }
  [[nodiscard]] std::uint64_t vram_bytes() const noexcept override { return 0; }
  // Its weights are nothing that could be shared, lost or damaged.
  void unmap_weights() override {}
  [[nodiscard]] engine::result<void> map_weights(const engine::shared_weights&) override { return {}; }
  [[nodiscard]] std::vector<std::string> audit() override { return {}; }

  /// The process that used it dies: its sequences are forgotten, and of what was launched after the last
  /// collected step nothing has happened yet. Another scheduler may use it at once.
  void die();
  /// All that the dead process had launched happens.
  void end_late_writes();

  /// What a job with this prompt must receive when nothing disturbs it.
  [[nodiscard]] std::vector<engine::token_id> expected(std::vector<engine::token_id> prompt,
                                                       std::uint32_t tokens,
                                                       const fake_adapters& adapters = {}) const;
  /// The digest of what was put at each index and not dropped; else empty.
  [[nodiscard]] const std::vector<std::string>& put_adapters() const noexcept { return adapters_; }
  /// Slots that hold a sequence now; 0 when every slot was given back.
  [[nodiscard]] std::uint32_t held_slots() const noexcept { return held_.load(); }
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_.load(); }
  [[nodiscard]] std::uint64_t releases() const noexcept { return releases_.load(); }
  /// Pages with something in them.
  [[nodiscard]] std::vector<engine::kv_page> written_pages() const;
  [[nodiscard]] const fake_windows& windows() const noexcept { return windows_; }
  [[nodiscard]] const fake_states& states() const noexcept { return states_; }
  /// Pages of a further group with something in them.
  [[nodiscard]] std::uint32_t written(std::uint32_t group) const {
    return states_.any() && group == options_.pages.group_count ? states_.written() : windows_.written(group);
  }
  /// Everything it computed and was asked for, in order; filled only after record(true). Not for use while a
  /// thread steps.
  void record(bool on) { recording_ = on; }
  [[nodiscard]] const std::vector<fake_record>& records() const noexcept { return records_; }

 private:
  struct slot_state {
    bool held = false;
    bool spoiled = false;                  ///< was in a step that did not complete: only release is allowed
    bool ended = false;                    ///< its last token ended it
    std::optional<engine::token_id> last;  ///< sampled and not yet fed back
    std::size_t certain = 0;               ///< of its tokens; those behind are drafts that were wrong
    std::vector<engine::token_id> tokens;
    std::vector<engine::kv_page> pages;
    std::vector<std::uint32_t> adapters;  ///< indices
    std::uint64_t flavour = 0;            ///< flavour_of() them
    std::uint64_t releases = 0;           ///< of this slot
  };
  /// Of a page, and not certain to have happened.
  struct pending_write {
    engine::kv_page page = 0;
    std::size_t position = 0;
    std::uint64_t before = 0, after = 0;
    std::uint64_t done_with = 0;  ///< the step by whose collection it has happened
  };
  struct launched {
    std::uint64_t number = 0;
    std::vector<std::pair<engine::slot_id, std::uint64_t>> slots;  ///< with their releases
    std::vector<engine::sampled_token> sampled;
    std::vector<fake_record> records;
  };
  void check(std::span<const engine::sequence_step> sequences) const;
  void check_part(const engine::sequence_step& part) const;
  void fail(std::uint64_t number, bool at_collect);
  void drop_launched();
  void compute(const engine::sequence_step& part, launched& step);
  void compute_drafts(slot_state& state, const engine::sequence_step& part, launched& step);
  void store(slot_state& state, engine::slot_id slot, std::size_t from, std::uint64_t step);
  void write(engine::kv_page id, std::size_t position, std::uint64_t value, std::uint64_t done_with);
  void check_start(const engine::sequence_start& start) const;
  [[nodiscard]] std::vector<std::uint64_t>& page(engine::kv_page id) {
    return kv_[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] engine::token_id sample(slot_state& state, const engine::sample_request& request) const;
  /// Of the token -id/8, of the likeliest 0, 1, 2, ... their negative ids.
  [[nodiscard]] static engine::token_logprobs logprobs_of(engine::token_id token,
                                                          const engine::sample_request& request);
  [[nodiscard]] engine::token_id next_of(std::span<const engine::token_id> tokens,
                                         std::uint64_t flavour) const;
  [[nodiscard]] bool is_used(std::uint32_t adapter) const noexcept;
  [[nodiscard]] bool sleep_step(const engine::interrupt_flag& interrupt) const;
  [[nodiscard]] slot_state& at(engine::slot_id slot) { return slots_[static_cast<std::uint32_t>(slot)]; }

  fake_options options_;
  std::vector<slot_state> slots_;
  std::vector<std::vector<std::uint64_t>> kv_;  ///< [pages][page_positions], 0 = clear
  std::vector<std::vector<bool>> loose_;        ///< likewise: of a wrong draft, may be written again
  fake_windows windows_;
  fake_states states_;
  std::vector<float> logits_;
  std::vector<std::string> adapters_;  ///< digests
  std::uint64_t puts_ = 0;
  /// On its way.
  struct {
    std::uint32_t index = 0, parts = 0;
    const engine::lora_adapter* adapter = nullptr;
  } put_;
  std::atomic<std::uint32_t> held_{0};
  std::atomic<std::uint64_t> steps_{0};
  std::atomic<std::uint64_t> releases_{0};
  bool recording_ = false;
  std::vector<fake_record> records_;
  std::uint64_t begun_ = 0;
  std::uint64_t extended_ = 0;
  std::deque<launched> launched_;
  std::vector<pending_write> pending_, late_;  ///< in order
};

}  // namespace orcd::test
