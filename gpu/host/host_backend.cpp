#include "gpu/host/host_backend.hpp"

#include <unistd.h>

#include <algorithm>
#include <new>
#include <optional>
#include <string>

#include "engine/base/ensure.hpp"
#include "engine/base/permanent.hpp"
#include "engine/model/model_tensors.hpp"
#include "engine/sampling/choice.hpp"
#include "gpu/host/host_forward.hpp"
#include "gpu/host/host_media.hpp"
#include "gpu/host/host_memory.hpp"
#include "gpu/host/host_pooling.hpp"
#include "gpu/host/host_tensors.hpp"
#include "gpu/host/host_weights.hpp"
#include "gpu/plan/latent_weights.hpp"
#include "gpu/plan/media/media_layout.hpp"
#include "gpu/plan/ternary_weights.hpp"
#include "kernels/host/kernel_table.hpp"

namespace orcd::gpu {
namespace {

using engine::errc;
using engine::error;

constexpr std::uint32_t chunk_tokens_max = 512;
constexpr std::uint32_t launch_depth_max = 4;

std::uint32_t context_of(const engine::model& m, const engine::accelerator_config& config) {
  return config.context_tokens == 0 ? m.spec.context_length : config.context_tokens;
}

/// Tokens that see each other are computed in one step, as are a medium's rows that do.
std::uint32_t chunk_of(const engine::model& m, const engine::accelerator_config& config,
                       std::uint32_t usual) {
  return m.spec.causal ? std::max(usual, media_rows_at_once(config.media)) : context_of(m, config);
}

engine::memory_plan plan_memory(const engine::model& m, const engine::accelerator_config& config,
                                const host_backend_options& options) {
  const host_extents extents = host_extents::of(
      m.spec, config, context_of(m, config), chunk_of(m, config, options.chunk_tokens), options.launch_depth);
  return {.weights_bytes = engine::payload_bytes(m.weights),
          .kv_bytes = extents.groups.bytes(),
          .workspace_bytes = host_workspace::bytes(m.spec, extents),
          .logits_bytes = std::uint64_t{config.slots + extents.draft_tokens} * m.spec.vocab * sizeof(float),
          .adapters_bytes = host_adapters::bytes(m, config.adapters, extents),
          .states_bytes = host_recurrence::bytes(m.spec, extents),
          .media_bytes = host_media::bytes(config.media)};
}

const char* beside_weights(const engine::memory_plan& plan) noexcept {
  return plan.adapters_bytes == 0 ? "KV cache, workspace and logits"
                                  : "KV cache, workspace, logits and LoRA adapters";
}

/// Weights that stay in the mapped file, or are another process's, need no memory of this one.
/// `made` are bytes of weights that are not in the file as they are used.
engine::result<void> check_memory(const engine::memory_plan& plan, std::uint64_t made,
                                  std::uint64_t kv_bytes_max, bool copies_weights) {
  const std::uint64_t needed = plan.total() - (copies_weights ? 0 : plan.weights_bytes) + made;
  const std::uint64_t installed =
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  if (kv_bytes_max != 0 && plan.kv_bytes > kv_bytes_max) {
    return engine::made_permanent(
        {errc::insufficient_vram, "the KV cache needs " + std::to_string(plan.kv_bytes) +
                                      " bytes, the limit is " + std::to_string(kv_bytes_max)});
  }
  if (needed > installed) {
    return error(errc::insufficient_vram, std::string(copies_weights ? "weights, " : "") +
                                              beside_weights(plan) + " need " + std::to_string(needed) +
                                              " bytes, this machine has " + std::to_string(installed));
  }
  return {};
}

engine::result<void> check_pages(std::uint32_t pages, std::uint32_t context) {
  const std::uint64_t positions = std::uint64_t{pages} * engine::kv_page_positions;
  if (pages == 0 || positions >= context) return {};
  return engine::made_permanent({errc::model_load_failed, "the KV cache has " + std::to_string(positions) +
                                                              " positions, a slot's context is " +
                                                              std::to_string(context)});
}

class host_backend final : public engine::accelerator {
 public:
  explicit host_backend(host_backend_options options) : options_(std::move(options)) {
    options_.chunk_tokens = std::clamp(options_.chunk_tokens, 1U, chunk_tokens_max);
    options_.launch_depth = std::clamp(options_.launch_depth, 1U, launch_depth_max);
  }

