// What is made of what CUDA's driver says of a GPU; the driver is a fake one.
#include "app/inspect/gpu_reading.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <string_view>

namespace orcd::app {
namespace {

constexpr std::size_t large = std::size_t{80} << 30U;

/// Two GPUs; the second one's name fills what it may.
driver_functions two_gpus() {
  driver_functions out;
  out.init = [](unsigned) { return 0; };
  out.device_count = [](int* count) {
    *count = 2;
    return 0;
  };
  out.device_get = [](int* device, int ordinal) {
    *device = 7 + ordinal;  // a handle, not the number
    return 0;
  };
  out.device_name = [](char* name, int bytes, int device) {
    if (device == 7) {
      std::strcpy(name, "NVIDIA One");
    } else {
      std::fill_n(name, bytes, 'x');
    }
    return 0;
  };
  out.device_bytes = [](std::size_t* bytes, int device) {
    *bytes = device == 7 ? large : 1;
    return 0;
  };
  return out;
}

bool says(const engine::result<gpu_reading>& got, std::string_view what) {
  BOOST_TEST_REQUIRE(!got.has_value());
  const std::string& told = got.error().message;
  BOOST_TEST(told.find('\n') == std::string::npos);
  BOOST_TEST(told.find("--vram-mib") != std::string::npos);
  BOOST_TEST_MESSAGE(told);
  return told.find(what) != std::string::npos;
}

BOOST_AUTO_TEST_SUITE(gpu_readings)

BOOST_AUTO_TEST_CASE(name_and_memory_of_the_one_that_is_asked_for) {
  const auto first = read_gpu(two_gpus(), 0);
  BOOST_TEST_REQUIRE(first.has_value());
  BOOST_TEST((*first == gpu_reading{"NVIDIA One", large}));
  const auto second = read_gpu(two_gpus(), 1);
  BOOST_TEST_REQUIRE(second.has_value());
  BOOST_TEST((*second == gpu_reading{std::string(255, 'x'), 1}));
}

BOOST_AUTO_TEST_CASE(what_is_not_here_is_one_line) {
  BOOST_TEST(says(read_gpu(two_gpus(), 2), "GPU 2 is not here, the highest is 1"));
  auto none = two_gpus();
  none.device_count = [](int* count) {
    *count = 0;
    return 0;
  };
  BOOST_TEST(says(read_gpu(none, 0), "the driver has no GPU"));
  auto no_device = two_gpus();
  no_device.init = [](unsigned) { return 100; };
  BOOST_TEST(says(read_gpu(no_device, 0), "the driver has no GPU"));
}

BOOST_AUTO_TEST_CASE(a_driver_that_fails_is_one_line) {
  auto driver = two_gpus();
  driver.init = [](unsigned) { return 803; };
  BOOST_TEST(says(read_gpu(driver, 0), "cuInit() says 803"));
  driver = two_gpus();
  driver.device_count = [](int*) { return 1; };
  BOOST_TEST(says(read_gpu(driver, 0), "cuDeviceGetCount() says 1"));
  driver = two_gpus();
  driver.device_get = [](int*, int) { return 101; };
  BOOST_TEST(says(read_gpu(driver, 0), "cuDeviceGet() says 101"));
  driver = two_gpus();
  driver.device_name = [](char*, int, int) { return 2; };
  BOOST_TEST(says(read_gpu(driver, 0), "cuDeviceGetName() says 2"));
  driver = two_gpus();
  driver.device_bytes = [](std::size_t*, int) { return 3; };
  BOOST_TEST(says(read_gpu(driver, 0), "cuDeviceTotalMem() says 3"));
  driver.device_bytes = [](std::size_t*, int) { return 0; };
  BOOST_TEST(says(read_gpu(driver, 0), "it has none"));
}

/// Here, whatever here is.
BOOST_AUTO_TEST_CASE(this_machine_has_that_gpu_or_says_so) {
  const auto got = read_gpu(0);
  if (got) {
    BOOST_TEST(!got->name.empty());
    BOOST_TEST(got->bytes > 0U);
  } else {
    BOOST_TEST(says(got, "the memory of a GPU is not known: "));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::app
