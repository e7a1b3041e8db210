#include "gpu/plan/device_choice.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>

namespace orcd::gpu {
namespace {

using engine::errc;
using engine::error;
using std::chrono::milliseconds;

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

/// The UUID without "GPU-" or "MIG-": CUDA does not say which of the two a device is.
std::string uuid_digits(std::string_view uuid) {
  std::string text = lower(uuid);
  return text.starts_with("gpu-") || text.starts_with("mig-") ? text.substr(4) : text;
}

error not_found(const std::string& why, std::span<const gpu_info> gpus) {
  return {errc::worker_start_failed, why + "; GPUs here: " + describe(gpus), "gpu-device"};
}

engine::result<gpu_info> find_by_uuid(std::span<const gpu_info> gpus, const std::string& uuid) {
  const std::string wanted = uuid_digits(uuid);
  const gpu_info* found = nullptr;
  std::size_t matches = 0;
  for (const gpu_info& gpu : gpus) {
    if (wanted.empty() || !uuid_digits(gpu.uuid).starts_with(wanted)) continue;
    found = &gpu;
    ++matches;
  }
  if (matches == 0) return not_found("no GPU has the UUID " + uuid, gpus);
  if (matches > 1) {
    return not_found("the UUID prefix " + uuid + " fits " + std::to_string(matches) + " GPUs", gpus);
  }
  return *found;
}

}  // namespace

std::string describe(std::span<const gpu_info> gpus) {
  if (gpus.empty()) return "none";
  std::string out;
  for (const gpu_info& gpu : gpus) {
    if (!out.empty()) out += ", ";
    out += std::to_string(gpu.index) + " (" + gpu.name + ", " + gpu.uuid + ")";
  }
  return out;
}

engine::result<gpu_info> choose_gpu(std::span<const gpu_info> gpus, const gpu_choice& choice) {
  engine::result<gpu_info> chosen = gpu_info{};
  if (!choice.uuid.empty()) {
    chosen = find_by_uuid(gpus, choice.uuid);
    if (!chosen) return chosen;
  } else if (choice.index < gpus.size()) {
    chosen = gpus[choice.index];
  } else {
    return not_found("there is no GPU " + std::to_string(choice.index) + ", only " +
                         std::to_string(gpus.size()) + (gpus.size() == 1 ? " GPU" : " GPUs"),
                     gpus);
  }
  if (chosen->capability_major != capability_major || chosen->capability_minor != capability_minor) {
    return not_found("GPU " + std::to_string(chosen->index) + " (" + chosen->name +
                         ") has compute capability " + std::to_string(chosen->capability_major) + "." +
                         std::to_string(chosen->capability_minor) + ", the kernels run on " +
                         std::to_string(capability_major) + "." + std::to_string(capability_minor) + " alone",
                     gpus);
  }
  return chosen;
}

engine::result<std::vector<gpu_info>> wait_for_gpus(
    const std::function<engine::result<std::vector<gpu_info>>(bool last_try)>& find,
    const wait_policy& policy, const wait_clock& clock) {
  const auto started = clock.now();
  const auto deadline = started + policy.total;
  milliseconds pause = policy.first_pause;
  bool last_try = policy.total <= milliseconds{0};
  std::optional<milliseconds> noticed;
  for (std::uint32_t tries = 1;; ++tries) {
    auto found = find(last_try);
    if (found && !found->empty()) return found;
    const auto now = clock.now();
    const auto waited = std::chrono::duration_cast<milliseconds>(now - started);
    const std::string what = found ? "CUDA lists no device" : found.error().message;
    const std::string summary = "no GPU after " + std::to_string(waited.count()) + " ms and " +
                                std::to_string(tries) + (tries == 1 ? " try: " : " tries: ") + what;
    if (last_try) return error(errc::worker_start_failed, summary);
    if (clock.notice && (!noticed || waited - *noticed >= policy.notice_interval)) {
      clock.notice({.waited = waited, .limit = policy.total, .tries = tries, .found = what});
      noticed = waited;
    }
    // The last pause ends at the deadline, so that the whole time is used and not exceeded.
    const auto left = std::max(milliseconds{0}, std::chrono::duration_cast<milliseconds>(deadline - now));
    last_try = pause >= left;
    if (!clock.sleep(std::min(pause, left))) {
      return error(errc::worker_start_failed, summary + " (told to end while waiting)");
    }
    pause = std::min(pause * 2, policy.longest_pause);
  }
}

}  // namespace orcd::gpu
