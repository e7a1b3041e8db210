#include "engine/schedule/page_ledger.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

#include "engine/base/ensure.hpp"

namespace orcd::engine {

namespace {

constexpr std::uint64_t magic = 0x3230'7265'6764'656cULL;  // "ledger02"
constexpr std::uint32_t no_parent = 0xFFFF'FFFF;

std::uint64_t aligned(std::uint64_t bytes) noexcept {
  return (bytes + 63) / 64 * 64;
}

}  // namespace

struct page_ledger::header {
  std::uint64_t magic;
  std::uint32_t page_positions;
  std::uint32_t pages;
};

/// The tokens follow it.
struct page_ledger::entry {
  std::uint32_t use;
  std::uint32_t parent;
  std::uint32_t salt_bytes;
  std::uint32_t users;
  std::uint64_t last_used;
  char salt[salt_bytes_max];

  [[nodiscard]] token_id* tokens() noexcept { return reinterpret_cast<token_id*>(this + 1); }
};

std::uint64_t page_ledger::bytes(const kv_geometry& geometry) noexcept {
  const std::uint64_t one =
      aligned(sizeof(entry) + std::uint64_t{geometry.page_positions} * sizeof(token_id));
  return aligned(sizeof(header)) + one * geometry.pages;
}

std::optional<page_ledger> page_ledger::of(std::span<std::byte> memory, const kv_geometry& geometry) {
  ORCD_ENSURE(reinterpret_cast<std::uintptr_t>(memory.data()) % 64 == 0);
  if (memory.size() < bytes(geometry) || geometry.pages >= no_parent) return std::nullopt;
  const header wanted{magic, geometry.page_positions, geometry.pages};
  header found;
  std::memcpy(&found, memory.data(), sizeof found);
  page_ledger out(memory, geometry);
  if (std::memcmp(&found, &wanted, sizeof wanted) == 0) return out;
  const header empty{};
  if (std::memcmp(&found, &empty, sizeof empty) != 0) {
    for (std::uint32_t i = 0; i < geometry.pages; ++i) out.set(static_cast<kv_page>(i), use::taken);
  }
  std::memcpy(memory.data(), &wanted, sizeof wanted);
  return out;
}

page_ledger::entry& page_ledger::entry_of(kv_page page) const noexcept {
  const std::uint64_t one =
      aligned(sizeof(entry) + std::uint64_t{geometry_.page_positions} * sizeof(token_id));
  return *std::launder(reinterpret_cast<entry*>(memory_.data() + aligned(sizeof(header)) +
                                                one * static_cast<std::uint32_t>(page)));
}

// Of a process that dies between two stores the next one must see the first: the order of stores to one
// memory is kept by the processor, and by the compiler with release and acquire.
void page_ledger::set(kv_page page, use now) noexcept {
  std::atomic_ref(entry_of(page).use).store(static_cast<std::uint32_t>(now), std::memory_order_release);
}

page_ledger::use page_ledger::use_of(kv_page page) const noexcept {
  const std::uint32_t found = std::atomic_ref(entry_of(page).use).load(std::memory_order_acquire);
  return found == 0 ? use::clean : found == 2 ? use::full : use::taken;
}

void page_ledger::take(std::span<const kv_page> pages) noexcept {
  for (const kv_page page : pages) set(page, use::taken);
}

void page_ledger::clean(std::span<const kv_page> pages) noexcept {
  for (const kv_page page : pages) set(page, use::clean);
}

void page_ledger::note(kv_page page, std::optional<kv_page> parent, std::string_view salt,
                       std::span<const token_id> tokens) noexcept {
  if (salt.size() > salt_bytes_max || tokens.size() != geometry_.page_positions) return;
  entry& e = entry_of(page);
  set(page, use::taken);
  e.parent = parent ? static_cast<std::uint32_t>(*parent) : no_parent;
  e.salt_bytes = static_cast<std::uint32_t>(salt.size());
  std::copy(salt.begin(), salt.end(), e.salt);
  std::copy(tokens.begin(), tokens.end(), e.tokens());
  set(page, use::full);
}

void page_ledger::begin_use(kv_page page) noexcept {
  const std::atomic_ref users(entry_of(page).users);
  users.store(users.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void page_ledger::end_use(kv_page page, std::uint64_t when) noexcept {
  entry& e = entry_of(page);
  const std::atomic_ref users(e.users);
  const std::uint32_t now = users.load(std::memory_order_relaxed);
  std::atomic_ref(e.last_used).store(when, std::memory_order_relaxed);
  if (now > 0) users.store(now - 1, std::memory_order_relaxed);
}

void page_ledger::forget_users() noexcept {
  for (std::uint32_t i = 0; i < geometry_.pages; ++i)
    std::atomic_ref(entry_of(static_cast<kv_page>(i)).users).store(0, std::memory_order_relaxed);
}

/// What is checked is a copy: the memory is not this process's alone.
std::optional<noted_page> page_ledger::read(kv_page page) const {
  if (use_of(page) != use::full) return std::nullopt;
  entry& e = entry_of(page);
  const std::uint32_t parent = std::atomic_ref(e.parent).load(std::memory_order_relaxed);
  const std::uint32_t salt_bytes = std::atomic_ref(e.salt_bytes).load(std::memory_order_relaxed);
  if (salt_bytes > salt_bytes_max) return std::nullopt;
  if (parent != no_parent && parent >= geometry_.pages) return std::nullopt;
  noted_page out;
  out.page = page;
  out.in_use = std::atomic_ref(e.users).load(std::memory_order_relaxed) > 0;
  out.last_used = std::atomic_ref(e.last_used).load(std::memory_order_relaxed);
  if (parent != no_parent) out.parent = static_cast<kv_page>(parent);
  out.salt.assign(e.salt, salt_bytes);
  out.tokens.assign(e.tokens(), e.tokens() + geometry_.page_positions);
  if (std::any_of(out.tokens.begin(), out.tokens.end(), [](token_id t) { return t < 0; }))
    return std::nullopt;
  return out;
}

// Level by level from the first pages of sequences, so that a circle of parents is never entered.
std::vector<noted_page> page_ledger::noted() const {
  std::vector<noted_page> out;
  std::vector<std::vector<noted_page>> below(geometry_.pages);  // by parent
  for (std::uint32_t i = 0; i < geometry_.pages; ++i) {
    auto found = read(static_cast<kv_page>(i));
    if (!found) continue;
    if (found->parent) {
      below[static_cast<std::size_t>(*found->parent)].push_back(std::move(*found));
    } else {
      out.push_back(std::move(*found));
    }
  }
  for (std::size_t next = 0; next < out.size(); ++next) {
    const std::string salt = out[next].salt;
    for (noted_page& child : below[static_cast<std::size_t>(out[next].page)]) {
      if (child.salt == salt) out.push_back(std::move(child));
    }
  }
  return out;
}

}  // namespace orcd::engine
