// Loading, planning, interruption, taps and allocation of the host backend.
#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <functional>
#include <new>
#include <set>

#include "engine/sampling/sampling.hpp"
#include "engine/worker_state.hpp"
#include "kernels/host/attention.hpp"
#include "test/unit/gpu/tiny_adapter.hpp"
#include "test/unit/gpu/tiny_backend.hpp"

namespace {
std::atomic<std::uint64_t> allocations{0};
}

// Counts what this executable allocates, to see that a step allocates nothing.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes);
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}

namespace {

using namespace orcd;
using engine::slot_id;

const engine::sampling_params greedy{.temperature = 0.0F};
const engine::sample_request request{.params = &greedy, .draw = 0.0};

engine::accelerator_config one_slot() {
  return {.slots = 1, .context_tokens = 64, .banned_tokens = {}};
}

template <class Change>
test::tiny_model_options tiny(Change change) {
  test::tiny_model_options options;
  change(options);
  return options;
}

const auto no_progress = [](unsigned) {};

}  // namespace

BOOST_AUTO_TEST_SUITE(host_backend)

BOOST_AUTO_TEST_CASE(progress_rises_from_0_to_100_and_the_plan_is_kept) {
  test::tiny_backend other(tiny([](auto& o) { o.embedding = 256, o.ffn = 1024; }));
  const auto device = gpu::make_host_backend();
  std::vector<unsigned> told;
  const auto plan =
      device->load(other.model(), one_slot(), [&](unsigned percent) { told.push_back(percent); });
  BOOST_TEST_REQUIRE(plan.has_value());
  BOOST_TEST(told.front() == 0U);
  BOOST_TEST(told.back() == 100U);
  BOOST_TEST(told.size() > 10U);
  BOOST_TEST((std::adjacent_find(told.begin(), told.end(), std::greater_equal<>()) == told.end()));
  const engine::memory_plan planned = gpu::plan_host_memory(other.model(), one_slot());
  BOOST_TEST(planned.total() == plan->total());
  const engine::model_spec& spec = other.model().spec;
  BOOST_TEST(planned.kv_bytes == spec.kv_bytes_per_token() * 256);
  BOOST_TEST(planned.logits_bytes == spec.vocab * 4ULL);
  BOOST_TEST(planned.workspace_bytes > 0U);
  BOOST_TEST(planned.weights_bytes > 2ULL * 3 * 256 * 1024 * 4);
}

BOOST_AUTO_TEST_CASE(the_plan_follows_the_types_of_keys_and_values) {
  // One page for 64 positions, 2 layers of 2 kv heads of 64 values: 128 bytes each in f16 and bf16, two
  // blocks of 34 in q8_0.
  test::tiny_backend wide(tiny([](auto& o) { o.head_dim = 64; }));
  const auto kv_bytes = [&](engine::kv_types kv) {
    auto config = one_slot();
    config.kv = kv;
    const auto planned = gpu::plan_host_memory(wide.model(), config);
    const auto loaded = gpu::make_host_backend()->load(wide.model(), config, no_progress);
    BOOST_TEST(loaded->kv_bytes == planned.kv_bytes);
    return planned.kv_bytes;
  };
  using engine::kv_type;
  BOOST_TEST(kv_bytes({}) == 256U * 2 * 2 * (128 + 128));
  BOOST_TEST(kv_bytes({kv_type::bf16, kv_type::bf16}) == 256U * 2 * 2 * (128 + 128));
  BOOST_TEST(kv_bytes({kv_type::q8_0, kv_type::f16}) == 256U * 2 * 2 * (68 + 128));
  BOOST_TEST(kv_bytes({kv_type::bf16, kv_type::q8_0}) == 256U * 2 * 2 * (128 + 68));
  BOOST_TEST(kv_bytes({kv_type::q8_0, kv_type::q8_0}) == 256U * 2 * 2 * (68 + 68));
}

BOOST_AUTO_TEST_CASE(a_tied_output_is_planned_once) {
  test::tiny_backend tied(tiny([](auto&o) { o.tied_output = true; })), untied({});
  const auto bytes = [](const test::tiny_backend& b) {
    return gpu::plan_host_memory(b.model(), one_slot()).weights_bytes;
  };
  BOOST_TEST(bytes(untied) - bytes(tied) == untied.model().weights.output.bytes);
}

BOOST_AUTO_TEST_CASE(the_second_load_is_refused) {
  test::tiny_backend backend({});
  const auto again = backend.device().load(backend.model(), one_slot(), no_progress);
  BOOST_TEST_REQUIRE(!again.has_value());
  BOOST_TEST(again.error().message.find("already") != std::string::npos);
  BOOST_TEST(!backend.generate(slot_id{0}, backend.prompt(3, 1), 1, 16).empty());
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused_with_figures) {
  test::tiny_backend source({});
  const std::uint64_t kv = gpu::plan_host_memory(source.model(), one_slot()).kv_bytes;
  const auto device = gpu::make_host_backend({.kv_bytes_max = kv - 1});
  const auto refused = device->load(source.model(), one_slot(), no_progress);
  BOOST_TEST_REQUIRE(!refused.has_value());
  BOOST_TEST((refused.error().code == engine::errc::insufficient_vram));
  BOOST_TEST(refused.error().message.find(std::to_string(kv)) != std::string::npos);
  BOOST_TEST(refused.error().message.find(std::to_string(kv - 1)) != std::string::npos);
  // A refused load leaves the object usable, and a context that no machine holds is refused too.
  auto huge = one_slot();
  huge.slots = 1U << 20;
  huge.context_tokens = 1U << 24;
  const auto device2 = gpu::make_host_backend();
  BOOST_TEST(!device2->load(source.model(), huge, no_progress).has_value());
  BOOST_TEST(device2->load(source.model(), one_slot(), no_progress).has_value());
}

