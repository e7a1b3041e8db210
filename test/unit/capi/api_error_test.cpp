// Codes and sentences of the C API.
#include "gpu/capi/api_error.hpp"

#include <boost/test/unit_test.hpp>
#include <set>
#include <string>
#include <thread>

namespace orcd::test {

using engine::errc;
using engine::error;

BOOST_AUTO_TEST_SUITE(api_error)

BOOST_AUTO_TEST_CASE(the_values_are_those_of_the_requirement) {
  BOOST_TEST(WORKER_CUDA_SUCCESS == 0);
  BOOST_TEST(WORKER_CUDA_ERROR_DEVICE_NOT_FOUND == 1);
  BOOST_TEST(WORKER_CUDA_ERROR_OUT_OF_MEMORY == 2);
  BOOST_TEST(WORKER_CUDA_ERROR_INVALID_DEVICE == 3);
  BOOST_TEST(WORKER_CUDA_ERROR_MODEL_LOAD_FAILED == 4);
  BOOST_TEST(WORKER_CUDA_ERROR_INFERENCE_FAILED == 5);
  BOOST_TEST(WORKER_CUDA_ERROR_VRAM_RESIDENCY_FAILED == 6);
  BOOST_TEST(WORKER_CUDA_ERROR_KERNEL_LAUNCH_FAILED == 7);
  BOOST_TEST(WORKER_CUDA_ERROR_UNKNOWN == 99);
}

BOOST_AUTO_TEST_CASE(errors_have_the_code_that_says_most) {
  const auto code = [](errc c, const char* param = "") {
    return gpu::api_code(error(c, "text", param), WORKER_CUDA_ERROR_MODEL_LOAD_FAILED);
  };
  BOOST_TEST(code(errc::invalid_request) == WORKER_CUDA_ERROR_INVALID_ARGUMENT);
  BOOST_TEST(code(errc::context_length_exceeded) == WORKER_CUDA_ERROR_INVALID_ARGUMENT);
  BOOST_TEST(code(errc::insufficient_vram) == WORKER_CUDA_ERROR_OUT_OF_MEMORY);
  BOOST_TEST(code(errc::vram_oom) == WORKER_CUDA_ERROR_OUT_OF_MEMORY);
  BOOST_TEST(code(errc::cuda_error) == WORKER_CUDA_ERROR_KERNEL_LAUNCH_FAILED);
  BOOST_TEST(code(errc::worker_start_failed) == WORKER_CUDA_ERROR_DEVICE_NOT_FOUND);
  BOOST_TEST(code(errc::worker_start_failed, "gpu-device") == WORKER_CUDA_ERROR_INVALID_DEVICE);
  BOOST_TEST(code(errc::model_load_failed) == WORKER_CUDA_ERROR_MODEL_LOAD_FAILED);
  BOOST_TEST(code(errc::internal) == WORKER_CUDA_ERROR_MODEL_LOAD_FAILED);
}

BOOST_AUTO_TEST_CASE(the_last_sentence_is_the_threads_own_and_of_its_code_only) {
  gpu::remember_error(WORKER_CUDA_ERROR_INVALID_DEVICE, "there is no GPU 7");
  BOOST_TEST(gpu::error_text(WORKER_CUDA_ERROR_INVALID_DEVICE) == std::string("there is no GPU 7"));
  BOOST_TEST(gpu::error_text(WORKER_CUDA_ERROR_UNKNOWN) != std::string("there is no GPU 7"));
  std::string elsewhere;
  std::thread([&] { elsewhere = gpu::error_text(WORKER_CUDA_ERROR_INVALID_DEVICE); }).join();
  BOOST_TEST(elsewhere != "there is no GPU 7");
  BOOST_TEST(!elsewhere.empty());
}

BOOST_AUTO_TEST_CASE(every_code_has_a_general_sentence_and_a_long_one_is_cut) {
  std::set<std::string> seen;
  for (const int code : {0, 1, 2, 3, 4, 5, 6, 7, 8, 99, 12345, -1}) seen.insert(gpu::error_text(code));
  BOOST_TEST(seen.size() >= 10U);
  gpu::remember_error(WORKER_CUDA_ERROR_UNKNOWN, std::string(5000, 'x'));
  BOOST_TEST(gpu::error_text(WORKER_CUDA_ERROR_UNKNOWN) == std::string(1023, 'x'));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