  engine::result<engine::memory_plan> load(const engine::model& m, const engine::accelerator_config& config,
                                           const std::function<void(unsigned)>& progress) override;
  const engine::shared_weights* exported_weights() const noexcept override {
    return forward_ && config_.weights.share ? &weights_.exported() : nullptr;
  }
  void unmap_weights() override {
    if (config_.weights.share || config_.weights.imported) weights_.drop();
  }
  engine::result<void> map_weights(const engine::shared_weights& from) override;
  const engine::shared_cache* exported_cache() const noexcept override {
    return forward_ && config_.cache.share ? &forward_->exported_cache() : nullptr;
  }
  std::uint32_t chunk_tokens() const noexcept override { return options_.chunk_tokens; }
  std::uint32_t launch_depth() const noexcept override { return options_.launch_depth; }
  std::uint32_t draft_tokens() const noexcept override { return draft_tokens_; }
  std::uint32_t media_blocks() const noexcept override { return media_ ? config_.media.blocks : 0; }
  void begin_medium(const engine::prepared_medium& medium, std::span<const std::uint32_t> blocks) override {
    ORCD_ENSURE(media_.has_value());
    media_->begin(medium, blocks);
  }
  bool continue_medium() override { return media_->go_on(); }
  void launch(std::span<const engine::sequence_step> sequences,
              const engine::interrupt_flag& interrupt) override;
  bool collect(const engine::interrupt_flag& interrupt, std::vector<engine::sampled_token>& sampled) override;
  engine::kv_geometry kv_pages() const noexcept override {
    if (!forward_) return {.page_positions = engine::kv_page_positions};
    return forward_->kv_geometry();
  }
  void begin(const engine::sequence_start& start) override;
  void extend(engine::slot_id slot, std::uint32_t group, std::uint32_t have,
              std::span<const engine::kv_page> pages) override {
    ORCD_ENSURE(!sequences_[static_cast<std::size_t>(slot)].own_pages);
    forward_->page_tables().add(static_cast<std::uint32_t>(slot), group, have, pages);
  }
  engine::result<void> put_adapter(std::uint32_t index, const engine::lora_adapter& adapter) override {
    ORCD_ENSURE(forward_.has_value());
    return forward_->adapters().put(index, adapter);
  }
  void drop_adapter(std::uint32_t index) noexcept override { forward_->adapters().drop(index); }
  void clear(std::uint32_t group, std::span<const engine::kv_page> pages) noexcept override {
    for (const engine::kv_page page : pages) {
      const bool of_states =
          forward_->kv_geometry().has_states() && group == forward_->kv_geometry().group_count;
      if (of_states)
        forward_->recurrence().clear_page(page);
      else
        forward_->clear(group, page);
    }
  }
  void wait_idle() noexcept override {}  // nothing goes on between two calls
  bool keep_state(engine::slot_id slot, const engine::state_copy& what) noexcept override {
    return forward_->recurrence().any() &&
           forward_->recurrence().save(static_cast<std::uint32_t>(slot), what);
  }
  void release(engine::slot_id slot) noexcept override;
  std::span<const float> logits(engine::slot_id slot) const noexcept override {
    return row_of(static_cast<std::uint32_t>(slot));
  }
  const char* name() const noexcept override { return "host"; }
  bool resident() const noexcept override { return false; }
  std::uint64_t vram_bytes() const noexcept override { return 0; }
  std::vector<std::string> audit() override { return {}; }  // nothing of it is in VRAM

