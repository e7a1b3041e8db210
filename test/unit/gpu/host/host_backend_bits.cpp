// Same request, same bits: whatever the chunk size, the batch, the slot, the threads or the x86 level.
#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "engine/sampling/sampling.hpp"
#include "kernels/host/kernel_table.hpp"
#include "test/unit/gpu/tiny_backend.hpp"

namespace {

using namespace orcd;
using engine::slot_id;
using logits_list = std::vector<std::vector<float>>;

constexpr std::uint32_t prompt_tokens = 37;
constexpr std::uint32_t decoded_tokens = 4;

/// One sequence of a mixed step: prefills in chunks of its own size, then decodes.
struct running_sequence {
  slot_id slot{};
  std::vector<engine::token_id> pending;
  std::uint32_t chunk = 1;
  std::uint32_t position = 0;
  logits_list logits;

  [[nodiscard]] std::uint32_t next() const {
    return std::min<std::uint32_t>(chunk, static_cast<std::uint32_t>(pending.size()));
  }
  [[nodiscard]] bool samples() const { return next() == pending.size(); }
};

/// One step over all sequences that are not finished.
void step_together(engine::accelerator& device, std::vector<running_sequence*> running) {
  const engine::interrupt_flag never{false};
  const engine::sampling_params greedy{.temperature = 0.0F};
  const engine::sample_request request{.params = &greedy, .draw = 0.0};
  std::vector<engine::sequence_step> steps;
  for (const running_sequence* s : running) {
    steps.push_back({.slot = s->slot,
                     .position = s->position,
                     .tokens = {s->pending.data(), s->next()},
                     .sample = s->samples() ? &request : nullptr});
  }
  std::vector<engine::sampled_token> sampled;
  BOOST_TEST_REQUIRE(device.step(steps, never, sampled));
  auto token = sampled.begin();
  for (running_sequence* s : running) {
    s->position += s->next();
    if (!s->samples()) {
      s->pending.erase(s->pending.begin(), s->pending.begin() + s->next());
      continue;
    }
    BOOST_TEST_REQUIRE((token->slot == s->slot));
    s->pending = {(token++)->token};
    const auto row = device.logits(s->slot);
    s->logits.emplace_back(row.begin(), row.end());
  }
  BOOST_TEST((token == sampled.end()), "one token per sequence that asked");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(host_backend_bits)

BOOST_AUTO_TEST_CASE(chunk_size_does_not_matter) {
  for (const test::tiny_case& c : test::every_tiny_model()) {
    test::tiny_backend backend(c.options, {.threads = 1, .chunk_tokens = 64});
    const auto prompt = backend.prompt(prompt_tokens, 1);
    const logits_list want = backend.generate(slot_id{0}, prompt, decoded_tokens, 1);
    for (const std::uint32_t chunk : {3U, 7U, 16U, 64U}) {
      backend.device().release(slot_id{0});
      BOOST_TEST(test::same_logits(want, backend.generate(slot_id{0}, prompt, decoded_tokens, chunk)),
                 c.name << " in chunks of " << chunk);
    }
    backend.device().release(slot_id{0});
    const auto other = backend.generate(slot_id{0}, backend.prompt(prompt_tokens, 2), decoded_tokens, 16);
    BOOST_TEST(!test::same_logits(want, other), c.name << ": another prompt gives other logits");
  }
}

BOOST_AUTO_TEST_CASE(a_batch_of_prefill_and_decode_changes_nothing) {
  for (const test::tiny_case& c : test::every_tiny_model()) {
    test::tiny_backend backend(c.options, {.threads = 2, .chunk_tokens = 16}, 3);
    std::vector<running_sequence> sequences(3);
    std::vector<logits_list> alone;
    const std::uint32_t lengths[] = {5, 29, 41}, chunks[] = {16, 7, 16};
    for (std::uint32_t i = 0; i < 3; ++i) {
      const auto prompt = backend.prompt(lengths[i], i + 10);
      alone.push_back(backend.generate(slot_id{0}, prompt, decoded_tokens, 16));
      backend.device().release(slot_id{0});
      sequences[i] = {
          .slot = slot_id{2 - i}, .pending = prompt, .chunk = chunks[i], .position = 0, .logits = {}};
    }
    // The third joins two steps late, so that it prefills while the others decode.
    for (int step = 0; step < 12; ++step) {
      std::vector<running_sequence*> running;
      for (std::uint32_t i = 0; i < 3; ++i) {
        if (sequences[i].logits.size() <= decoded_tokens && (i != 2 || step >= 2))
          running.push_back(&sequences[i]);
      }
      if (!running.empty()) step_together(backend.device(), running);
    }
    for (std::uint32_t i = 0; i < 3; ++i) {
      BOOST_TEST(test::same_logits(alone[i], sequences[i].logits),
                 c.name << " sequence " << i << " in a batch");
    }
  }
}

BOOST_AUTO_TEST_CASE(kv_types_keep_their_bits_in_every_chunk_and_slot) {
  using engine::kv_type;
  for (const test::tiny_case& c : test::every_tiny_model()) {
    struct seen_logits {
      engine::kv_types kv;
      logits_list logits;
    };
    std::vector<seen_logits> seen;
    for (const engine::kv_types kv :
         {engine::kv_types{}, engine::kv_types{kv_type::q8_0, kv_type::q8_0},
          engine::kv_types{kv_type::bf16, kv_type::q8_0}, engine::kv_types{kv_type::q8_0, kv_type::bf16}}) {
      test::tiny_backend backend(c.options, {.threads = 2, .chunk_tokens = 64}, 2, kv);
      const auto prompt = backend.prompt(prompt_tokens, 6);
      const logits_list want = backend.generate(slot_id{0}, prompt, decoded_tokens, 1);
      BOOST_TEST(test::same_logits(want, backend.generate(slot_id{1}, prompt, decoded_tokens, 64)),
                 c.name << " with K " << to_string(kv.keys) << ", V " << to_string(kv.values));
      for (const seen_logits& other : seen) {
        // Latents are cached as keys alone.
        const bool same = backend.model().spec.latent && other.kv.keys == kv.keys;
        BOOST_TEST(test::same_logits(want, other.logits) == same,
                   c.name << ": another type gives other logits");
      }
      seen.push_back({kv, want});
    }
  }
}

BOOST_AUTO_TEST_CASE(threads_and_levels_do_not_matter) {
  using kernels::host::isa_level;
  const auto& before = kernels::host::kernels();
  for (const test::tiny_case& c : test::every_tiny_model()) {
    logits_list want;
    for (const isa_level level : {isa_level::baseline, isa_level::v3, isa_level::v4}) {
      const auto* table = kernels::host::kernels_of(level);
      if (table == nullptr) continue;
      kernels::host::use_kernels(*table);
      for (const unsigned threads : {1U, 3U}) {
        test::tiny_backend backend(c.options, {.threads = threads});
        const auto got = backend.generate(slot_id{0}, backend.prompt(prompt_tokens, 3), decoded_tokens, 16);
        if (want.empty()) want = got;
        BOOST_TEST(test::same_logits(want, got),
                   c.name << " on " << isa_name(level) << ", " << threads << " threads");
      }
    }
  }
  kernels::host::use_kernels(before);
}

BOOST_AUTO_TEST_CASE(a_used_slot_is_like_a_new_one) {
  for (const test::tiny_case& c : test::every_tiny_model()) {
    test::tiny_backend fresh(c.options);
    const auto prompt = fresh.prompt(9, 4);
    const logits_list want = fresh.generate(slot_id{0}, prompt, decoded_tokens, 16);
    test::tiny_backend used(c.options);
    (void)used.generate(slot_id{0}, used.prompt(100, 5), 20, 16);
    used.device().release(slot_id{0});
    BOOST_TEST(test::same_logits(want, used.generate(slot_id{0}, prompt, decoded_tokens, 16)), c.name);
  }
}

BOOST_AUTO_TEST_SUITE_END()
