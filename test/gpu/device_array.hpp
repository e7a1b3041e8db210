// Device memory for tests: owns, copies in and out, and fills with NaN bytes so that an element nobody
// wrote is found.
#pragma once

#include <cuda_runtime_api.h>

#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <span>
#include <vector>

namespace orcd::test {

template <class T>
class device_array {
 public:
  explicit device_array(std::size_t count) : count_(count) {
    BOOST_REQUIRE_EQUAL(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)), cudaSuccess);
    BOOST_REQUIRE_EQUAL(cudaMemset(data_, 0xFF, count * sizeof(T)), cudaSuccess);
  }
  explicit device_array(std::span<const T> values) : device_array(values.size()) {
    BOOST_REQUIRE_EQUAL(cudaMemcpy(data_, values.data(), values.size_bytes(), cudaMemcpyHostToDevice),
                        cudaSuccess);
  }
  ~device_array() { cudaFree(data_); }
  device_array(const device_array&) = delete;
  device_array& operator=(const device_array&) = delete;

  [[nodiscard]] T* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  void fill(int byte) { BOOST_REQUIRE_EQUAL(cudaMemset(data_, byte, count_ * sizeof(T)), cudaSuccess); }
  /// Waits for the device, then copies out; a failed kernel fails the test here.
  [[nodiscard]] std::vector<T> read() const {
    std::vector<T> out(count_);
    BOOST_REQUIRE_EQUAL(cudaDeviceSynchronize(), cudaSuccess);
    BOOST_REQUIRE_EQUAL(cudaMemcpy(out.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost),
                        cudaSuccess);
    return out;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace orcd::test