BOOST_AUTO_TEST_CASE(an_interrupt_stops_at_the_next_layer_and_samples_nothing) {
  for (const std::uint32_t stop_in : {0U, 1U}) {
    engine::interrupt_flag interrupt{false};
    std::set<std::uint32_t> layers_run;
    gpu::host_backend_options options{.threads = 2};
    options.tap = [&](std::string_view name, std::uint32_t layer, std::span<const float>) {
      if (name == "attn_norm") layers_run.insert(layer);
      if (name == "attended" && layer == stop_in) interrupt = true;
    };
    test::tiny_backend backend(tiny([](auto& o) { o.layers = 4; }), options, 2);
    const auto prompt = backend.prompt(6, 1);
    const engine::sequence_step step{
        .slot = slot_id{1}, .position = 0, .tokens = {prompt.data(), prompt.size()}, .sample = &request};
    std::vector<engine::sampled_token> sampled;
    BOOST_TEST(!backend.device().step({&step, 1}, interrupt, sampled));
    BOOST_TEST(sampled.empty());
    BOOST_TEST(layers_run.size() == stop_in + 1);
  }
}

BOOST_AUTO_TEST_CASE(an_interrupted_slot_starts_over_and_others_go_on) {
  test::tiny_backend backend(tiny([](auto& o) { o.matrix_type = engine::ggml_type::q4_0; }), {}, 2);
  const auto prompt = backend.prompt(20, 1);
  const auto want = backend.generate(slot_id{1}, prompt, 3, 16);
  backend.device().release(slot_id{1});
  const engine::interrupt_flag set{true};
  const engine::sequence_step step{
      .slot = slot_id{1}, .position = 0, .tokens = {prompt.data(), 16}, .sample = &request};
  std::vector<engine::sampled_token> sampled;
  BOOST_TEST(!backend.device().step({&step, 1}, set, sampled));
  BOOST_TEST(test::same_logits(want, backend.generate(slot_id{0}, prompt, 3, 16)));
  backend.device().release(slot_id{1});
  BOOST_TEST(test::same_logits(want, backend.generate(slot_id{1}, prompt, 3, 16)));
}

BOOST_AUTO_TEST_CASE(taps_name_every_intermediate_in_order) {
  std::vector<std::string> names;
  gpu::host_backend_options options;
  std::vector<float> logits;
  options.tap = [&](std::string_view name, std::uint32_t layer, std::span<const float> values) {
    names.push_back(std::string(name) + ' ' + std::to_string(layer));
    BOOST_TEST(!values.empty());
    if (name == "embedding") BOOST_TEST(values.size() == 3U * 64U);
    if (name == "logits") logits.assign(values.begin(), values.end());
  };
  test::tiny_backend backend(tiny([](auto& o) { o.family = "gpt-oss", o.layers = 1; }), options);
  const auto got = backend.generate(slot_id{0}, backend.prompt(3, 1), 0, 16);
  const std::vector<std::string> want = {"embedding 0", "attn_norm 0",     "qkv 0",         "qkv_rot 0",
                                         "attended 0",  "attn_residual 0", "ffn_norm 0",    "router_logits 0",
                                         "activated 0", "layer_out 0",     "output_norm 1", "logits 1"};
  BOOST_TEST(names == want, boost::test_tools::per_element());
  BOOST_TEST(logits == got.front());
}

BOOST_AUTO_TEST_CASE(a_step_allocates_nothing) {
  for (const test::tiny_case& c : test::every_tiny_model()) {
    test::tiny_backend backend(c.options, {.threads = 2}, 2);
    const auto prompt = backend.prompt(16, 1);
    const engine::interrupt_flag never{false};
    const engine::sampling_params drawn{
        .temperature = 0.9F, .top_k = 20, .top_p = 0.9F, .repetition_penalty = 1.1F};
    const engine::sample_request draw{.params = &drawn, .draw = 0.5};
    const engine::sequence_step steps[] = {
        {.slot = slot_id{0}, .position = 0, .tokens = prompt, .sample = &draw},
        {.slot = slot_id{1}, .position = 0, .tokens = {prompt.data(), 5}, .sample = nullptr}};
    std::vector<engine::sampled_token> sampled;
    sampled.reserve(2);
    const std::uint64_t before = allocations.load();
    const bool complete = backend.device().step(steps, never, sampled);
    const std::uint64_t during = allocations.load() - before;
    BOOST_TEST(complete);
    BOOST_TEST(during == 0U, c.name << ": " << during << " allocations in the first step");
  }
}

