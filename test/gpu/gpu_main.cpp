// The GPU tests are one executable that skips, loudly and by name, where there is no GPU. With ORCD_NO_SKIP=1
// it is a failure that CUDA finds none where the kernel has a driver for one.
#define BOOST_TEST_MODULE worker_orcd_gpu
#define BOOST_TEST_NO_MAIN

#include <cuda_runtime_api.h>

#include <boost/test/included/unit_test.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace {

/// Prints the name of every case below a suite, so that a skipped run says what it did not check.
class name_printer : public boost::unit_test::test_tree_visitor {
  void visit(const boost::unit_test::test_case& test) override {
    std::printf("SKIPPED (no CUDA device): %s\n", test.full_name().c_str());
  }
};

bool has_driver() {
  return std::filesystem::exists("/proc/driver/nvidia/gpus");
}

}  // namespace

int main(int argc, char** argv) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    // The cases of data tests are there only after the set-up.
    boost::unit_test::framework::init(&init_unit_test_suite, argc, argv);
    boost::unit_test::framework::finalize_setup_phase();
    name_printer printer;
    boost::unit_test::traverse_test_tree(boost::unit_test::framework::master_test_suite(), printer, true);
    const char* const strict = std::getenv("ORCD_NO_SKIP");
    const bool fails = strict != nullptr && std::string_view(strict) == "1" && has_driver();
    if (fails) std::printf("FAILED: skipped, although /proc/driver/nvidia is here\n");
    return fails ? 1 : 77;  // CTest: 77 is skipped
  }
  return boost::unit_test::unit_test_main(&init_unit_test_suite, argc, argv);
}
