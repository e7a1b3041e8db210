// Bit for bit at lengths that matter: long prompts of every family in chunks of every size, neighbours that
// come, go and are cancelled, and a long chunk that is interrupted.
#include <algorithm>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "test/gpu/cuda/generated_cuda_model.hpp"
#include "test/support/pause.hpp"
#include "test/support/scheduled_run.hpp"

namespace orcd::test {
namespace {

using engine::token_id;
using steady = std::chrono::steady_clock;
namespace data = boost::unit_test::data;

/// More than the largest chunk, and a remainder for every size; 33 chunks of 64 leave a single token.
constexpr std::size_t prompt_tokens = 2113;

std::vector<token_id> random_tokens(std::size_t count, std::uint32_t vocab, unsigned seed) {
  std::minstd_rand random(seed);
  std::vector<token_id> out(count);
  for (auto& token : out) token = static_cast<token_id>(random() % vocab);
  return out;
}

/// The logits after a prompt and after each of some more tokens: what all later steps see of the KV cache.
std::vector<std::vector<float>> trace(loaded_cuda_model& model, std::uint32_t slot) {
  const auto tokens = random_tokens(prompt_tokens + 4, model.vocab(), 1);
  const std::span<const token_id> all(tokens);
  std::vector<std::vector<float>> out{model.run(slot, all.first(prompt_tokens))};
  for (std::size_t i = prompt_tokens; i < all.size(); ++i) out.push_back(model.run(slot, all.subspan(i, 1)));
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_bits)

BOOST_DATA_TEST_CASE(no_chunk_size_changes_a_bit_of_a_long_prompt, data::make(all_shape_names), name) {
  const generated_model generated(name);
  std::vector<std::vector<float>> expected;
  for (const std::uint32_t chunk : {1U, 7U, 64U, 512U, 2048U}) {
    auto model = generated.load({.chunk_tokens = chunk}, 1);
    const auto begin = steady::now();
    const auto seen = trace(model, 0);
    std::printf("%s: %zu tokens in chunks of %u: %.0f ms\n", name.c_str(), prompt_tokens, chunk,
                std::chrono::duration<double, std::milli>(steady::now() - begin).count());
    if (expected.empty()) expected = seen;
    BOOST_TEST((seen == expected), name << ": chunks of " << chunk << " change the bits");
  }
}

// Every step some neighbour ends, begins with a chunk of its own or takes a token; the canary's prompt goes
// in by pieces among them.
BOOST_DATA_TEST_CASE(neighbours_that_come_and_go_change_no_bit, data::make(all_shape_names), name) {
  constexpr std::uint32_t slots = 9;
  const generated_model generated(name);
  auto model = generated.load({.chunk_tokens = 64}, slots);
  const auto tokens = random_tokens(360, model.vocab(), 2);
  const auto other = random_tokens(400, model.vocab(), 3);
  const std::span<const token_id> mine(tokens);
  std::vector<std::vector<float>> expected;
  for (std::size_t at = 0, count = 0; at < mine.size(); at += count) {
    count = at < 300 ? 60 : 1;
    expected.push_back(model.run(0, mine.subspan(at, count)));
  }
  model.release(0);
  std::minstd_rand random(4);
  for (const std::uint32_t canary : {0U, 5U, 8U}) {
    std::size_t step = 0;
    for (std::size_t at = 0, count = 0; at < mine.size(); at += count, ++step) {
      count = at < 300 ? 60 : 1;
      loaded_cuda_model::parts parts;
      for (std::uint32_t slot = 0; slot < slots; ++slot) {
        if (slot == canary) continue;
        const auto choice = random() % 4;
        if (choice == 0 || model.position(slot) > 300) model.release(slot);
        if (choice == 1)
          parts.emplace_back(slot, std::span(other).subspan(random() % 300, 1 + random() % 40));
        if (choice >= 2) parts.emplace_back(slot, std::span(other).subspan(random() % 300, 1));
      }
      parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(random() % (parts.size() + 1)),
                   {canary, mine.subspan(at, count)});
      model.append(parts);
      BOOST_TEST((model.logits(canary) == expected[step]),
                 name << ": slot " << canary << ", step " << step << ": neighbours change the bits");
    }
    for (std::uint32_t slot = 0; slot < slots; ++slot) model.release(slot);
  }
}

BOOST_DATA_TEST_CASE(an_interrupt_in_a_long_chunk_is_prompt_and_leaves_nothing, data::make(all_shape_names),
                     name) {
  const generated_model generated(name);
  auto model = generated.load({.chunk_tokens = 2048}, 2);
  const auto expected = trace(model, 0);
  const auto tokens = random_tokens(2048, model.vocab(), 5);
  for (const int delay_us : {0, 100, 1000}) {
    // A chunk may be over before a thread has begun: the first interrupt is there already.
    engine::interrupt_flag interrupt{delay_us == 0};
    steady::time_point set_at = steady::now();
    std::thread setter([&] {
      if (delay_us == 0) return;
      pause(std::chrono::microseconds(delay_us), "a chunk is interrupted at any of its moments");
      set_at = steady::now();
      interrupt = true;
    });
    const bool complete = model.fill(1, tokens, interrupt);
    const auto returned = steady::now();
    setter.join();
    const double late = std::chrono::duration<double, std::milli>(returned - set_at).count();
    std::printf("%s: interrupt after %d us: %s, %.2f ms later\n", name.c_str(), delay_us,
                complete ? "the chunk was done" : "stopped", late);
    if (delay_us == 0) BOOST_TEST(!complete);
    BOOST_TEST(late < 20.0);
    model.release(0);
    model.release(1);
    BOOST_TEST((trace(model, 0) == expected), name << ": an interrupted chunk changes the bits of the next");
    model.release(0);
  }
}

/// A job's tokens while, with `churn`, others are submitted, cancelled and interrupted all the time.
std::vector<token_id> canary_tokens(engine::accelerator& device, const scheduled_limits& limits, bool churn) {
  engine::scheduler_config config;
  config.slots = limits.slots;
  engine::scheduler loop(device, config);
  auto job = mixed_job(29, limits);
  job.job_id = "canary";
  job.ignore_eos = true;
  const auto canary = std::make_shared<recording_sink>();
  const auto others = std::make_shared<std::vector<std::shared_ptr<recording_sink>>>();
  std::minstd_rand random(limits.slots);
  const auto disturb = [&] {
    const auto number = static_cast<std::uint32_t>(others->size());
    others->push_back(std::make_shared<recording_sink>());
    loop.submit(mixed_job(number, limits), others->back());
    if (number > 2)
      loop.cancel("job" + std::to_string(number - random() % 3), engine::cancel_reason::client_cancel);
    // Each has all of them computed again from their tokens.
    if (number == 20 || number == 60 || number == 100) loop.interrupt();
  };
  for (int i = 0; churn && i < 3; ++i) disturb();
  loop.submit(job, canary);
  while (!canary->ended()) {
    loop.run_step();
    if (churn && loop.waiting() < 4) disturb();
  }
  loop.cancel_all(engine::cancel_reason::shutdown);
  while (loop.run_step()) {
  }
  BOOST_TEST(canary->fault() == "");
  BOOST_REQUIRE(canary->end());
  for (const auto& sink : *others) BOOST_TEST((sink->ended() && sink->fault().empty()));
  return canary->tokens();
}

BOOST_DATA_TEST_CASE(jobs_cancelled_next_door_change_no_token, data::make(all_shape_names), name) {
  const generated_model generated(name);
  const auto file = engine::gguf_file::open(generated.path()).value();
  const auto model = engine::load_model(file, 256, {}).value();
  std::vector<token_id> expected;
  for (const std::uint32_t slots : {1U, 3U, 18U}) {
    const auto device = gpu::make_cuda_backend({.end = gpu::device_end::keep, .chunk_tokens = 64});
    const auto loaded = device->load(model, {slots, 256, {}}, [](unsigned) {});
    BOOST_REQUIRE_MESSAGE(loaded.has_value(), (loaded ? "" : loaded.error().message));
    const scheduled_limits limits{
        .slots = slots, .vocab = model.spec.vocab, .context = 256, .end_of_generation = {}};
    for (const bool churn : {false, true}) {
      const auto tokens = canary_tokens(*device, limits, churn);
      BOOST_TEST(tokens.size() > 40U);
      if (expected.empty()) expected = tokens;
      BOOST_TEST((tokens == expected), name << ": " << slots << " slots, churn " << churn);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
