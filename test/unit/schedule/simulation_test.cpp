// Random interleavings of everything that can happen to a job. To repeat one: ORCD_SIM_SEED=<seed>.
#include "test/unit/schedule/simulation.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <exception>

using namespace orcd::test;

namespace {

void run_seed(std::uint64_t seed, coverage& seen,
              simulation::layers need = simulation::layers::all_positions) {
  try {
    simulation(seed, seen, need).run();
  } catch (const std::exception& broken) {
    BOOST_ERROR("seed " << seed << ": " << broken.what() << " (repeat with ORCD_SIM_SEED=" << seed << ")");
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(simulations)

BOOST_AUTO_TEST_CASE(every_job_ends_once_whatever_happens) {
  coverage seen;
  if (const char* chosen = std::getenv("ORCD_SIM_SEED")) {
    run_seed(std::strtoull(chosen, nullptr, 10), seen);
    return;
  }
  for (std::uint64_t seed = 1; seed <= 500; ++seed) run_seed(seed, seen);
  for (const auto& [what, count] : seen) BOOST_TEST_MESSAGE(what << ": " << count);
  for (const char* what : {"end: length",
                           "end: end token",
                           "end: stop string",
                           "error: CANCELLED",
                           "error: CANCELLED, waiting",
                           "error: INFERENCE_TIMEOUT",
                           "error: INFERENCE_TIMEOUT, waiting",
                           "error: DRAINING",
                           "error: DRAINING, waiting",
                           "error: VRAM_OOM",
                           "error: CUDA_ERROR",
                           "error: CUDA_ERROR, waiting",
                           "refused: QUEUE_FULL",
                           "refused: DUPLICATE_JOB",
                           "refused: DRAINING",
                           "cancel after the end",
                           "degraded",
                           "device lost",
                           "steps computed again",
                           "cache hits",
                           "drafts right",
                           "drafts wrong",
                           "evictions"}) {
    BOOST_TEST(seen[what] > 20U, what << " happened only " << seen[what] << " times");
  }
}

BOOST_AUTO_TEST_CASE(windows_read_what_a_job_of_its_own_would_have_written_in_10_000_schedules) {
  coverage seen;
  if (const char* chosen = std::getenv("ORCD_SIM_SEED")) {
    run_seed(std::strtoull(chosen, nullptr, 10), seen, simulation::layers::windows_too);
    return;
  }
  for (std::uint64_t seed = 1; seed <= 10'000; ++seed) {
    run_seed(seed, seen, simulation::layers::windows_too);
  }
  for (const auto& [what, count] : seen) BOOST_TEST_MESSAGE(what << ": " << count);
  for (const char* what : {"end: length", "end: end token", "error: CANCELLED", "error: VRAM_OOM",
                           "steps computed again", "cache hits", "boundaries left", "boundaries given up",
                           "drafts right", "drafts wrong", "evictions", "positions read"}) {
    BOOST_TEST(seen[what] > 1'000U, what << " happened only " << seen[what] << " times");
  }
  BOOST_TEST(seen["set back"] > 20U);
}

// A sequence goes on from a state of its own tokens alone, whatever was evicted, lost, drafted or preempted.
BOOST_AUTO_TEST_CASE(states_are_those_of_the_tokens_before_them_in_10_000_schedules) {
  coverage seen;
  if (const char* chosen = std::getenv("ORCD_SIM_SEED")) {
    run_seed(std::strtoull(chosen, nullptr, 10), seen, simulation::layers::states_too);
    return;
  }
  for (std::uint64_t seed = 1; seed <= 10'000; ++seed) {
    run_seed(seed, seen, simulation::layers::states_too);
  }
  for (const auto& [what, count] : seen) BOOST_TEST_MESSAGE(what << ": " << count);
  for (const char* what : {"end: length", "end: end token", "error: CANCELLED", "error: VRAM_OOM",
                           "steps computed again", "cache hits", "states loaded", "boundaries left",
                           "boundaries given up", "drafts right", "drafts wrong", "evictions", "set back"}) {
    BOOST_TEST(seen[what] > 1'000U, what << " happened only " << seen[what] << " times");
  }
}

BOOST_AUTO_TEST_SUITE_END()
