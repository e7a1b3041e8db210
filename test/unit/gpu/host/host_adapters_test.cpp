// LoRA adapters on the host backend: equal to merged weights within the noise of f32, and to themselves bit
// for bit, whatever else is in the step and however the prompt is cut.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <vector>

#include "gpu/plan/adapter_layout.hpp"
#include "test/unit/gpu/adapter_rig.hpp"
#include "test/unit/gpu/tiny_backend.hpp"
#include "test/unit/model/gemma4_writer.hpp"

namespace {

using namespace orcd;
using engine::lora_target;
using engine::slot_id;
using test::distance;
using test::logits_list;
using test::run_of_one;

constexpr std::uint32_t context = test::adapter_rig::context;
const auto no_progress = [](unsigned) {};

/// The same on the host backend.
class rig : public test::adapter_rig {
 public:
  explicit rig(test::bytes image, std::uint32_t slots = 5, engine::adapter_room room = {6, 8})
      : adapter_rig(std::move(image), gpu::make_host_backend({.threads = 2}), slots, room) {}
};

std::vector<test::tiny_case> f32_models() {
  std::vector<test::tiny_case> out;
  // Of a kind of layer each; others of test/data/families are not in f32.
  for (const char* file : {"gemma2-keys", "command-r-keys"}) {
    test::tiny_case c{.name = file, .options = {}};
    c.options.file = file;
    out.push_back(std::move(c));
  }
  for (test::tiny_case c : test::every_tiny_model()) {
    if (!c.options.file.empty()) continue;
    c.options.mixture = false;
    c.options.weight_scales = false;
    c.options.tied_output = false;  // merging would change both
    c.options.matrix_type = engine::ggml_type::f32;
    c.options.embedding_type.reset();
    c.options.expert_type.reset();
    c.options.context = context;
    out.push_back(std::move(c));
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(host_adapters)

// The two round their sums differently, by some 1e-6 of a value. That makes some 1e-6 / 2^-11 of the keys and
// values round to the other f16, each by 2^-11: sqrt(2e-3) * 2^-11 = 2e-5 in the norm, and no more than a few
// times that behind two layers.
BOOST_AUTO_TEST_CASE(an_adapter_is_like_weights_that_it_is_merged_into) {
  for (const test::tiny_case& c : f32_models()) {
    const test::bytes image = test::make_tiny_model(c.options);
    rig with(image, 1);
    const test::tiny_adapter_options options{.rank = 4, .seed = 9, .size = 0.5F};
    const engine::lora_adapter adapter = test::make_tiny_adapter(with.model(), options);
    with.put(2, options);
    constexpr float strength = 0.75F;
    rig merged(test::merged(image, adapter, strength), 1);
    const auto prompt = with.prompt(1);
    const logits_list got = with.alone(prompt, {{2, strength}});
    const logits_list want = merged.alone(prompt, {});
    const logits_list bare = with.alone(prompt, {});
    BOOST_TEST(distance(bare.front(), want.front()) > 0.05, c.name << ": the adapter changes something");
    BOOST_TEST(distance(got.front(), want.front()) < 1e-4,
               c.name << ": " << distance(got.front(), want.front()));
  }
}

// Projections of delta nets, of Mamba-2 and of short convolutions, and what they give.
BOOST_AUTO_TEST_CASE(pairs_beside_what_layers_have_instead_of_attention_are_like_merged_weights) {
  for (const char* name : {"qwen35", "granitehybrid-dense", "lfm2"}) {
    test::tiny_model_options of;
    of.file = name;
    const test::bytes image = test::in_f32(test::make_tiny_model(of));
    const auto of_mixers = [](lora_target target) { return target >= lora_target::mix_in; };
    const test::tiny_adapter_options options{.rank = 4, .seed = 9, .size = 1.0F, .wanted = of_mixers};
    rig with(image, 1);
    const engine::lora_adapter adapter = test::make_tiny_adapter(with.model(), options);
    BOOST_TEST(adapter.pairs.size() >= 2U, name);
    with.put(2, options);
    rig merged(test::merged(image, adapter, 0.75F), 1);
    const auto prompt = with.prompt(1);
    const logits_list got = with.alone(prompt, {{2, 0.75F}});
    const logits_list want = merged.alone(prompt, {});
    const double changed = distance(with.alone(prompt, {}).front(), want.front());
    BOOST_TEST(changed > 0.05, name << ": " << changed);
    BOOST_TEST(distance(got.front(), want.front()) < 1e-4,
               name << ": " << distance(got.front(), want.front()));
  }
}

// Where values are keys, a pair beside the keys changes both.
BOOST_AUTO_TEST_CASE(a_pair_beside_keys_that_are_values_is_like_merged_weights) {
  const test::bytes image = test::gemma4({.experts = 4}).build();
  const auto beside_keys = [](lora_target target) { return target == lora_target::attn_k; };
  const test::tiny_adapter_options options{.rank = 4, .seed = 9, .size = 1.0F, .wanted = beside_keys};
  rig with(image, 1);
  with.put(2, options);
  rig merged(test::merged(image, test::make_tiny_adapter(with.model(), options), 0.75F), 1);
  const auto prompt = with.prompt(1);
  const logits_list got = with.alone(prompt, {{2, 0.75F}});
  const logits_list want = merged.alone(prompt, {});
  BOOST_TEST(distance(with.alone(prompt, {}).front(), want.front()) > 1e-2);
  BOOST_TEST(distance(got.front(), want.front()) < 1e-3, distance(got.front(), want.front()));
}

BOOST_AUTO_TEST_CASE(four_adapters_in_four_slots_are_like_each_alone) {
  for (const test::tiny_case& c : test::every_tiny_model()) {
    if (c.options.file.starts_with("deepseek2")) {
      const test::tiny_backend latents(c.options);
      BOOST_TEST(!gpu::check_adapter_room(latents.model(), {6, 8}), c.name << " takes none");
      continue;
    }
    auto options = c.options;
    options.context = context;
    const test::bytes image = test::make_tiny_model(options);
    rig r(image), plain(image, 5, {});
    r.put_four();
    std::vector<run_of_one> runs = r.five_runs();
    const std::vector<run_of_one> before = runs;
    r.run(runs);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      for (const std::uint32_t chunk : {1U, 16U}) {
        BOOST_TEST(test::same_logits(r.alone(before[i].pending, before[i].adapters, chunk), runs[i].logits),
                   c.name << ", sequence " << i << " in chunks of " << chunk);
      }
      for (std::size_t j = 0; j < i; ++j) BOOST_TEST(!test::same_logits(runs[i].logits, runs[j].logits));
    }
    BOOST_TEST(test::same_logits(plain.alone(before[2].pending, {}), runs[2].logits),
               c.name << ": a sequence without adapters is as on a backend without room for them");
  }
}

BOOST_AUTO_TEST_CASE(adapters_come_and_go_beside_a_running_sequence) {
  test::tiny_model_options options;
  options.context = context;
  rig r(test::make_tiny_model(options));
  r.put_four();
  const logits_list first = r.alone(r.prompt(1), {{0, 1.0F}});
  const logits_list second = r.alone(r.prompt(1), {{1, 1.0F}});
  std::vector<run_of_one> runs{{r.prompt(1), {{0, 1.0F}}, 4}};
  r.begin(0, runs[0]);
  BOOST_REQUIRE(r.step(runs));
  r.device().drop_adapter(1);
  BOOST_REQUIRE(r.step(runs));
  r.put(1, {.rank = 3, .seed = 77});
  r.put(4, {.rank = 8, .seed = 78});
  while (r.step(runs)) {
  }
  r.device().release(slot_id{0});
  BOOST_TEST(test::same_logits(runs[0].logits, first));
  BOOST_TEST(!test::same_logits(r.alone(r.prompt(1), {{1, 1.0F}}), second));
  r.put(1, {.rank = 1, .seed = 2, .size = 0.5F});
  BOOST_TEST(test::same_logits(r.alone(r.prompt(1), {{1, 1.0F}}), second));
}

BOOST_AUTO_TEST_CASE(room_is_planned_and_costs_nothing_where_there_is_none) {
  test::tiny_model_options options;
  options.context = context;
  const test::bytes image = test::make_tiny_model(options);
  rig none(image, 2, {0, 64}), some(image, 2, {1, 4}), more(image, 2, {3, 8});
  BOOST_TEST(none.plan.adapters_bytes == 0U);
  BOOST_TEST(some.plan.total() - none.plan.total() == some.plan.adapters_bytes);
  const engine::lora_adapter whole = test::make_tiny_adapter(more.model(), {.rank = 8});
  BOOST_TEST(more.plan.adapters_bytes > 3 * whole.values.size() * sizeof(float));
  BOOST_TEST(some.plan.adapters_bytes < more.plan.adapters_bytes);
  engine::accelerator_config config{.slots = 2, .context_tokens = context, .banned_tokens = {}};
  config.adapters = {3, 8};
  BOOST_TEST(gpu::plan_host_memory(more.model(), config).total() == more.plan.total());
}

BOOST_AUTO_TEST_CASE(a_model_of_embeddings_has_no_room) {
  test::tiny_model_options options;
  options.family = "bert";
  const test::bytes image = test::make_tiny_model(options);
  const auto file = engine::gguf_file::parse(image, "tiny").value();
  const auto model = engine::load_model(file).value();
  engine::accelerator_config config{.slots = 1, .context_tokens = 64, .banned_tokens = {}};
  config.adapters = {1, 8};
  const auto refused = gpu::make_host_backend()->load(model, config, no_progress);
  BOOST_TEST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().message.find("embeddings") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_the_model_or_the_room_is_refused_by_name) {
  test::tiny_model_options options;
  options.context = context;
  rig r(test::make_tiny_model(options));
  const engine::lora_adapter good = test::make_tiny_adapter(r.model(), {.rank = 4});
  const auto refusal = [&](auto change, std::uint32_t index = 0) {
    engine::lora_adapter bad = good;
    change(bad);
    const auto done = r.device().put_adapter(index, bad);
    return done ? std::string() : done.error().message;
  };
  const auto says = [](const std::string& message, const char* part) {
    BOOST_TEST(message.find(part) != std::string::npos, message << " says " << part);
  };
  says(refusal([](auto&) {}, 6), "number 6");
  says(refusal([](auto& a) { a.pairs[0].rank = 9; }), "rank 9 at blk.0.attn_q");
  says(refusal([](auto& a) { a.pairs[0].rank = 0; }), "rank 0");
  says(refusal([](auto& a) { a.pairs[0].layer = 2; }), "blk.2.attn_q");
  says(refusal([](auto& a) { a.pairs[0].target = lora_target::attn_qkv; }), "blk.0.attn_qkv");
  says(refusal([](auto& a) { a.pairs[1] = a.pairs[0]; }), "twice");
  says(refusal([](auto& a) { a.pairs[0].in = 63; }), "64 x 63");
  says(refusal([](auto& a) { ++a.pairs.back().out; }), "token_embd");
  says(refusal([](auto& a) { a.values.pop_back(); }), "lacks values");
  says(refusal([](auto& a) { a.pairs[0].a_at = ~0ULL; }), "lacks values");
  says(refusal([](auto& a) { a.pairs[0].scale = INFINITY; }), "not finite");
  BOOST_TEST(refusal([](auto&) {}).empty());
}

BOOST_AUTO_TEST_SUITE_END()
