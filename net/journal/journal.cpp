#include "net/journal/journal.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "net/journal/head.hpp"

namespace orcd::net {

using engine::errc;
using engine::error;
using engine::result;
namespace layout = journal_layout;

namespace {

static_assert(journal_records == 64 * 64);

std::size_t blocks_at(std::uint32_t blocks) noexcept {
  const std::size_t links_end = layout::links_at + blocks * sizeof(std::uint32_t);
  return (links_end + layout::page_bytes - 1) / layout::page_bytes * layout::page_bytes;
}

/// The number of an engine in the table.
std::uint64_t key_of(const journal_engine& engine) {
  return number_of({engine.parts, engine.weights.files, engine.weights.mapped, engine.fingerprint});
}

journal_engine engine_in(const layout::engine_entry& entry) noexcept {
  return {entry.parts, {entry.files, entry.mapped, entry.digest}, entry.fingerprint};
}

error no_journal(const char* why) {
  return {errc::worker_start_failed, std::string("the journal of connections cannot be used: ") + why};
}

}  // namespace

std::size_t journal::bytes_of(std::uint32_t mebibytes) noexcept {
  return std::size_t{mebibytes} << 20U;
}

void journal::format(std::span<std::byte> memory) {
  write_head(memory);
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
  const auto head = look_at_head(memory);
  if (head == head_state::other_format) return no_journal("it is one of another layout");
  if (head == head_state::damaged) return no_journal("its head is damaged");
  write_head(memory);
  journal made(memory, false);
  made.blocks_ = layout::blocks_in(memory.size());
  made.free_spoilt_engines();
  made.find_free_blocks();
  return made;
}

journal_layout::marks& journal::marks() const noexcept {
  return *reinterpret_cast<layout::marks*>(memory_.data() + layout::marks_at);
}

journal_layout::engines& journal::engines() const noexcept {
  return *reinterpret_cast<layout::engines*>(memory_.data() + layout::engines_at);
}

layout::engine_entry* journal::find_engine(std::uint64_t maker) const noexcept {
  if (maker == 0) return nullptr;
  auto& all = engines().entries;
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& e) { return e.key == maker; });
  return found == all.end() ? nullptr : &*found;
}

/// Those of before are told from one another by it. Once, since it takes a hash each.
void journal::free_spoilt_engines() {
  for (auto& entry : engines().entries) {
    if (entry.key != 0 && entry.key != key_of(engine_in(entry))) entry.key = 0;
  }
}

std::uint64_t journal::enter(const journal_engine& engine) {
  const auto& weights = engine.weights;
  const std::uint64_t maker = key_of(engine);
  auto& all = engines();
  if (find_engine(maker) == nullptr) {
    auto place = all.next.load() % all.entries.size();
    if (place == all.last.load()) place = (place + 1) % all.entries.size();
    auto& entry = all.entries.at(place);
    entry.key = 0;
    entry.parts = engine.parts;
    entry.files = weights.files;
    entry.mapped = weights.mapped;
    entry.digest = 0;
    entry.fingerprint = engine.fingerprint;
    entry.key = maker;
    all.next = static_cast<std::uint32_t>(place + 1);
  }
  all.last = static_cast<std::uint32_t>(find_engine(maker) - all.entries.data());
  know_digest(maker, weights.digest);
  return maker;
}

/// Whoever had the same files has the same digest.
void journal::know_digest(std::uint64_t maker, std::uint64_t digest) noexcept {
  const auto* const own = find_engine(maker);
  if (own == nullptr || digest == 0) return;
  const weights_identity weights{own->files, own->mapped, digest};
  for (auto& entry : engines().entries) {
    if (entry.key != 0 && (&entry == own || are_same({entry.files, entry.mapped, 0}, weights))) {
      entry.digest = digest;
    }
  }
}

std::optional<journal_engine> journal::engine_of(std::uint64_t maker) const noexcept {
  const auto* const entry = find_engine(maker);
  if (entry == nullptr) return std::nullopt;
  return engine_in(*entry);
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
  return place == 0 || place > journal_records ? std::nullopt : std::optional(place - 1);
}

void journal::leave(bool in_order) noexcept {
  if (left_->exchange(true)) return;
  marks().in_order = in_order ? 1 : 0;
}

journal::record& journal::at(std::uint32_t slot) const noexcept {
  return reinterpret_cast<record*>(memory_.data() + layout::records_at)[slot];
}

std::uint32_t& journal::next_of(std::uint32_t block) const noexcept {
  return reinterpret_cast<std::uint32_t*>(memory_.data() + layout::links_at)[block];
}

std::span<std::byte> journal::block(std::uint32_t index) const noexcept {
  return memory_.subspan(blocks_at(blocks_) + std::size_t{index} * layout::block_bytes, layout::block_bytes);
}

bool journal::count_chain(std::uint32_t first, std::uint64_t bytes, std::vector<std::uint8_t>& owners) const {
  std::uint64_t room = 0;
  for (std::uint32_t block = first; block != layout::no_block; block = next_of(block)) {
    // What two have already is spoilt, and followed no further: all chains together take a bounded time.
    if (block >= blocks_ || owners[block] > 1) return false;
    ++owners[block];
    room += layout::block_bytes;
  }
  return room >= bytes;
}

bool journal::count_blocks(const record& r, std::vector<std::uint8_t>& owners) const {
  const auto* const holds = holding(r);
  if (holds == nullptr) return false;
  const layout::state& s = *holds;
  return count_chain(s.log_head, s.request_bytes, owners) && count_chain(s.out_head, s.out_bytes, owners) &&
         s.events_told <= std::uint64_t{blocks_} * layout::block_bytes / sizeof(layout::stored_event) &&
         count_chain(s.events_head, s.events_told * sizeof(layout::stored_event), owners);
}

bool journal::shares_blocks(const record& r, const std::vector<std::uint8_t>& owners) const {
  const layout::state& s = *holding(r);
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
    if (!count_blocks(r, owners)) r.status.store(layout::spoilt);
  });
  each_kept([&](record& r) {
    if (shares_blocks(r, owners)) r.status.store(layout::spoilt);
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
  const auto* const s = holding(r);
  const bool has_blocks = r.serial.exchange(0) != 0 && r.status.load() == layout::kept && s != nullptr;
  if (!has_blocks) return;
  for (const std::uint32_t first : {s->log_head, s->out_head, s->events_head}) free_chain(first);
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
  // A stray write into the links must not keep this engine here for ever.
  while (first < blocks_ && free_.size() < blocks_) {
    const std::uint32_t next = next_of(first);
    const auto bytes = block(first);
    std::memset(bytes.data(), 0, bytes.size());  // it held a prompt or an answer
    free_.push_back(first);                      // never more than it began with: no allocation
    first = next;
  }
}

}  // namespace orcd::net
