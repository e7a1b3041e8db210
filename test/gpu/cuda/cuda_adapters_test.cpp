// LoRA adapters on the GPU: near the host backend's logits, and bit for bit the same alone and beside others,
// with graphs and the decode program or without.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "gpu/cuda/cuda_backend.hpp"
#include "gpu/cuda/vram_arena.hpp"
#include "gpu/host/host_backend.hpp"
#include "gpu/memory/allocation_counter.hpp"
#include "test/gpu/cuda/generated_cuda_model.hpp"
#include "test/unit/gpu/adapter_rig.hpp"

namespace orcd::test {
namespace {

namespace data = boost::unit_test::data;

std::unique_ptr<engine::accelerator> on_gpu(gpu::cuda_backend_options options = {}) {
  options.keep_logits = true;
  options.end = gpu::device_end::keep;
  return gpu::make_cuda_backend(options);
}

bool same(const logits_list& a, const logits_list& b) {
  return !a.empty() && a == b;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_adapters)

// With int8 activations the f16 of attention's output on the GPU alone makes some integers others.
BOOST_DATA_TEST_CASE(adapters_give_the_hosts_logits, data::make(adapted_shape_names), name) {
  const bytes image = make_tiny_model(generated_shapes().at(name));
  adapter_rig device(image, on_gpu(), 1), host(image, gpu::make_host_backend(), 1);
  const double bound = device.model().spec.integer_activations ? 6e-2 : 2e-3;
  for (adapter_rig* rig : {&device, &host}) rig->put_four();
  const auto prompt = device.prompt(1);
  for (const std::vector<engine::active_adapter>& adapters :
       {std::vector<engine::active_adapter>{{0, 1.0F}}, {{3, 1.0F}}, {{1, 0.5F}, {0, 0.5F}}}) {
    const run_of_one want = host.run_alone({prompt, adapters});
    const run_of_one fed{.pending = prompt, .adapters = adapters, .given = want.tokens};
    const run_of_one got = device.run_alone(fed);
    run_of_one without = fed;
    without.adapters.clear();
    const run_of_one bare = host.run_alone(without);
    BOOST_TEST_REQUIRE(got.logits.size() == adapter_rig::decoded + 1);
    for (std::size_t i = 0; i < got.logits.size(); ++i) {
      BOOST_TEST(distance(bare.logits[i], want.logits[i]) > 3 * bound);
      BOOST_TEST(distance(got.logits[i], want.logits[i]) < bound,
                 name << ", row " << i << ": " << distance(got.logits[i], want.logits[i]));
    }
  }
}

BOOST_DATA_TEST_CASE(neighbours_with_other_adapters_change_no_bit, data::make(adapted_shape_names), name) {
  const bytes image = make_tiny_model(generated_shapes().at(name));
  adapter_rig rig(image, on_gpu()), plain(image, on_gpu(), 5, {}), one_slot(image, on_gpu(), 1);
  rig.put_four();
  one_slot.put_four();
  std::vector<run_of_one> runs = rig.five_runs();
  const std::vector<run_of_one> before = runs;
  rig.run(runs);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    BOOST_TEST(same(runs[i].logits, rig.alone(before[i].pending, before[i].adapters, 1)), name << ' ' << i);
    BOOST_TEST(same(runs[i].logits, one_slot.alone(before[i].pending, before[i].adapters)), name << ' ' << i);
    for (std::size_t j = 0; j < i; ++j) BOOST_TEST(!same(runs[i].logits, runs[j].logits));
  }
  // Without adapters: the decode program and graphs, before and after steps that had some.
  BOOST_TEST(same(runs[2].logits, plain.alone(before[2].pending, {})), name);
  BOOST_TEST(same(runs[2].logits, one_slot.alone(before[2].pending, {})), name);
}

// As with drafts that were all right.
BOOST_DATA_TEST_CASE(tokens_in_a_row_are_as_each_in_a_step_of_its_own, data::make(adapted_shape_names),
                     name) {
  const bytes image = make_tiny_model(generated_shapes().at(name));
  adapter_rig rig(image, on_gpu(), 5, {6, 8}, adapter_rig::context, 16);
  rig.put_four();
  BOOST_REQUIRE(rig.device().draft_tokens() >= adapter_rig::decoded);
  std::vector<run_of_one> together, plain;
  for (const run_of_one& one : rig.five_runs()) {
    plain.push_back(rig.run_alone(one));
    together.push_back(one);
    together.back().given = plain.back().tokens;
    std::vector<run_of_one> alone{together.back()};
    rig.run_in_a_row(alone);
    BOOST_TEST(same({alone[0].logits.back()}, {plain.back().logits.back()}), name << ' ' << plain.size());
  }
  rig.run_in_a_row(together);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    BOOST_TEST(same({together[i].logits.back()}, {plain[i].logits.back()}), name << ' ' << i);
    const std::vector<engine::token_id> behind(plain[i].tokens.begin() + 1, plain[i].tokens.end());
    BOOST_TEST(together[i].tokens == behind, name << ' ' << i);
  }
}

/// More columns than the few-column product takes, and more than graphs are made for.
BOOST_AUTO_TEST_CASE(many_sequences_with_adapters_are_as_each_alone) {
  constexpr std::uint32_t slots = 40;
  const bytes image = make_tiny_model(generated_shapes().at("llama"));
  adapter_rig rig(image, on_gpu(), slots);
  rig.put_four();
  const std::vector<run_of_one> five = rig.five_runs();
  std::vector<logits_list> want;
  for (const run_of_one& one : five) want.push_back(rig.alone(one.pending, one.adapters));
  for (const std::uint32_t count : {12U, slots}) {
    std::vector<run_of_one> runs;
    for (std::uint32_t i = 0; i < count; ++i) {
      runs.push_back(five[i % five.size()]);
      runs.back().chunk = 19;  // all decode in the same steps
    }
    rig.run(runs);
    for (std::uint32_t i = 0; i < count; ++i)
      BOOST_TEST(same(runs[i].logits, want[i % five.size()]), count << " sequences, number " << i);
  }
}