 private:
  void begin_state(std::uint32_t slot, const engine::sequence_start& start);
  void place_weights(const std::function<void(unsigned)>& progress);
  void allocate(std::uint32_t context);
  void check_weights();
  /// Whether the step computes anything for the sequence.
  bool add_sequence(const engine::sequence_step& sequence);
  void add_requests(const engine::sequence_step& sequence);
  void add_tokens(const engine::sequence_step& part, std::span<const engine::token_id> tokens);
  /// Of the sequence's i-th token that samples, whose logits are in `row`.
  [[nodiscard]] engine::sampled_token choose(const engine::sequence_step& sequence, std::uint32_t i,
                                             std::uint32_t row);
  [[nodiscard]] std::span<const float> row_of(std::uint32_t row) const noexcept {
    return {logits_.get() + std::uint64_t{row} * model_.spec.vocab, model_.spec.vocab};
  }
  /// Gathers the states that the step has computed for pooled sequences, and finishes those that end with it.
  void pool(std::span<const engine::sequence_step> sequences, std::vector<engine::sampled_token>& done);

  /// What a slot's KV holds, and the token that may follow.
  struct held_sequence {
    std::vector<engine::token_id> tokens;
    std::optional<engine::token_id> next;  ///< sampled last
    bool ended = false;                    ///< by that token
    bool own_pages = true;                 ///< begin() has given it none
  };

