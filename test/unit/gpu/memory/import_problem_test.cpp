// Each failure of an import of shared weights has one code and one sentence.
#include "gpu/memory/import_problem.hpp"

#include <array>
#include <boost/test/unit_test.hpp>
#include <string>
#include <utility>

using namespace orcd;
using engine::errc;

BOOST_AUTO_TEST_SUITE(import_problems)

BOOST_AUTO_TEST_CASE(each_status_of_the_driver_has_a_code_and_a_sentence) {
  BOOST_TEST(!gpu::import_problem_of(0));
  constexpr std::array<std::pair<int, errc>, 14> expected{{{1, errc::stale_weights},
                                                           {400, errc::stale_weights},
                                                           {101, errc::stale_weights},
                                                           {201, errc::stale_weights},
                                                           {217, errc::stale_weights},
                                                           {2, errc::insufficient_vram},
                                                           {800, errc::worker_start_failed},
                                                           {801, errc::worker_start_failed},
                                                           {304, errc::cuda_error},
                                                           {46, errc::cuda_error},
                                                           {100, errc::cuda_error},
                                                           {214, errc::cuda_error},
                                                           {220, errc::cuda_error},
                                                           {999, errc::cuda_error}}};
  for (const auto& [status, code] : expected) {
    const auto found = gpu::import_problem_of(status);
    BOOST_TEST_REQUIRE(found.has_value(), status);
    BOOST_TEST((found->code == code), status);
    BOOST_TEST(!found->why.empty());
  }
}

BOOST_AUTO_TEST_CASE(no_status_is_taken_for_success) {
  for (int status = 1; status < 1'100; ++status)
    BOOST_TEST(gpu::import_problem_of(status).has_value(), status);
}

BOOST_AUTO_TEST_SUITE_END()
