#include "net/journal/journal.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace orcd::net {

using engine::errc;
using engine::error;
using engine::result;
namespace layout = journal_layout;

namespace {

constexpr std::size_t page_bytes = 4'096;
constexpr std::size_t marks_at = 64;
static_assert(journal_records == 64 * 64);
static_assert(sizeof(layout::header) <= marks_at && marks_at + sizeof(layout::marks) <= page_bytes);
constexpr std::size_t records_at = page_bytes;
constexpr std::size_t links_at =
    (records_at + journal_records * sizeof(layout::record) + page_bytes - 1) / page_bytes * page_bytes;

/// Blocks that fit into this much memory beside their links; they begin at a page.
std::uint32_t blocks_in(std::size_t bytes) noexcept {
  if (bytes <= links_at + page_bytes) return 0;
  return static_cast<std::uint32_t>((bytes - links_at - page_bytes) /
                                    (layout::block_bytes + sizeof(std::uint32_t)));
}

std::size_t blocks_at(std::uint32_t blocks) noexcept {
  return (links_at + blocks * sizeof(std::uint32_t) + page_bytes - 1) / page_bytes * page_bytes;
}

error no_journal(const char* why) {
  return {errc::worker_start_failed, std::string("the journal of connections cannot be used: ") + why};
}

}  // namespace

std::size_t journal::bytes_of(std::uint32_t mebibytes) noexcept {
  return std::size_t{mebibytes} << 20U;
}

void journal::format(std::span<std::byte> memory) {
  layout::header head{};
  head.magic = layout::magic;
  head.records = journal_records;
  head.blocks = blocks_in(memory.size());
  std::memcpy(memory.data(), &head, sizeof head);
}

journal::journal(std::span<std::byte> memory, bool mapped) : memory_(memory), mapped_(mapped) {}

journal::journal(journal&& other) noexcept
    : memory_(std::exchange(other.memory_, {})),
      mapped_(std::exchange(other.mapped_, false)),
      blocks_(other.blocks_),
      free_(std::move(other.free_)),
      in_use_(std::move(other.in_use_)) {}

journal::~journal() {
  if (mapped_) ::munmap(memory_.data(), memory_.size());
}

result<journal> journal::map(int descriptor) {
  struct stat found {};
  if (::fstat(descriptor, &found) != 0 || found.st_size <= 0) return no_journal("it has no size");
  const auto bytes = static_cast<std::size_t>(found.st_size);
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (at == MAP_FAILED) return no_journal("there is no address space for it");
  ::madvise(at, bytes, MADV_DONTDUMP);  // it holds prompts
  auto made = over({static_cast<std::byte*>(at), bytes});
  if (made) {
    made->mapped_ = true;
  } else {
    ::munmap(at, bytes);
  }
  return made;
}

result<journal> journal::over(std::span<std::byte> memory) {
  journal made(memory, false);
  const layout::header& head = made.head();
  if (memory.size() < links_at || head.magic != layout::magic || head.records != journal_records ||
      head.blocks != blocks_in(memory.size()) || head.blocks == 0) {
    return no_journal("it is one of another layout");
  }
  made.blocks_ = head.blocks;
  made.find_free_blocks();
  return made;
}

layout::header& journal::head() const noexcept {
  return *reinterpret_cast<layout::header*>(memory_.data());
}

journal_layout::marks& journal::marks() const noexcept {
  return *reinterpret_cast<layout::marks*>(memory_.data() + marks_at);
}

void journal::set_waits(std::uint32_t slot, bool waits) noexcept {
  auto& word = marks().waits.at(slot / 64);
  const std::uint64_t bit = std::uint64_t{1} << slot % 64;
  static_cast<void>(waits ? word.fetch_or(bit) : word.fetch_and(~bit));
}

bool journal::waits(std::uint32_t slot) const noexcept {
  return (marks().waits.at(slot / 64).load() >> slot % 64 & 1U) != 0;
}

void journal::set_alone(std::uint32_t slot, bool alone) noexcept {
  marks().alone = alone ? slot + 1 : 0;
}

std::optional<std::uint32_t> journal::take_alone() noexcept {
  const std::uint32_t place = marks().alone.exchange(0);
  return place == 0 ? std::nullopt : std::optional(place - 1);
}

