// The GPU tests are one executable that skips, loudly and by name, where there is no GPU.
#define BOOST_TEST_MODULE worker_orcd_gpu
#define BOOST_TEST_NO_MAIN

#include <cuda_runtime_api.h>

#include <boost/test/included/unit_test.hpp>
#include <cstdio>

namespace {

/// Prints the name of every case below a suite, so that a skipped run says what it did not check.
class name_printer : public boost::unit_test::test_tree_visitor {
  void visit(const boost::unit_test::test_case& test) override {
    std::printf("SKIPPED (no CUDA device): %s\n", test.full_name().c_str());
  }
};

}  // namespace

int main(int argc, char** argv) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    // The cases of data tests are there only after the set-up.
    boost::unit_test::framework::init(&init_unit_test_suite, argc, argv);
    boost::unit_test::framework::finalize_setup_phase();
    name_printer printer;
    boost::unit_test::traverse_test_tree(boost::unit_test::framework::master_test_suite(), printer, true);
    return 77;  // CTest: skipped
  }
  return boost::unit_test::unit_test_main(&init_unit_test_suite, argc, argv);
}
