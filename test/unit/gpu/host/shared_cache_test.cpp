// A KV cache in memory that one engine after the other uses: what one has computed another goes on from, with
// the same bits.
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstring>

#include "test/unit/gpu/child_process.hpp"
#include "test/unit/gpu/tiny_backend.hpp"

namespace orcd::test {
namespace {

constexpr std::uint32_t prompt_tokens = 16;
constexpr engine::slot_id first_slot{0}, second_slot{1};

std::vector<float> logits_of(tiny_backend& backend, engine::slot_id slot,
                             std::span<const engine::token_id> tokens, std::uint32_t position) {
  const engine::interrupt_flag never{false};
  const engine::sampling_params greedy{.temperature = 0.0F};
  const engine::sample_request request{.params = &greedy};
  std::vector<engine::sampled_token> sampled;
  const engine::sequence_step step{.slot = slot, .position = position, .tokens = tokens, .sample = &request};
  BOOST_REQUIRE(backend.device().step({&step, 1}, never, sampled));
  const auto logits = backend.device().logits(slot);
  return {logits.begin(), logits.end()};
}

/// The prompt's last token behind positions that are in page 0 already.
std::vector<float> go_on(tiny_backend& backend, const std::vector<engine::token_id>& prompt) {
  const engine::kv_page page = 0;
  const auto held = std::span(prompt).first(prompt_tokens - 1);
  backend.device().begin({.slot = second_slot, .pages = {&page, 1}, .held = held});
  return logits_of(backend, second_slot, std::span(prompt).last(1), prompt_tokens - 1);
}

std::string raw(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

struct writer_and_reader {
  explicit writer_and_reader(const tiny_model_options& model, engine::kv_types kv = {})
      : options(model),
        types(kv),
        writer(model, {}, 2, kv, {}, {.share = true}),
        prompt(writer.prompt(prompt_tokens, 3)) {
    const engine::kv_page page = 0;
    writer.device().begin({.slot = first_slot, .pages = {&page, 1}});
    computed = logits_of(writer, first_slot, prompt, 0);
  }
  [[nodiscard]] tiny_backend reader(unsigned threads = 0) const {
    gpu::host_backend_options how;
    how.threads = threads;
    return tiny_backend(options, how, 2, types, {}, {.share = false, .imported = *device().exported_cache()});
  }
  [[nodiscard]] engine::accelerator& device() const { return const_cast<tiny_backend&>(writer).device(); }

  tiny_model_options options;
  engine::kv_types types;
  tiny_backend writer;
  std::vector<engine::token_id> prompt;
  std::vector<float> computed;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(host_shared_cache)

BOOST_AUTO_TEST_CASE(another_engine_goes_on_with_the_same_bits) {
  for (const auto& [name, options] : every_tiny_model()) {
    // States are not in the cache that another engine gets.
    if (tiny_backend(options).model().spec.is_recurrent()) continue;
    for (const auto type : {engine::kv_type::f16, engine::kv_type::q8_0}) {
      const writer_and_reader pair(options, {type, type});
      auto reader = pair.reader();
      BOOST_TEST(raw(go_on(reader, pair.prompt)) == raw(pair.computed), name);
    }
  }
}

BOOST_AUTO_TEST_CASE(another_process_goes_on_with_the_same_bits) {
  const writer_and_reader pair(tiny_model_options{});
  const auto child = run_in_child([&] {
    auto reader = pair.reader(1);  // a sanitizer allows a child no threads
    return raw(go_on(reader, pair.prompt));
  });
  BOOST_TEST(child.status == 0);
  BOOST_TEST((child.output == raw(pair.computed)));
}

BOOST_AUTO_TEST_CASE(it_outlives_the_engine_that_made_it) {
  auto pair = std::make_unique<writer_and_reader>(tiny_model_options{});
  auto reader = pair->reader();
  const auto prompt = pair->prompt;
  const auto expected = raw(pair->computed);
  pair.reset();
  BOOST_TEST((raw(go_on(reader, prompt)) == expected));
}

BOOST_AUTO_TEST_CASE(memory_of_another_size_is_refused) {
  const writer_and_reader pair(tiny_model_options{});
  auto other = *pair.device().exported_cache();
  engine::accelerator_config config{.slots = 3, .context_tokens = 128, .banned_tokens = {}};
  config.cache.imported = other;
  const auto loaded = gpu::make_host_backend({})->load(const_cast<tiny_backend&>(pair.writer).model(), config,
                                                       [](unsigned) {});
  BOOST_REQUIRE(!loaded);
  BOOST_TEST((loaded.error().code == engine::errc::stale_weights), loaded.error().message);
  BOOST_TEST(loaded.error().message.find("the shared KV cache has") == 0U, loaded.error().message);
}

BOOST_AUTO_TEST_CASE(only_a_shared_cache_is_passed_on) {
  tiny_backend alone(tiny_model_options{});
  BOOST_TEST(alone.device().exported_cache() == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
