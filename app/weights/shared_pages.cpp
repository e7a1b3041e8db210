#include "app/weights/shared_pages.hpp"

#include <cstddef>
#include <span>
#include <utility>

#include "gpu/memory/memfd_driver.hpp"

namespace orcd::app {
namespace {

constexpr const char* pages_name = "kv-pages";
constexpr const char* ledger_name = "kv-ledger";

std::uint64_t ledger_bytes(const engine::kv_geometry& geometry) {
  return gpu::memfd_driver::round_up(engine::page_ledger::bytes(geometry));
}

}  // namespace

std::string text_of(const engine::kv_geometry& geometry) {
  return std::to_string(geometry.pages) + " pages of " + std::to_string(geometry.page_positions);
}

engine::result<void> shared_pages::make(const engine::shared_cache& exported) {
  try {
    memory_ = gpu::arena_mapping(gpu::memfd_driver::for_caches(), ledger_bytes(geometry_));
    ledger_ = memory_.export_fd();
  } catch (const engine::accelerator_failure& failure) {
    return engine::error(failure.code, failure.what());
  }
  cache_ = exported;
  return {};
}

/// A ledger that is no such memory is like none: the engine has a cache of its own then.
net::weights_result<bool> shared_pages::take(net::weights_link& from) {
  auto pages = from.get(pages_name);
  if (!pages) return pages.error();
  auto ledger = from.get(ledger_name);
  if (!ledger) return ledger.error();
  if (!*pages || !*ledger) return false;
  try {
    memory_ = gpu::arena_mapping(gpu::memfd_driver::for_caches(), (*ledger)->descriptor.get(),
                                 ledger_bytes(geometry_), gpu::arena_access::read_write);
  } catch (const engine::accelerator_failure&) {
    return false;
  }
  ledger_ = std::move((*ledger)->descriptor);
  taken_ = std::move((*pages)->descriptor);
  cache_ = {taken_.get(), (*pages)->bytes};
  return true;
}

net::weights_result<void> shared_pages::put(net::weights_link& to) const {
  if (!cache_) return {};
  if (auto put = to.put(pages_name, cache_->bytes, cache_->descriptor); !put) return put;
  return to.put(ledger_name, memory_.bytes(), ledger_.get());
}

std::optional<engine::page_ledger> shared_pages::ledger() const {
  if (!cache_) return std::nullopt;
  return engine::page_ledger::of({reinterpret_cast<std::byte*>(memory_.address()), memory_.bytes()},
                                 geometry_);
}

}  // namespace orcd::app
