#include "app/process/descriptor_plan.hpp"

#include <dirent.h>
#include <sys/resource.h>

#include <cstdlib>
#include <memory>

namespace orcd::app {

std::optional<descriptor_facts> count_descriptors(std::uint64_t reserve) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir("/proc/self/fd"), &closedir);
  if (!open) return std::nullopt;
  descriptor_facts out{limit.rlim_cur, limit.rlim_max, 0, reserve};
  while (const dirent* entry = readdir(open.get())) {
    const bool number = entry->d_name[0] != '.';
    if (number && std::strtol(entry->d_name, nullptr, 10) != dirfd(open.get())) ++out.in_use;
  }
  return out;
}

bool raise_descriptor_limit(std::uint64_t soft) noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  if (soft <= limit.rlim_cur) return true;
  limit.rlim_cur = soft;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

}  // namespace orcd::app
