// How much of the prompts of agents' conversations the prefix cache spares, with layers that keep only their
// windows and without, in the same bytes. The accelerator computes nothing; what counts is the scheduler's.
// Conversations: a system prompt and tools that all have, then turns of a question or a tool's result and an
// answer; now and then one goes back some turns and on from there, or asks for four answers to a prompt.
// Usage: bench_prefix_hits [conversations [slots]]
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/instant_accelerator.hpp"
#include "engine/schedule/scheduler.hpp"
#include "gpu/kv_groups.hpp"

namespace {

using namespace orcd;
using engine::token_id;

constexpr std::uint32_t turns = 20;
constexpr std::uint32_t chunk = 2'048;

/// Answers every request for a token at once.
class paged_accelerator final : public bench::instant_accelerator {
 public:
  explicit paged_accelerator(const engine::kv_geometry& geometry) : geometry_(geometry) {}
  std::uint32_t chunk_tokens() const noexcept override { return chunk; }
  engine::kv_geometry kv_pages() const noexcept override { return geometry_; }
  void launch(std::span<const engine::sequence_step> sequences, const engine::interrupt_flag&) override {
    for (const auto& part : sequences) {
      if (part.sample != nullptr) asked_.push_back({part.slot, static_cast<token_id>(random_() % 30'000)});
    }
  }
  bool collect(const engine::interrupt_flag&, std::vector<engine::sampled_token>& sampled) override {
    sampled.insert(sampled.end(), asked_.begin(), asked_.end());
    asked_.clear();
    return true;
  }

 private:
  engine::kv_geometry geometry_;
  std::mt19937 random_{7};
  std::vector<engine::sampled_token> asked_;
};

/// Of one job: what it gave.
class answer final : public engine::event_sink {
 public:
  void offer(const engine::job_event& event) noexcept override {
    if (const auto* token = std::get_if<engine::token_event>(&event)) tokens.push_back(token->token);
    if (const auto* end = std::get_if<engine::end_event>(&event)) {
      stats = end->stats;
      ended = true;
    }
    if (std::holds_alternative<engine::error_event>(event)) std::abort();  // nobody fails
  }
  std::vector<token_id> tokens;
  engine::job_stats stats;
  bool ended = false;
};

struct totals {
  std::uint64_t prompt = 0, cached = 0;
};

class conversation {
 public:
  conversation(std::uint32_t number, std::vector<token_id> begin)
      : number_(number), random_(number), tokens_(std::move(begin)) {
    system_ = static_cast<std::uint32_t>(tokens_.size());
  }
  /// Goes on if its last answer is there; false: it has ended.
  bool go_on(engine::scheduler& loop, totals& sums) {
    for (const auto& one : open_) {
      if (!one->ended) return true;
    }
    for (const auto& one : open_) {
      sums.prompt += one->stats.tokens_in;
      sums.cached += one->stats.tokens_cached;
    }
    if (!open_.empty()) tokens_.insert(tokens_.end(), open_[0]->tokens.begin(), open_[0]->tokens.end());
    open_.clear();
    if (turn_ == turns) return false;
    ends_.push_back(tokens_.size());
    if (turn_ % 7 == 6) tokens_.resize(ends_[turn_ - 3]);  // goes back three turns
    const bool result = turn_ % 2 == 1;
    add(result ? 200 + random_() % 1'300 : 30 + random_() % 200);
    const std::uint32_t count = turn_ % 10 == 4 ? 4 : 1;
    for (std::uint32_t i = 0; i < count; ++i) ask(loop, i);
    ++turn_;
    return true;
  }

 private:
  void add(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) tokens_.push_back(static_cast<token_id>(random_() % 30'000));
  }
  void ask(engine::scheduler& loop, std::uint32_t of_several) {
    engine::job_request job;
    job.job_id = std::to_string(number_) + "." + std::to_string(turn_) + "." + std::to_string(of_several);
    job.prompt = tokens_;
    job.max_tokens = 50 + random_() % 350;
    job.ignore_eos = true;
    job.cache.system_tokens = system_;
    open_.push_back(std::make_shared<answer>());
    loop.submit(std::move(job), open_.back());
  }

  std::uint32_t number_, system_ = 0, turn_ = 0;
  std::mt19937 random_;
  std::vector<token_id> tokens_;
  std::vector<std::size_t> ends_;
  std::vector<std::shared_ptr<answer>> open_;
};

struct shape {
  const char* name;
  std::uint32_t layers, period, full_heads, full_width, heads, width, window;
};

engine::model_spec spec_of(const shape& s) {
  engine::model_spec out;
  for (std::uint32_t i = 0; i < s.layers; ++i) {
    const bool full = (i + 1) % s.period == 0;
    engine::layer_spec layer;
    layer.kv_heads = full ? s.full_heads : s.heads;
    layer.key_length = layer.value_length = full ? s.full_width : s.width;
    layer.window = full ? 0 : s.window;
    out.layers.push_back(layer);
  }
  return out;
}

struct played {
  totals sums;
  std::uint64_t preemptions = 0;
};

played play(const engine::kv_geometry& geometry, std::uint32_t conversations, std::uint32_t slots) {
  paged_accelerator device(geometry);
  engine::scheduler_config config;
  config.slots = slots;
  engine::scheduler loop(device, config);
  std::mt19937 random(1);
  std::vector<token_id> begin(5'000);
  for (token_id& id : begin) id = static_cast<token_id>(random() % 30'000);
  std::vector<conversation> all;
  for (std::uint32_t i = 0; i < conversations; ++i) all.emplace_back(i, begin);
  played out;
  for (bool some = true; some;) {
    some = false;
    for (conversation& one : all) some = one.go_on(loop, out.sums) || some;
    (void)loop.run_step();
  }
  out.preemptions = loop.counts().preemptions;
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, std::uint32_t usual) {
    return argc > i ? static_cast<std::uint32_t>(std::strtoul(argv[i], nullptr, 10)) : usual;
  };
  const std::uint32_t conversations = argument(1, 24);
  const std::uint32_t slots = argument(2, 8);
  const std::uint32_t context = 32'768;
  std::printf(
      "%u conversations of %u turns, %u slots of %u positions; a cache of as many bytes as %u contexts\n",
      conversations, turns, slots, context, slots);
  for (const shape& s :
       {shape{"gpt-oss-20b", 24, 2, 8, 64, 8, 64, 128}, shape{"Gemma-3-12B", 48, 6, 8, 256, 8, 256, 1'024},
        shape{"Gemma-4-31B", 60, 6, 4, 512, 16, 256, 1'024}}) {
    const engine::model_spec spec = spec_of(s);
    gpu::kv_demand demand{.slots = slots, .context = context, .ahead = {1, chunk, 0}, .window_groups = false};
    const gpu::kv_groups whole = gpu::kv_groups::of(spec, demand);
    const auto tell = [&](const char* what, const gpu::kv_groups& groups) {
      const played got = play(groups.geometry, conversations, slots);
      std::printf("%-12s %-28s %8u pages of group 0, %5.1f GB: %5.1f %% of %llu prompt tokens spared\n",
                  s.name, what, groups.geometry.pages, static_cast<double>(groups.bytes()) / 1e9,
                  100.0 * static_cast<double>(got.sums.cached) / static_cast<double>(got.sums.prompt),
                  static_cast<unsigned long long>(got.sums.prompt));
    };
    tell("all layers keep everything", whole);
    demand.window_groups = true;
    for (const std::uint32_t share : {0U, 62U, 125U, 250U, 500U, 1'000U}) {
      demand.boundaries = {.thousandths = share};
      demand.pages = whole.geometry.pages;
      tell((std::to_string(share) + " thousandths for boundaries").c_str(), gpu::kv_groups::of(spec, demand));
      while (gpu::kv_groups::of(spec, demand).bytes() < whole.bytes()) ++demand.pages;
      tell((std::to_string(share) + " thousandths for boundaries").c_str(), gpu::kv_groups::of(spec, demand));
    }
  }
  return 0;
}