void journal::leave(bool in_order) noexcept {
  if (left_->exchange(true)) return;
  marks().in_order = in_order ? 1 : 0;
}

journal::record& journal::at(std::uint32_t slot) const noexcept {
  return reinterpret_cast<record*>(memory_.data() + records_at)[slot];
}

std::uint32_t& journal::next_of(std::uint32_t block) const noexcept {
  return reinterpret_cast<std::uint32_t*>(memory_.data() + links_at)[block];
}

std::span<std::byte> journal::block(std::uint32_t index) const noexcept {
  return memory_.subspan(blocks_at(blocks_) + std::size_t{index} * layout::block_bytes, layout::block_bytes);
}

bool journal::count_chain(std::uint32_t first, std::uint64_t bytes, std::vector<std::uint8_t>& owners) const {
  std::uint64_t room = 0;
  std::uint32_t steps = 0;
  for (std::uint32_t block = first; block != layout::no_block; block = next_of(block)) {
    if (block >= blocks_ || ++steps > blocks_) return false;
    if (owners[block] < 2) ++owners[block];
    room += layout::block_bytes;
  }
  return room >= bytes;
}

bool journal::count_blocks(const record& r, std::vector<std::uint8_t>& owners) const {
  const auto which = r.current.load(std::memory_order_acquire);
  if (which > 1) return false;
  const layout::state& s = r.states[which];
  return count_chain(s.log_head, s.request_bytes, owners) && count_chain(s.out_head, s.out_bytes, owners) &&
         s.events_told <= std::uint64_t{blocks_} * layout::block_bytes / sizeof(layout::stored_event) &&
         count_chain(s.events_head, s.events_told * sizeof(layout::stored_event), owners);
}

bool journal::shares_blocks(const record& r, const std::vector<std::uint8_t>& owners) const {
  const layout::state& s = r.states[r.current.load() & 1U];
  for (std::uint32_t block : {s.log_head, s.out_head, s.events_head}) {
    for (; block != layout::no_block; block = next_of(block)) {
      if (owners[block] > 1) return true;
    }
  }
  return false;
}

void journal::find_free_blocks() {
  std::vector<std::uint8_t> owners(blocks_, 0);
  const auto each_kept = [this](const auto& action) {
    for (std::uint32_t slot = 0; slot < journal_records; ++slot) {
      record& r = at(slot);
      if (r.serial.load() != 0 && r.status.load() == layout::kept) action(r);
    }
  };
  each_kept([&](record& r) {
    if (!count_blocks(r, owners)) r.status.store(layout::abandoned);
  });
  each_kept([&](record& r) {
    if (shares_blocks(r, owners)) r.status.store(layout::abandoned);
  });
  std::vector<std::uint8_t> used(blocks_, 0);
  each_kept([&](record& r) { static_cast<void>(count_blocks(r, used)); });
  free_.clear();
  for (std::uint32_t block = blocks_; block-- > 0;) {
    if (used[block] == 0) free_.push_back(block);
  }
}

void journal::forget(std::uint32_t slot) {
  record& r = at(slot);
  if (r.serial.exchange(0) == 0 || r.status.load() != layout::kept) return;
  const layout::state& s = r.states[r.current.load() & 1U];
  for (const std::uint32_t first : {s.log_head, s.out_head, s.events_head}) free_chain(first);
}

void journal::keep_only(const std::vector<bool>& slots) {
  for (std::uint32_t slot = 0; slot < journal_records; ++slot) {
    if (slot >= slots.size() || !slots[slot]) forget(slot);
  }
}

std::uint32_t journal::take_block() {
  if (free_.empty()) return layout::no_block;
  const std::uint32_t taken = free_.back();
  free_.pop_back();
  next_of(taken) = layout::no_block;
  // An engine that died may have left it as it was.
  std::memset(block(taken).data(), 0, layout::block_bytes);
  return taken;
}

void journal::free_chain(std::uint32_t first) noexcept {
  while (first != layout::no_block) {
    const std::uint32_t next = next_of(first);
    const auto bytes = block(first);
    std::memset(bytes.data(), 0, bytes.size());  // it held a prompt or an answer
    free_.push_back(first);                      // never more than it began with: no allocation
    first = next;
  }
}

}  // namespace orcd::net
