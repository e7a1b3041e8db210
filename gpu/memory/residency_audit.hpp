// Proves that what a worker allocated is still in the memory of its own GPU and nowhere else: a list of
// allocations and a query for each. A probe gives the answers, so that the rules are tested without a GPU.
// One thread (the GPU thread). Source: M0-W-1012.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace orcd::gpu {

enum class memory_kind { device, host, managed, unknown };

/// What the driver says about an address.
struct pointer_facts {
  memory_kind kind = memory_kind::unknown;
  int device = -1;
  const void* host_pointer = nullptr;
  std::string failure;  ///< not empty: the query itself failed
};
using pointer_probe = std::function<pointer_facts(const void*)>;

/// Asks CUDA (cudaPointerGetAttributes). In cuda_residency.cpp: only in builds with CUDA.
[[nodiscard]] pointer_probe cuda_pointer_probe();

struct residency_report {
  std::uint32_t checked = 0;
  std::uint64_t bytes = 0;            ///< of what is where it belongs
  std::vector<std::string> failures;  ///< one sentence each: name, expected, found
  [[nodiscard]] bool resident() const noexcept { return checked > 0 && failures.empty(); }
};

class residency_audit {
 public:
  residency_audit(int device, pointer_probe probe) : device_(device), probe_(std::move(probe)) {}

  /// `name` appears in failures: "weights", "KV cache". `bytes` is at least 1.
  void watch(std::string name, const void* pointer, std::uint64_t bytes);
  void clear() noexcept { allocations_.clear(); }

  /// Asks about the first and the last byte of every allocation. Microseconds each; never allocates VRAM.
  [[nodiscard]] residency_report audit() const;

  /// Fault injection: from now on `name` is reported as host memory; empty ends it.
  void pretend_on_host(std::string name) { pretended_ = std::move(name); }

 private:
  struct allocation {
    std::string name;
    const std::byte* pointer;
    std::uint64_t bytes;
  };
  [[nodiscard]] std::string fault_of(const allocation& a, const void* at) const;

  int device_;
  pointer_probe probe_;
  std::vector<allocation> allocations_;
  std::string pretended_;
};

}  // namespace orcd::gpu
