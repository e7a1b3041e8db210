// What a rejected draft has left in the KV cache is read by nobody: NaN in its place changes no bit.
#include <sys/mman.h>

#include <boost/test/unit_test.hpp>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "gpu/host/host_backend.hpp"
#include "kernels/host/attention.hpp"
#include "test/support/drafted_run.hpp"
#include "test/unit/gpu/tiny_backend.hpp"

namespace orcd::test {
namespace {

constexpr std::uint32_t context = 512;
constexpr std::uint16_t half_nan = 0x7E00;

/// The f16 KV cache of a host backend that shares it.
class mapped_cache {
 public:
  mapped_cache(const engine::shared_cache& cache, const engine::model_spec& spec, std::uint32_t pages)
      : spec_(spec), pages_(pages), bytes_(cache.bytes) {
    void* const at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, cache.descriptor, 0);
    BOOST_REQUIRE(at != MAP_FAILED);
    halves_ = static_cast<std::uint16_t*>(at);
  }
  mapped_cache(const mapped_cache&) = delete;
  mapped_cache& operator=(const mapped_cache&) = delete;
  ~mapped_cache() { munmap(halves_, bytes_); }

  /// Fills the keys and values of a position with NaN, in all layers.
  void spoil(engine::kv_page page, std::uint32_t place) {
    std::uint64_t part = 0;
    for (const engine::layer_spec& layer : spec_.layers) {
      for (const std::uint32_t width : {layer.key_length, spec_.cached_value_length(layer)}) {
        for (std::uint32_t head = 0; head < layer.cached_heads(); ++head) {
          const std::uint64_t row = kernels::attention_first_row(page, layer.cached_heads(), head) + place;
          std::fill_n(halves_ + part + row * width, width, half_nan);
        }
        part += std::uint64_t{pages_} * layer.cached_heads() * engine::kv_page_positions * width;
      }
    }
    BOOST_REQUIRE(part * sizeof(std::uint16_t) <= bytes_);
  }

 private:
  const engine::model_spec& spec_;
  std::uint32_t pages_;
  std::uint64_t bytes_;
  std::uint16_t* halves_ = nullptr;
};

/// Hands everything on, and spoils the places of drafts that were wrong as soon as that is known; or, to see
/// whether anybody would notice, that of the last one that was right.
class spoils_rejected final : public depth_limit {
 public:
  spoils_rejected(engine::accelerator& device, mapped_cache& cache, bool last_right)
      : depth_limit(device, device.launch_depth()), cache_(cache), last_right_(last_right) {}

  void begin(const engine::sequence_start& start) override {
    pages_[static_cast<std::uint32_t>(start.slot)].assign(start.pages.begin(), start.pages.end());
    depth_limit::begin(start);
  }
  void extend(engine::slot_id slot, std::uint32_t group, std::uint32_t have,
              std::span<const engine::kv_page> pages) override {
    BOOST_REQUIRE(group == 0U);
    auto& all = pages_[static_cast<std::uint32_t>(slot)];
    BOOST_REQUIRE(all.size() == have);
    all.insert(all.end(), pages.begin(), pages.end());
    depth_limit::extend(slot, group, have, pages);
  }
  void launch(std::span<const engine::sequence_step> sequences,
              const engine::interrupt_flag& interrupt) override {
    auto& parts = launched_.emplace_back();
    for (const auto& part : sequences) {
      if (!part.ends_with_result()) continue;
      parts.push_back({static_cast<std::uint32_t>(part.slot), part.position, part.drafts(), {}});
      if (part.drafts() > 0) parts.back().tokens.assign(part.tokens.begin(), part.tokens.end());
    }
    depth_limit::launch(sequences, interrupt);
  }
  bool collect(const engine::interrupt_flag& interrupt,
               std::vector<engine::sampled_token>& sampled) override {
    const std::size_t before = sampled.size();
    const bool whole = depth_limit::collect(interrupt, sampled);
    const auto parts = std::move(launched_.front());
    launched_.pop_front();
    if (!whole) return false;
    std::size_t at = before;
    for (const launched& part : parts) {
      spoil(part, std::span(sampled).subspan(at, part.drafts + 1));
      at += part.drafts + 1;
    }
    BOOST_REQUIRE(at == sampled.size());
    return true;
  }
  [[nodiscard]] std::uint32_t spoilt() const { return spoilt_; }

