#include "gpu/memory/residency_audit.hpp"

#include <utility>

#include "engine/base/ensure.hpp"

namespace orcd::gpu {
namespace {

const char* name_of(memory_kind kind) noexcept {
  switch (kind) {
    case memory_kind::device: return "device memory";
    case memory_kind::host: return "host memory";
    case memory_kind::managed: return "managed memory";
    case memory_kind::unknown: return "memory unknown to CUDA";
  }
  return "memory unknown to CUDA";
}

}  // namespace

void residency_audit::watch(std::string name, const void* pointer, std::uint64_t bytes) {
  ORCD_ENSURE(pointer != nullptr && bytes > 0);
  allocations_.push_back({std::move(name), static_cast<const std::byte*>(pointer), bytes});
}

/// Empty when the address is where it belongs.
std::string residency_audit::fault_of(const allocation& a, const void* at) const {
  pointer_facts facts = probe_(at);
  if (!pretended_.empty() && a.name == pretended_) {
    facts = {.kind = memory_kind::host, .device = -1, .host_pointer = at, .failure = {}};
  }
  const std::string subject = a.name + " (" + std::to_string(a.bytes) + " bytes) ";
  if (!facts.failure.empty()) return subject + "cannot be checked: " + facts.failure;
  if (facts.kind != memory_kind::device) return subject + "is in " + name_of(facts.kind);
  if (facts.host_pointer != nullptr) return subject + "can be reached from the host";
  if (facts.device != device_) {
    return subject + "is on GPU " + std::to_string(facts.device) + " instead of GPU " +
           std::to_string(device_);
  }
  return {};
}

residency_report residency_audit::audit() const {
  residency_report report;
  for (const allocation& a : allocations_) {
    ++report.checked;
    std::string fault = fault_of(a, a.pointer);
    if (fault.empty()) fault = fault_of(a, a.pointer + (a.bytes - 1));
    if (fault.empty()) {
      report.bytes += a.bytes;
    } else {
      report.failures.push_back(std::move(fault));
    }
  }
  return report;
}

}  // namespace orcd::gpu
