#include "gpu/weight_check.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "kernels/host/finite.hpp"
#include "kernels/host/thread_pool.hpp"

namespace orcd::gpu {
namespace {

using engine::errc;
using engine::error;
using engine::result;
using engine::tensor_view;
using engine::traits_of;

/// Consecutive blocks of one tensor, so few bytes that a stop takes effect within milliseconds.
struct chunk {
  const tensor_view* tensor = nullptr;
  std::uint64_t first_block = 0;
  std::uint64_t blocks = 0;
};
constexpr std::uint64_t chunk_bytes = std::uint64_t{4} << 20;

std::vector<chunk> cut(std::span<const tensor_view> tensors) {
  std::vector<chunk> out;
  for (const tensor_view& tensor : tensors) {
    const std::uint64_t block_bytes = traits_of(tensor.type).block_bytes;
    const std::uint64_t blocks = (tensor.bytes - traits_of(tensor.type).trailer_bytes) / block_bytes;
    const std::uint64_t step = chunk_bytes / block_bytes;
    for (std::uint64_t first = 0; first < blocks; first += step) {
      out.push_back({&tensor, first, std::min(step, blocks - first)});
    }
  }
  return out;
}

std::optional<kernels::host::not_finite> look_at(const chunk& c) {
  const std::uint64_t offset = c.first_block * traits_of(c.tensor->type).block_bytes;
  auto found = kernels::host::find_not_finite(c.tensor->type, c.tensor->data + offset, c.blocks);
  if (found) found->block += c.first_block;
  return found;
}

error describe(const tensor_view& tensor, const kernels::host::not_finite& bad) {
  const auto& traits = traits_of(tensor.type);
  const std::uint64_t in_row = tensor.cols() / traits.block_elems;
  const std::uint64_t row = bad.block / in_row;
  std::string text =
      "tensor '" + std::string(tensor.name) + "' (" + std::string(traits.name) + ") is corrupt: ";
  if (tensor.experts() > 1) text += "expert " + std::to_string(row / tensor.rows()) + ", ";
  text += "row " + std::to_string(row % tensor.rows());
  text += (traits.block_elems == 1 ? ", column " : ", block ") + std::to_string(bad.block % in_row);
  text += std::string(": ") + bad.part + " is " + bad.what;
  return {errc::model_load_failed, text};
}

}  // namespace

result<void> check_weights(std::span<const tensor_view> tensors, unsigned threads,
                           const std::atomic<bool>& stop) try {
  const std::vector<chunk> chunks = cut(tensors);
  const auto count = static_cast<std::uint32_t>(chunks.size());
  // Chunks are taken in order, so every chunk before a bad one is checked by some thread, and the first bad
  // one of the file is found however the threads are scheduled.
  std::atomic<std::uint32_t> first_bad{count};
  kernels::host::thread_pool pool(threads);
  pool.run(count, 1, [&](std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t i = begin; i < end; ++i) {
      if (stop.load(std::memory_order_relaxed) || i > first_bad.load(std::memory_order_relaxed)) return;
      if (!look_at(chunks[i])) continue;
      std::uint32_t known = first_bad.load();
      while (i < known && !first_bad.compare_exchange_weak(known, i)) {
      }
    }
  });
  if (first_bad == count) return {};
  const chunk& bad = chunks[first_bad];
  // The file may have been cut or repaired since; then there is nothing to report here.
  if (const auto found = look_at(bad)) return describe(*bad.tensor, *found);
  return {};
} catch (const std::system_error& failure) {
  return error(errc::internal, std::string("starting threads to check weights: ") + failure.what());
}

weight_check::weight_check(std::span<const tensor_view> tensors, unsigned threads)
    : done_(std::async(std::launch::async, [this, tensors, threads] {
        auto outcome = check_weights(tensors, threads, stop_);
        if (!outcome) failed_ = true;
        return outcome;
      })) {}

weight_check::~weight_check() {
  stop_ = true;
  if (done_.valid()) done_.wait();
}

result<void> weight_check::finish() {
  return done_.get();
}

}  // namespace orcd::gpu
