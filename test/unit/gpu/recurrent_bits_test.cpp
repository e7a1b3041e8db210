// Models whose layers keep a state: the same bits cold and from a boundary of any kind, at every offset of a
// chunk, whatever was computed in the slot before, beside others, preempted, interrupted or drafted.
#include <boost/test/unit_test.hpp>
#include <memory>
#include <vector>

#include "gpu/host/host_backend.hpp"
#include "test/support/recurrent_jobs.hpp"
#include "test/unit/gpu/tiny_backend.hpp"

namespace orcd::test::recurrent {
namespace {

source source_of(const char* name) {
  tiny_model_options options;
  options.file = name;
  const auto from = std::make_shared<tiny_backend>(options);
  return {name, from->model().spec.vocab,
          [from](std::uint32_t count, std::uint32_t seed) { return from->prompt(count, seed); },
          [from](const setting& s) {
            auto device =
                gpu::make_host_backend({.threads = 1, .chunk_tokens = s.chunk, .launch_depth = s.depth});
            (void)device->load(from->model(), s.config(), [](unsigned) {}).value();
            return device;
          }};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(recurrent_bits)

BOOST_AUTO_TEST_CASE(a_hit_at_a_boundary_of_any_kind_changes_no_bit) {
  for (const char* name : models) check_hits(source_of(name), 64);
}

BOOST_AUTO_TEST_CASE(however_prompts_are_cut) {
  for (const std::uint32_t chunk : {3U, 16U, 500U}) check_hits(source_of("qwen35"), chunk);
}

BOOST_AUTO_TEST_CASE(preempted_and_interrupted_jobs_and_drafts_change_none) {
  for (const char* name : {"qwen35", "lfm2", "nemotron_h"}) check_long_jobs(source_of(name));
}

BOOST_AUTO_TEST_CASE(drafts_that_are_wrong_at_any_place_leave_nothing) {
  for (const char* name : models) check_wrong_drafts(source_of(name));
}

BOOST_AUTO_TEST_CASE(a_sequence_goes_on_from_any_copied_state) {
  for (const char* name : models) check_copied_states(source_of(name));
}

BOOST_AUTO_TEST_CASE(a_slot_is_empty_for_the_next_sequence) {
  for (const char* name : models) check_used_slots(source_of(name));
}

BOOST_AUTO_TEST_CASE(a_step_that_is_refused_copies_no_state) {
  const source from = source_of("qwen35");
  const tokens all = from.prompt(20, 1);
  fed_model model(from, {.chunk = 64});
  const auto want = model.feed(first, 0, all);
  model.device().release(first);
  tokens bad = all;
  bad[12] = -1;
  const std::vector<engine::state_copy> states{{8, 0}};
  BOOST_CHECK_THROW(model.feed(first, 0, bad, states), engine::accelerator_failure);
  model.device().release(first);
  BOOST_TEST(same(model.feed(first, 0, all), want));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test::recurrent