 private:
  struct launched {
    std::uint32_t slot, position, drafts;
    std::vector<engine::token_id> tokens;
  };

  void spoil(const launched& part, std::span<const engine::sampled_token> results) {
    std::uint32_t right = 0;
    while (right < part.drafts && results[right].token == part.tokens[right + 1]) ++right;
    if (last_right_ && right > 0) spoil_position(part.slot, part.position + right);
    if (last_right_) return;
    for (std::uint32_t i = right + 1; i <= part.drafts; ++i) spoil_position(part.slot, part.position + i);
  }
  void spoil_position(std::uint32_t slot, std::uint32_t position) {
    cache_.spoil(pages_[slot].at(position / engine::kv_page_positions), position % engine::kv_page_positions);
    ++spoilt_;
  }

  mapped_cache& cache_;
  bool last_right_;
  std::map<std::uint32_t, std::vector<engine::kv_page>> pages_;
  std::deque<std::vector<launched>> launched_;
  std::uint32_t spoilt_ = 0;
};

/// A family's jobs, plainly and with drafts of which some are wrong.
class spoiling_bench {
 public:
  explicit spoiling_bench(const tiny_case& model) : source_(with_context(model)) {
    limits_.vocab = source_.model().spec.vocab;
    limits_.context = context;
    limits_.slots = 1;
    plain_ = run_drafted(*make(1, false), limits_, {});
    limits_.slots = slots;
  }
  /// What differs from plain decoding, and how many places were spoilt.
  [[nodiscard]] std::pair<std::string, std::uint32_t> run(bool last_right, std::uint32_t always) {
    const auto device = make(slots, true);
    mapped_cache cache(*device->exported_cache(), source_.model().spec, device->kv_pages().pages);
    spoils_rejected spoils(*device, cache, last_right);
    const auto seen = run_drafted(spoils, limits_, knowing(plain_, limits_, always, 0.3));
    return {difference(seen, plain_), spoils.spoilt()};
  }

 private:
  static constexpr std::uint32_t slots = 3;

  static tiny_model_options with_context(const tiny_case& model) {
    auto options = model.options;
    options.context = context;
    return options;
  }
  [[nodiscard]] std::unique_ptr<engine::accelerator> make(std::uint32_t count, bool share) const {
    auto device = gpu::make_host_backend({.threads = 1, .chunk_tokens = 16, .launch_depth = 2});
    engine::accelerator_config config{.slots = count, .context_tokens = context, .banned_tokens = {}};
    config.draft_tokens = 64;
    config.cache.share = share;
    (void)device->load(source_.model(), config, [](unsigned) {}).value();
    return device;
  }

  tiny_backend source_;
  scheduled_limits limits_;
  drafted_run plain_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(rejected_drafts)

BOOST_AUTO_TEST_CASE(what_they_leave_changes_nothing) {
  for (const tiny_case& model : every_tiny_model()) {
    spoiling_bench bench(model);
    for (const std::uint32_t always : {4U, 15U}) {
      const auto [found, spoilt] = bench.run(false, always);
      BOOST_TEST(found == "", model.name << ", " << always << " drafts");
      BOOST_TEST(spoilt > 50U, model.name);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_right_ones_leave_is_read) {
  spoiling_bench bench(every_tiny_model().front());
  const auto [found, spoilt] = bench.run(true, 4);
  BOOST_TEST(found != "");
  BOOST_TEST(spoilt > 0U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
