// Models whose layers keep a state, on the GPU: the same bits cold and from a boundary of any kind, at every
// offset of a chunk, whatever was computed in the slot before, beside others, preempted, interrupted or
// drafted.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <vector>

#include "gpu/cuda/cuda_backend.hpp"
#include "test/support/recurrent_jobs.hpp"
#include "test/unit/gpu/tiny_backend.hpp"

namespace orcd::test::recurrent {
namespace {

namespace data = boost::unit_test::data;

source source_of(const std::string& name) {
  tiny_model_options options;
  options.file = name;
  const auto from = std::make_shared<tiny_backend>(options);
  return {name, from->model().spec.vocab,
          [from](std::uint32_t count, std::uint32_t seed) { return from->prompt(count, seed); },
          [from](const setting& s) {
            gpu::cuda_backend_options device_options;
            device_options.end = gpu::device_end::keep;
            device_options.chunk_tokens = s.chunk;
            device_options.keep_logits = s.slots <= 2;
            auto device = gpu::make_cuda_backend(device_options);
            const auto loaded = device->load(from->model(), s.config(), [](unsigned) {});
            BOOST_REQUIRE_MESSAGE(loaded.has_value(), (loaded ? "" : loaded.error().message));
            return device;
          }};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_recurrent)

BOOST_DATA_TEST_CASE(a_hit_at_a_boundary_of_any_kind_changes_no_bit, data::make(models), name) {
  check_hits(source_of(name), 64);
}

BOOST_AUTO_TEST_CASE(however_prompts_are_cut) {
  for (const std::uint32_t chunk : {3U, 16U, 500U}) check_hits(source_of("qwen35"), chunk);
}

BOOST_DATA_TEST_CASE(preempted_and_interrupted_jobs_and_drafts_change_none, data::make(models), name) {
  check_long_jobs(source_of(name));
}

BOOST_DATA_TEST_CASE(drafts_that_are_wrong_at_any_place_leave_nothing, data::make(models), name) {
  check_wrong_drafts(source_of(name));
}

BOOST_DATA_TEST_CASE(a_sequence_goes_on_from_any_copied_state, data::make(models), name) {
  check_copied_states(source_of(name));
}

BOOST_DATA_TEST_CASE(a_slot_is_empty_for_the_next_sequence, data::make(models), name) {
  check_used_slots(source_of(name));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test::recurrent