BOOST_AUTO_TEST_CASE(a_step_with_adapters_allocates_nothing) {
  test::tiny_backend source({});
  const auto device = gpu::make_host_backend({.threads = 2});
  auto config = one_slot();
  config.slots = 2;
  config.adapters = {2, 4};
  BOOST_REQUIRE(device->load(source.model(), config, no_progress));
  for (const std::uint32_t index : {0U, 1U}) {
    const auto adapter = test::make_tiny_adapter(source.model(), {.rank = 4, .seed = index + 1});
    BOOST_REQUIRE(device->put_adapter(index, adapter));
  }
  const auto prompt = source.prompt(16, 1);
  const engine::active_adapter both[] = {{0, 1.0F}, {1, 0.5F}};
  const engine::kv_page pages[] = {0, 1};
  const engine::interrupt_flag never{false};
  const engine::sequence_step steps[] = {
      {.slot = slot_id{0}, .position = 0, .tokens = prompt, .sample = &request},
      {.slot = slot_id{1}, .position = 0, .tokens = {prompt.data(), 5}, .sample = nullptr}};
  std::vector<engine::sampled_token> sampled;
  sampled.reserve(2);
  const std::uint64_t before = allocations.load();
  device->begin({slot_id{0}, {&pages[0], 1}, {}, {}, both});
  device->begin({slot_id{1}, {&pages[1], 1}, {}, {}, {&both[1], 1}});
  const bool complete = device->step(steps, never, sampled);
  const std::uint64_t during = allocations.load() - before;
  BOOST_TEST(complete);
  BOOST_TEST(during == 0U);
}

BOOST_AUTO_TEST_CASE(banned_tokens_are_not_sampled) {
  test::tiny_backend free({});
  const auto prompt = free.prompt(5, 1);
  const engine::interrupt_flag never{false};
  const engine::sequence_step step{.slot = slot_id{0}, .position = 0, .tokens = prompt, .sample = &request};
  std::vector<engine::sampled_token> sampled;
  BOOST_TEST_REQUIRE(free.device().step({&step, 1}, never, sampled));
  const engine::token_id best = sampled.front().token;
  const auto device = gpu::make_host_backend();
  auto config = one_slot();
  config.banned_tokens = {best};
  BOOST_TEST_REQUIRE(device->load(free.model(), config, no_progress).has_value());
  sampled.clear();
  BOOST_TEST_REQUIRE(device->step({&step, 1}, never, sampled));
  BOOST_TEST(sampled.front().token != best);
}

BOOST_AUTO_TEST_CASE(a_token_outside_the_vocabulary_is_a_failure_not_a_crash) {
  test::tiny_backend backend({});
  const engine::interrupt_flag never{false};
  std::vector<engine::sampled_token> sampled;
  for (const engine::token_id wrong : {-1, static_cast<int>(backend.model().spec.vocab)}) {
    const engine::sequence_step step{
        .slot = slot_id{0}, .position = 0, .tokens = {&wrong, 1}, .sample = &request};
    BOOST_CHECK_THROW((void)backend.device().step({&step, 1}, never, sampled), engine::accelerator_failure);
  }
  BOOST_TEST(!backend.generate(slot_id{0}, backend.prompt(3, 1), 1, 16).empty());
}

BOOST_AUTO_TEST_CASE(a_step_over_damaged_weights_gives_nothing) {
  test::tiny_backend source({});
  bool damaged = false;
  const auto device = gpu::make_host_backend({.check_weights = [&]() -> engine::result<void> {
    if (damaged) return engine::error(engine::errc::model_load_failed, "/secret/path: changed");
    return {};
  }});
  BOOST_TEST_REQUIRE(device->load(source.model(), one_slot(), no_progress).has_value());
  const auto prompt = source.prompt(5, 1);
  const engine::interrupt_flag never{false};
  const engine::sequence_step step{.slot = slot_id{0}, .position = 0, .tokens = prompt, .sample = &request};
  std::vector<engine::sampled_token> sampled;
  BOOST_TEST(device->step({&step, 1}, never, sampled));
  sampled.clear();
  damaged = true;
  try {
    static_cast<void>(device->step({&step, 1}, never, sampled));
    BOOST_ERROR("nothing was thrown");
  } catch (const engine::accelerator_failure& failure) {
    BOOST_TEST((failure.code == engine::errc::internal));
    BOOST_TEST(std::string(failure.what()).find("secret") == std::string::npos);
  }
  BOOST_TEST(sampled.empty());
}

BOOST_AUTO_TEST_CASE(says_what_it_is) {
  test::tiny_backend backend({}, {.chunk_tokens = 100'000});
  BOOST_TEST(std::string_view(backend.device().name()) == "host");
  BOOST_TEST(!backend.device().resident());
  BOOST_TEST(backend.device().vram_bytes() == 0U);
  BOOST_TEST(backend.device().chunk_tokens() == 512U);
}

BOOST_AUTO_TEST_SUITE_END()