/// What the decode program and the other kernels' attention leave of several pages must not meet.
BOOST_DATA_TEST_CASE(sequences_of_several_pages_take_turns,
                     data::make(std::vector<std::string>{"qwen2", "phi3", "llama"}), name) {
  constexpr std::uint32_t positions = 768;
  const bytes image = make_tiny_model(generated_shapes().at(name));
  adapter_rig rig(image, on_gpu(), 1, {6, 8}, positions);
  adapter_rig many(image, on_gpu({.one_kernel = 0}), 1, {6, 8}, positions);
  adapter_rig plain(image, on_gpu(), 1, {}, positions);
  const auto prompt = rig.prompt(1, 2 * engine::kv_page_positions + 100);
  logits_list got[4], want[4];
  for (adapter_rig* each : {&rig, &many}) {
    each->put_four();
    for (std::uint32_t i = 0; i < 4; ++i) {
      std::vector<engine::active_adapter> adapters;
      if (i % 2 == 0) adapters = {{i == 0 ? 0U : 5U, 1.0F}};
      (each == &rig ? got : want)[i] = each->alone(prompt, adapters, 300);
    }
  }
  for (std::uint32_t i = 0; i < 4; ++i) BOOST_TEST(same(got[i], want[i]), name << ' ' << i);
  BOOST_TEST(same(got[1], plain.alone(prompt, {}, 300)), name);
  BOOST_TEST(!same(got[0], got[2]));
}

/// A row of A has more or fewer values than one round of loads takes, and a block more than one row.
BOOST_DATA_TEST_CASE(adapters_at_once_are_the_same_in_one_kernel_and_in_many, data::make(adapted_shape_names),
                     name) {
  const bytes image = make_tiny_model(generated_shapes().at(name));
  adapter_rig one(image, on_gpu(), 1, {6, 85}), many(image, on_gpu({.one_kernel = 0}), 1, {6, 85});
  for (adapter_rig* each : {&one, &many}) {
    each->put_four();
    each->put(4, {.rank = 85, .seed = 5, .size = 0.1F});
    each->put(2, {.rank = 70, .seed = 6, .size = 0.1F});
  }
  const auto prompt = one.prompt(1);
  const std::vector<engine::active_adapter> all{{0, 1.0F}, {4, 0.5F}, {1, -0.5F}, {3, 1.0F}, {2, 1.0F}};
  for (std::size_t count = 1; count <= all.size(); ++count) {
    const std::vector<engine::active_adapter> adapters(all.begin(),
                                                       all.begin() + static_cast<std::ptrdiff_t>(count));
    BOOST_TEST(same(one.alone(prompt, adapters), many.alone(prompt, adapters)), name << ", " << count);
  }
}

BOOST_AUTO_TEST_CASE(room_is_what_was_planned_and_nothing_is_allocated_later) {
  const bytes image = make_tiny_model(generated_shapes().at("phi3"));
  const auto taken = [&](engine::adapter_room room, std::uint64_t& planned) {
    const std::uint64_t before = gpu::counted_allocations().device_bytes;
    adapter_rig rig(image, on_gpu(), 5, room);
    planned = rig.plan.adapters_bytes;
    const std::uint64_t bytes = gpu::counted_allocations().device_bytes - before;
    if (room.count > 0) {
      rig.put_four();
      static_cast<void>(rig.alone(rig.prompt(1), {{0, 1.0F}}));
    }
    BOOST_TEST(gpu::counted_allocations().after_seal == 0U);
    return bytes;
  };
  std::uint64_t none = 0, some = 0;
  const std::uint64_t without = taken({}, none), with = taken({6, 8}, some);
  BOOST_TEST(none == 0U);
  BOOST_TEST(some > 0U);
  BOOST_TEST(with - without == gpu::vram_arena::size_of(0, some));
}

BOOST_AUTO_TEST_CASE(adapters_come_and_go_beside_a_running_sequence) {
  const bytes image = make_tiny_model(generated_shapes().at("phi3"));
  adapter_rig rig(image, on_gpu());
  BOOST_TEST(rig.device().audit().empty());
  rig.put_four();
  const logits_list first = rig.alone(rig.prompt(1), {{0, 1.0F}});
  const logits_list second = rig.alone(rig.prompt(1), {{1, 1.0F}});
  std::vector<run_of_one> runs{{rig.prompt(1), {{0, 1.0F}}, 4}};
  rig.begin(0, runs[0]);
  BOOST_REQUIRE(rig.step(runs));
  rig.device().drop_adapter(1);
  BOOST_REQUIRE(rig.step(runs));
  rig.put(1, {.rank = 3, .seed = 77});
  while (rig.step(runs)) {
  }
  rig.device().release(engine::slot_id{0});
  BOOST_TEST(same(runs[0].logits, first));
  BOOST_TEST(!same(rig.alone(rig.prompt(1), {{1, 1.0F}}), second));
  rig.put(1, {.rank = 1, .seed = 2, .size = 0.5F});
  BOOST_TEST(same(rig.alone(rig.prompt(1), {{1, 1.0F}}), second));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
