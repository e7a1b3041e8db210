// Prompts and decoding sequences that share a pass have the bits that they have in steps of their own: logits
// of every family, and all that jobs get through the scheduler.
#include <algorithm>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "test/gpu/cuda/generated_cuda_model.hpp"
#include "test/support/drafted_run.hpp"
#include "test/unit/golden/golden_file.hpp"

namespace orcd::test {
namespace {

using engine::token_id;
namespace data = boost::unit_test::data;

/// Two texts, and the logits behind each number of tokens of them, computed one token a step.
struct known_texts {
  known_texts(loaded_cuda_model& alone, std::vector<token_id> first) {
    texts[0] = std::move(first);
    texts[1].assign(texts[0].rbegin(), texts[0].rend());
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::size_t at = 0; at < texts[i].size(); ++at)
        logits[i].push_back(alone.run(0, std::span(texts[i]).subspan(at, 1)));
      alone.release(0);
    }
  }
  std::vector<token_id> texts[2];
  std::vector<std::vector<float>> logits[2];
};

/// Many steps of many slots, each of which takes any number of tokens; compares what each gets.
void mix(loaded_cuda_model& together, std::uint32_t slots, const known_texts& known,
         const std::string& what) {
  std::minstd_rand random(slots);
  const auto length = static_cast<std::uint32_t>(known.texts[0].size());
  for (int step = 0; step < 60; ++step) {
    loaded_cuda_model::parts parts;
    for (std::uint32_t slot = 0; slot < slots; ++slot) {
      if (together.position(slot) == length || random() % 16 == 0) together.release(slot);
      // Mostly one token or none: few that decode and few prompts in all combinations.
      const std::uint32_t wish = random() % 3 == 0 ? 1 + random() % 19 : random() % 2;
      const std::uint32_t count = std::min(wish, length - together.position(slot));
      if (count == 0) continue;
      const std::vector<token_id>& text = known.texts[slot % 2];
      parts.emplace_back(slot, std::span(text).subspan(together.position(slot), count));
    }
    if (parts.empty()) continue;
    std::shuffle(parts.begin(), parts.end(), random);
    together.append(parts);
    for (const auto& [slot, tokens] : parts) {
      const auto& expected = known.logits[slot % 2][together.position(slot) - 1];
      BOOST_TEST((together.logits(slot) == expected),
                 what << ": step " << step << ", slot " << slot << " at " << together.position(slot)
                      << " after " << tokens.size() << " tokens beside " << parts.size() - 1);
    }
  }
  for (std::uint32_t slot = 0; slot < slots; ++slot) together.release(slot);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_passes)

BOOST_DATA_TEST_CASE(any_mix_of_prompts_and_decodes_has_the_bits_of_tokens_one_by_one,
                     data::make(tiny_golden_names()), name) {
  const tiny_golden golden = read_tiny_golden(name);
  const golden_case& c = golden.cases.front();
  loaded_cuda_model alone(golden.model, c.context, c.rope, {}, 1);
  const known_texts known(alone, c.tokens);
  for (const std::uint32_t slots : {2U, 7U, 20U}) {
    loaded_cuda_model together(golden.model, c.context, c.rope, {}, slots);
    mix(together, slots, known, name);
  }
}

BOOST_DATA_TEST_CASE(so_it_is_over_pages_and_with_every_cache, data::make(all_shape_names), name) {
  using engine::kv_type;
  const generated_model generated(name);
  for (const engine::kv_types kv : {engine::kv_types{}, engine::kv_types{kv_type::q8_0, kv_type::q8_0},
                                    engine::kv_types{kv_type::bf16, kv_type::bf16}}) {
    if (name.starts_with("deepseek2") && kv != engine::kv_types{}) continue;  // rows of latents are f16
    std::vector<token_id> text(300);
    std::minstd_rand random(7);
    loaded_cuda_model alone(generated.path(), 512, {}, {}, 1, kv);
    for (token_id& token : text) token = static_cast<token_id>(random() % alone.vocab());
    const known_texts known(alone, text);
    // A step of which not all prompts fit a pass comes as several.
    for (const std::uint32_t chunk : {32U, 512U}) {
      loaded_cuda_model together(generated.path(), 512, {}, {.chunk_tokens = chunk}, 12, kv);
      mix(together, 12, known, name + " with keys of " + std::string(to_string(kv.keys)));
    }
  }
}

// More prompts than one launch of attention takes, a decode beside them.
BOOST_AUTO_TEST_CASE(a_pass_of_eighty_prompts_has_the_bits_of_each_alone) {
  constexpr std::uint32_t slots = 81;
  const generated_model generated("qwen2");
  loaded_cuda_model alone(generated.path(), 256, {}, {}, 1);
  std::vector<token_id> text(40);
  std::minstd_rand random(8);
  for (token_id& token : text) token = static_cast<token_id>(random() % alone.vocab());
  const known_texts known(alone, text);
  loaded_cuda_model together(generated.path(), 256, {}, {}, slots);
  together.run(0, std::span(known.texts[0]).first(20));
  loaded_cuda_model::parts parts{{0, std::span(known.texts[0]).subspan(20, 1)}};
  for (std::uint32_t slot = 1; slot < slots; ++slot)
    parts.emplace_back(slot, std::span(known.texts[slot % 2]).first(2 + slot % 8));
  together.append(parts);
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    BOOST_TEST((together.logits(slot) == known.logits[slot % 2][together.position(slot) - 1]),
               "slot " << slot);
  }
}

// Through the scheduler: tokens, log probabilities, scores and ends, with drafts and without, while other
// jobs come and go. Alone a job's prompt and its decodes never share a pass.
BOOST_DATA_TEST_CASE(jobs_get_what_they_get_alone, data::make(all_shape_names), name) {
  const generated_model generated(name);
  const auto file = engine::gguf_file::open(generated.path()).value();
  const auto model = engine::load_model(file, 512, {}).value();
  scheduled_limits limits{.slots = 1, .vocab = model.spec.vocab, .context = 512, .end_of_generation = {5}};
  const auto make = [&](std::uint32_t slots, std::uint32_t chunk) {
    auto device = gpu::make_cuda_backend({.end = gpu::device_end::keep, .chunk_tokens = chunk});
    engine::accelerator_config config{slots, 512, {}};
    config.end_of_generation = limits.end_of_generation;
    config.draft_tokens = slots > 1 ? 40 : 0;
    const auto loaded = device->load(model, config, [](unsigned) {});
    BOOST_REQUIRE_MESSAGE(loaded.has_value(), (loaded ? "" : loaded.error().message));
    return device;
  };
  const auto plain = run_drafted(*make(1, 512), limits, {});
  for (const std::uint32_t slots : {4U, 10U}) {
    limits.slots = slots;
    for (const std::uint32_t chunk : {48U, 512U}) {
      const auto device = make(slots, chunk);
      const std::string what =
          name + ": " + std::to_string(slots) + " slots, chunks of " + std::to_string(chunk);
      BOOST_TEST(difference(run_drafted(*device, limits, {}), plain) == "", what);
      coming_and_going disturb(limits);
      BOOST_TEST(difference(run_drafted(*device, limits, {}, -1, disturb), plain) == "",
                 what << ", disturbed");
      coming_and_going again(limits);
      const auto drafted = run_drafted(*device, limits, knowing(plain, limits, 3, 0.3), -1, again);
      BOOST_TEST(difference(drafted, plain) == "", what << ", with drafts");
      BOOST_TEST(drafted.drafts.right > 20U);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
