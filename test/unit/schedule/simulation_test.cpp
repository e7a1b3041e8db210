// Random interleavings of everything that can happen to a job. To repeat one: ORCD_SIM_SEED=<seed>.
#include "test/unit/schedule/simulation.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <exception>

using namespace orcd::test;

namespace {

void run_seed(std::uint64_t seed, coverage& seen) {
  try {
    simulation(seed, seen).run();
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

BOOST_AUTO_TEST_SUITE_END()
