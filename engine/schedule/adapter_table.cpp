#include "engine/schedule/adapter_table.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "engine/base/sha256.hpp"

namespace orcd::engine {
namespace {

// No salt of a job without adapters begins with this byte but one that says so (below).
constexpr char adapters_mark = '\x01';

/// Those that are applied, by content.
std::vector<job_adapter> applied(std::span<const job_adapter> wanted) {
  std::vector<job_adapter> out;
  std::copy_if(wanted.begin(), wanted.end(), std::back_inserter(out),
               [](const job_adapter& one) { return one.strength != 0.0F; });
  std::sort(out.begin(), out.end(), [](const job_adapter& a, const job_adapter& b) {
    return std::pair(std::string_view(a.digest), a.strength) <
           std::pair(std::string_view(b.digest), b.strength);
  });
  return out;
}

void append_u32(std::string& to, std::uint32_t value) {
  for (std::uint32_t shift = 0; shift < 32; shift += 8) to.push_back(static_cast<char>(value >> shift));
}

}  // namespace

result<void> adapter_table::check_free(std::uint32_t index) const {
  if (is_free(index)) return {};
  return error(errc::not_ready, std::to_string((*entries_)[index].users) + " jobs use LoRA adapter " +
                                    std::to_string(index) + ", which can be replaced when they have ended");
}

void adapter_table::forget(std::uint32_t index) noexcept {
  if (index < entries_->size()) (*entries_)[index] = {};
}

void adapter_table::put(std::uint32_t index, std::string digest) {
  if (index >= entries_->size()) entries_->resize(index + std::size_t{1});
  (*entries_)[index] = {std::move(digest), 0, false, true};
}

void adapter_table::drop(std::uint32_t index) noexcept {
  if (index < entries_->size() && (*entries_)[index].in_device) (*entries_)[index].leaving = true;
}

std::optional<std::uint32_t> adapter_table::take_unused() noexcept {
  for (std::uint32_t i = 0; i < entries_->size(); ++i) {
    entry& one = (*entries_)[i];
    if (!one.leaving || one.users > 0) continue;
    one = {};
    return i;
  }
  return std::nullopt;
}

result<void> adapter_table::check(std::span<const job_adapter> wanted) const {
  if (wanted.size() > active_adapters_max) {
    return error(errc::invalid_request, std::to_string(wanted.size()) +
                                            " LoRA adapters for one request, at most " +
                                            std::to_string(active_adapters_max));
  }
  std::vector<bool> seen(entries_->size());
  for (const job_adapter& one : wanted) {
    if (one.index >= entries_->size() || (*entries_)[one.index].leaving ||
        (*entries_)[one.index].digest.empty() || (*entries_)[one.index].digest != one.digest) {
      return error(errc::not_found, "the LoRA adapter of the request is not loaded any more",
                   std::string(one.field));
    }
    if (seen[one.index]) return error(errc::invalid_request, "a LoRA adapter is named twice");
    seen[one.index] = true;
  }
  return {};
}

result<adapter_table::hold> adapter_table::take(std::span<const job_adapter> wanted) {
  for (const job_adapter& one : wanted) {
    if (!std::isfinite(one.strength))
      return error(errc::invalid_request, "the strength of a LoRA adapter is not a finite number");
  }
  const std::vector<job_adapter> used = applied(wanted);
  if (const auto good = check(used); !good) return good.error();
  if (used.empty()) return hold{};
  auto list = std::make_unique<std::vector<active_adapter>>();
  for (const job_adapter& one : used) list->push_back({one.index, one.strength});
  const auto let_go = [entries = entries_](const std::vector<active_adapter>* held) {
    for (const active_adapter& one : *held) --(*entries)[one.index].users;
    delete held;
  };
  for (const active_adapter& one : *list) ++(*entries_)[one.index].users;
  return hold(list.release(), let_go);
}

// The list is hashed, so that a salt with adapters is not much longer than without: what a takeover is told
// of a page has room for a salt of some length (page_ledger). The parts of what is hashed have lengths of
// their own, so that different lists never give the same text.
std::string salt_with_adapters(const std::string& salt, std::span<const job_adapter> adapters) {
  const std::vector<job_adapter> used = applied(adapters);
  if (used.empty() && (salt.empty() || salt.front() != adapters_mark)) return salt;
  std::string list;
  append_u32(list, static_cast<std::uint32_t>(used.size()));
  for (const job_adapter& one : used) {
    append_u32(list, static_cast<std::uint32_t>(one.digest.size()));
    list += one.digest;
    append_u32(list, std::bit_cast<std::uint32_t>(one.strength));
  }
  return adapters_mark + sha256_of(list) + salt;
}

}  // namespace orcd::engine