  host_backend_options options_;
  host_weights weights_;  ///< empty while they are in the file
  engine::model model_;
  engine::accelerator_config config_;
  std::optional<host_forward> forward_;
  std::unique_ptr<float[]> logits_;       ///< [slots][vocab]
  std::vector<held_sequence> sequences_;  ///< [slots]
  std::vector<logits_request> requests_;  ///< of the step at hand
  std::vector<bool> computed_;            ///< likewise, by sequence: it had not ended before
  std::vector<std::vector<engine::sampled_token>> launched_;  ///< oldest first; capacity is kept
  std::uint32_t uncollected_ = 0;                             ///< of launched_
  std::uint32_t draft_tokens_ = 0;
  std::uint32_t draft_rows_ = 0;  ///< of the step at hand
  bool interrupted_ = false;      ///< a launched step stopped early
  engine::sampling_workspace sampling_;
  std::optional<host_pooling> pooling_;
  std::optional<host_media> media_;
};

engine::result<engine::memory_plan> host_backend::load(const engine::model& given,
                                                       const engine::accelerator_config& config,
                                                       const std::function<void(unsigned)>& progress) {
  if (forward_) return error(errc::model_load_failed, "this backend has a model already, it loads one once");
  if (config.slots == 0) return error(errc::model_load_failed, "slots is 0, at least 1 is needed");
  const engine::model m = with_parted_shapes(given);
  if (const auto enough = check_pages(config.kv_pages, context_of(m, config)); !enough) return enough.error();
  if (const auto supported = check_host_support(m); !supported) return supported.error();
  if (const auto room = check_adapter_room(m, config.adapters); !room) return room.error();
  const engine::memory_plan plan = plan_memory(m, config, options_);
  const auto fits = check_memory(plan, parted_bytes(given), options_.kv_bytes_max, config.weights.share);
  if (!fits) return fits.error();
  progress(0);
  config_ = config;
  options_.chunk_tokens = chunk_of(m, config, options_.chunk_tokens);
  model_ = given;
  if (const auto parted = part_joined_latents(model_, options_.threads); !parted) return parted.error();
  try {
    unsigned done = 0;
    place_weights([&](unsigned percent) { progress(done = percent); });
    const auto ternary = prepare_ternary_weights(
        model_, options_.threads, config.weights.imported.has_value(), [&] { progress(done); });
    if (!ternary) return ternary.error();
    allocate(context_of(m, config));
  } catch (const engine::accelerator_failure& failure) {
    return error(failure.code, failure.what());
  } catch (const std::bad_alloc&) {
    forward_.reset();
    return error(errc::insufficient_vram, "cannot allocate " +
                                              std::to_string(plan.total() - plan.weights_bytes) +
                                              " bytes for " + beside_weights(plan));
  }
  if (!config.weights.share && !config.weights.imported) read_weights(model_.weights, progress);
  progress(100);
  return plan;
}

/// The views of the model point into its file unless the weights are shared.
void host_backend::place_weights(const std::function<void(unsigned)>& progress) {
  if (config_.weights.imported) {
    weights_.import(model_, *config_.weights.imported, options_.threads, progress);
  } else if (config_.weights.share) {
    weights_.copy(model_, progress);
  }
}

engine::result<void> host_backend::map_weights(const engine::shared_weights& from) {
  try {
    weights_.map_again(from, options_.threads);
  } catch (const engine::accelerator_failure& failure) {
    return error(failure.code, failure.what());
  }
  return {};
}

void host_backend::allocate(std::uint32_t context) {
  const host_extents extents =
      host_extents::of(model_.spec, config_, context, options_.chunk_tokens, options_.launch_depth);
  const std::uint32_t rows = config_.slots + extents.draft_tokens;
  forward_.emplace(model_, extents, options_.threads, options_.tap, config_.cache, config_.adapters);
  logits_ = std::make_unique<float[]>(std::uint64_t{rows} * model_.spec.vocab);
  draft_tokens_ = extents.draft_tokens;
  sequences_.resize(config_.slots);
  for (held_sequence& sequence : sequences_) sequence.tokens.reserve(context);
  requests_.reserve(rows);
  computed_.reserve(config_.slots);
  launched_.resize(options_.launch_depth);
  for (auto& sampled : launched_) sampled.reserve(rows);
  sampling_.reserve(model_.spec.vocab, context);
  if (model_.spec.pooling) pooling_.emplace(model_, config_.slots);
  if (config_.media.encoder != nullptr) media_.emplace(model_.spec, config_.media, forward_->pool());
}

void host_backend::begin(const engine::sequence_start& start) {
  const auto slot = static_cast<std::uint32_t>(start.slot);
  ORCD_ENSURE(forward_.has_value() && slot < config_.slots && !start.pages.empty());
  ORCD_ENSURE(start.further.size() == forward_->kv_geometry().group_count);
  if (start.copy) forward_->copy(0, *start.copy);
  forward_->page_tables().set(slot, 0, 0, start.pages);
  const bool states = forward_->kv_geometry().has_states();
  for (std::uint32_t group = 1; group <= start.further.size() - (states ? 1 : 0); ++group) {
    const engine::group_pages& own = start.further[group - 1];
    if (own.copy) forward_->copy(group, *own.copy);
    forward_->page_tables().set(slot, group, own.first, own.pages);
  }
  forward_->adapters().use(slot, start.adapters);
  if (states) begin_state(slot, start);
  held_sequence& sequence = sequences_[slot];
  sequence.tokens.assign(start.held.begin(), start.held.end());
  sequence.next.reset();
  sequence.ended = false;
  sequence.own_pages = false;
}

/// What a state has of held tokens is in no page of keys.
void host_backend::begin_state(std::uint32_t slot, const engine::sequence_start& start) {
  const std::span<const engine::kv_page> pages = start.further.back().pages;
  ORCD_ENSURE(pages.size() == (start.held.empty() ? 0 : 1));
  if (pages.empty()) return;
  forward_->recurrence().load(slot, {static_cast<std::uint32_t>(start.held.size()), pages.front()});
}

void host_backend::release(engine::slot_id id) noexcept {
  const auto slot = static_cast<std::uint32_t>(id);
  ORCD_ENSURE(slot < sequences_.size());
  held_sequence& sequence = sequences_[slot];
  if (sequence.own_pages) {
    const std::size_t filled =
        (sequence.tokens.size() + engine::kv_page_positions - 1) / engine::kv_page_positions;
    clear(0, forward_->page_tables().of(slot, 0).first(filled));
  }
  forward_->page_tables().set_own(slot);
  forward_->adapters().use(slot, {});
  if (forward_->recurrence().any()) forward_->recurrence().clear(slot);
  sequence.tokens.clear();
  sequence.next.reset();
  sequence.ended = false;
  sequence.own_pages = true;
}

/// Positions continue the sequence or go back to a point of it; anything beyond was never computed.
bool host_backend::add_sequence(const engine::sequence_step& part) {
  const auto slot = static_cast<std::uint32_t>(part.slot);
  ORCD_ENSURE(slot < config_.slots && part.tokens.size() <= options_.chunk_tokens);
  held_sequence& sequence = sequences_[slot];
  const bool fed_back = part.tokens.empty();
  ORCD_ENSURE(!fed_back || (sequence.next && part.sample && part.sample->allowed.empty()));
  if (fed_back && sequence.ended) return false;
  ORCD_ENSURE(part.position <= sequence.tokens.size());
  ORCD_ENSURE((part.pool != nullptr) == pooling_.has_value());
  if (part.pool != nullptr) {
    ORCD_ENSURE(part.position + part.count() <= part.pool->tokens);
    ORCD_ENSURE(model_.spec.causal || part.count() == part.pool->tokens);
    forward_->set_form(slot, {model_.spec.causal ? 0 : part.pool->tokens, part.pool->second_segment});
  }
  if (!part.states.empty()) forward_->recurrence().copy_in_step(slot, part.states);
  add_tokens(part, fed_back ? std::span(&*sequence.next, 1) : part.tokens);
  if (part.sample) add_requests(part);
  return true;
}

/// The logits after the last token go to the slot's row, those before drafts to rows behind the slots'.
void host_backend::add_requests(const engine::sequence_step& part) {
  ORCD_ENSURE(part.samples == 1 || part.samples == part.tokens.size());
  ORCD_ENSURE(draft_rows_ + part.drafts() <= draft_tokens_);
  for (std::uint32_t i = 0; i < part.drafts(); ++i)
    requests_.push_back({forward_->columns() - part.samples + i, config_.slots + draft_rows_++});
  requests_.push_back({forward_->columns() - 1, static_cast<std::uint32_t>(part.slot)});
}

void host_backend::add_tokens(const engine::sequence_step& part, std::span<const engine::token_id> tokens) {
  const auto slot = static_cast<std::uint32_t>(part.slot);
  std::uint32_t position = part.position;
  auto& held = sequences_[slot].tokens;
  held.resize(position);
  for (const engine::token_id token : tokens) {
    if (token == engine::media_token) {
      ORCD_ENSURE(media_.has_value());
      constexpr engine::token_id any = 0;  // whose inputs of layers a row has
      const given_row row = media_->row_at(part.media, position);
      forward_->add_token(slot, position, any, engine::rotary_at(part, position), &row);
      ++position;
      held.push_back(token);
      continue;
    }
    if (token < 0 || static_cast<std::uint64_t>(token) >= model_.weights.token_embd.rows()) {
      forward_->discard_tokens();
      uncollected_ = 0;
      throw engine::accelerator_failure(errc::internal, "token id " + std::to_string(token) +
                                                            " is outside the model's vocabulary of " +
                                                            std::to_string(model_.weights.token_embd.rows()));
    }
    forward_->add_token(slot, position, token, engine::rotary_at(part, position));
    ++position;
    held.push_back(token);
  }
}

void host_backend::launch(std::span<const engine::sequence_step> sequences,
                          const engine::interrupt_flag& interrupt) {
  ORCD_ENSURE(forward_.has_value() && uncollected_ < options_.launch_depth);
  auto& sampled = launched_[uncollected_++];
  sampled.clear();
  if (interrupted_) return;  // the tokens that this step would go on from were not chosen
  requests_.clear();
  computed_.clear();
  draft_rows_ = 0;
  // Of a launch that threw.
  if (forward_->recurrence().any()) forward_->recurrence().forget_copies();
  for (const engine::sequence_step& sequence : sequences) computed_.push_back(add_sequence(sequence));
  if (forward_->columns() > 0 && !forward_->run(requests_, logits_.get(), interrupt)) {
    interrupted_ = true;
    return;
  }
  check_weights();
  if (pooling_) return pool(sequences, sampled);
  std::size_t row = 0;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    if (sequences[i].sample == nullptr) continue;
    if (!computed_[i]) {
      sampled.push_back({sequences[i].slot});
      continue;
    }
    for (std::uint32_t n = 0; n < sequences[i].samples; ++n)
      sampled.push_back(choose(sequences[i], n, requests_[row++].row));
  }
}

/// A step that began before the damage has read good weights; a step that ended after it may not have, so its
/// results are not used.
void host_backend::check_weights() {
  const bool from_file = !config_.weights.share && !config_.weights.imported;
  if (!options_.check_weights || !from_file) return;
  if (options_.check_weights()) return;
  uncollected_ = 0;
  throw engine::accelerator_failure(errc::internal, "the model file was changed while it was served");
}

void host_backend::pool(std::span<const engine::sequence_step> sequences,
                        std::vector<engine::sampled_token>& done) {
  std::uint32_t columns = 0;
  for (const auto& part : sequences) columns += part.count();
  const std::uint32_t width = model_.spec.embedding;
  const float* states = forward_->final_states(columns);
  for (const auto& part : sequences) {
    const auto slot = static_cast<std::uint32_t>(part.slot);
    const std::size_t values = std::size_t{part.count()} * width;
    pooling_->add(slot, part.position, {states, values});
    states += values;
    if (!part.ends_with_result()) continue;
    done.push_back({.slot = part.slot, .pooled = pooling_->take(slot, part.pool->tokens)});
  }
}

engine::sampled_token host_backend::choose(const engine::sequence_step& part, std::uint32_t i,
                                           std::uint32_t row) {
  held_sequence& sequence = sequences_[static_cast<std::uint32_t>(part.slot)];
  const engine::sample_request& wanted = part.sample[i];
  // What the token that is judged has seen: without the drafts behind it.
  const auto seen = std::span(sequence.tokens).first(sequence.tokens.size() - (part.samples - 1 - i));
  engine::sampled_token out{part.slot};
  out.token = engine::choose(row_of(row), *wanted.params, seen, config_.banned_tokens, wanted.draw, sampling_,
                             wanted.allowed);
  if (wanted.logprobs && out.token >= 0) {
    out.logprobs =
        engine::logprobs_after(row_of(row), *wanted.params, sampling_, out.token, wanted.top_logprobs);
  }
  const auto& ends = config_.end_of_generation;
  const bool is_end = wanted.stop_at_end && std::find(ends.begin(), ends.end(), out.token) != ends.end();
  sequence.next = out.token;
  sequence.ended = out.token < 0 || is_end || wanted.remaining <= 1;
  return out;
}

bool host_backend::collect(const engine::interrupt_flag&, std::vector<engine::sampled_token>& sampled) {
  ORCD_ENSURE(uncollected_ > 0);
  if (interrupted_) {
    interrupted_ = false;
    uncollected_ = 0;
    return false;
  }
  const auto oldest = launched_.begin();
  sampled.insert(sampled.end(), oldest->begin(), oldest->end());
  std::rotate(oldest, oldest + 1, oldest + uncollected_--);
  return true;
}

}  // namespace

std::unique_ptr<engine::accelerator> make_host_backend(host_backend_options options) {
  return std::make_unique<host_backend>(std::move(options));
}

engine::memory_plan plan_host_memory(const engine::model& m, const engine::accelerator_config& config) {
  return plan_memory(with_parted_shapes(m), config, {});
}

std::string_view host_isa_name() {
  return kernels::host::isa_name(kernels::host::kernels().level);
}

}  // namespace orcd::gpu
