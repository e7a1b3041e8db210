#include "net/journal/journal_record.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

namespace orcd::net {

namespace layout = journal_layout;

namespace {

/// Between two requests a connection keeps no more than this for its output.
constexpr std::uint32_t out_blocks_kept = 1;

}  // namespace

journal_record::journal_record(journal& owner, std::uint32_t slot, std::uint64_t serial)
    : journal_(owner), slot_(slot), serial_(serial) {
  auto& r = here();
  r.serial.store(0, std::memory_order_release);
  state none{};
  none.log_head = none.out_head = none.events_head = layout::no_block;
  none.sum = layout::sum_of(none, serial);
  r.states = {none, none};
  r.current.store(layout::word_of(0), std::memory_order_relaxed);
  r.status.store(layout::kept, std::memory_order_relaxed);
  r.serial.store(serial, std::memory_order_release);
  journal_.in_use_[slot_] = true;
}

journal_record::journal_record(taken_over, journal& owner, std::uint32_t slot, std::uint64_t received)
    : journal_(owner), slot_(slot), serial_(here().serial.load()), received_(received) {
  const auto which = layout::index_of(here().current.load());
  const state& s = here().states[which];
  log_ = measure(s.log_head);
  events_chain_ = measure(s.events_head);
  events_ = s.events_told;
  // The dead engine may have noted more than it told.
  shorten(events_chain_, events_ * sizeof(layout::stored_event));
  out_[which] = measure(s.out_head);
  sent_before_ = s.sent_before;
  sending_ = s.out_bytes;
  journal_.in_use_[slot_] = true;
}

journal_record::~journal_record() {
  journal_.in_use_[slot_] = false;
  if (journal_.is_left()) return;
  here().serial.store(0, std::memory_order_release);
  release(log_);
  release(events_chain_);
  release(out_[0]);
  release(out_[1]);
}

const journal_record::state& journal_record::now() const noexcept {
  return here().states[layout::index_of(here().current.load(std::memory_order_relaxed))];
}

std::uint32_t journal_record::other() const noexcept {
  return layout::index_of(here().current.load(std::memory_order_relaxed)) ^ 1U;
}

void journal_record::commit(state next) noexcept {
  auto& r = here();
  const std::uint32_t index = other();
  next.sum = layout::sum_of(next, serial_);
  r.states[index] = next;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  r.current.store(layout::word_of(index), std::memory_order_release);
  // What follows, such as wiping what the state before told of, must not come before it.
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

void journal_record::abandon() noexcept {
  here().status.store(layout::abandoned, std::memory_order_release);
  abandoned_ = true;
  ++journal_.given_up_;
  // A read into the log may be under way: its blocks are nobody else's before the connection's end.
  release(events_chain_);
  release(out_[0]);
  release(out_[1]);
}

journal_record::chain journal_record::measure(std::uint32_t first) const noexcept {
  chain out;
  out.first = first;
  for (std::uint32_t block = first; block != layout::no_block; block = journal_.next_of(block)) {
    out.last = block;
    ++out.blocks;
  }
  return out;
}

bool journal_record::extend(chain& c) {
  if (is_silent()) return false;
  const std::uint32_t block = journal_.take_block();
  if (block == layout::no_block) {
    abandon();
    return false;
  }
  if (c.last == layout::no_block) {
    c.first = block;
  } else {
    journal_.next_of(c.last) = block;
  }
  c.last = block;
  ++c.blocks;
  return true;
}

bool journal_record::reserve(chain& c, std::uint64_t bytes) {
  while (!is_silent() && std::uint64_t{c.blocks} * layout::block_bytes < bytes) extend(c);
  return !is_silent();
}

void journal_record::put(const chain& c, std::uint64_t offset, std::span<const std::byte> bytes) noexcept {
  std::uint32_t block = c.first;
  for (; offset >= layout::block_bytes; offset -= layout::block_bytes) block = journal_.next_of(block);
  while (!bytes.empty()) {
    const std::size_t n = std::min<std::size_t>(bytes.size(), layout::block_bytes - offset);
    std::memcpy(journal_.block(block).data() + offset, bytes.data(), n);
    bytes = bytes.subspan(n);
    offset = 0;
    if (!bytes.empty()) block = journal_.next_of(block);
  }
}

void journal_record::shorten(chain& c, std::uint64_t bytes) noexcept {
  std::uint32_t block = c.first;
  std::uint32_t blocks = 1;
  while (block != layout::no_block && std::uint64_t{blocks} * layout::block_bytes < bytes) {
    block = journal_.next_of(block);
    ++blocks;
  }
  if (block == layout::no_block || block == c.last) return;
  const std::uint32_t rest = std::exchange(journal_.next_of(block), layout::no_block);
  c.last = block;
  c.blocks = blocks;
  journal_.free_chain(rest);
}

void journal_record::release(chain& c) noexcept {
  journal_.free_chain(std::exchange(c, {}).first);
}

/// What is in the chain is told by the counters of the socket: received bytes less those before the log.
std::span<std::byte> journal_record::input_space() {
  if (is_silent()) return {};
  const std::uint64_t used = received_ - now().log_begin;
  if (used >= std::uint64_t{log_.blocks} * layout::block_bytes) {
    const bool first = log_.blocks == 0;
    if (!extend(log_)) return {};
    if (first) {
      state next = now();
      next.log_head = log_.first;
      commit(next);
    }
  }
  return journal_.block(log_.last).subspan(used % layout::block_bytes);
}

void journal_record::begin_request(std::string_view input) {
  if (journal_.is_left()) return;
  waits(false);
  if (abandoned_) release(log_);
  const bool again = std::exchange(abandoned_, false);
  chain log;
  if (!input.empty()) {
    if (!reserve(log, input.size())) return release(log);
    put(log, 0, std::as_bytes(std::span(input)));
  }
  state next{};
  next.log_begin = received_ - input.size();
  next.sent_before = sent_before_ + sending_;
  next.log_head = log.first;
  next.out_head = next.events_head = layout::no_block;
  commit(next);
  if (again) here().status.store(layout::kept, std::memory_order_release);
  std::swap(log, log_);
  release(log);
  release(events_chain_);
  events_ = 0;
  for (chain& out : out_) {
    if (out.blocks > out_blocks_kept) release(out);
  }
}

void journal_record::set_origin(const request_origin& origin) noexcept {
  if (is_silent()) return;
  state next = now();
  next.entropy = origin.entropy;
  next.received_wall_ns = origin.received_wall_ns;
  next.received_steady_ns = origin.received_steady_ns;
  next.maker = origin.maker;
  commit(next);
}

void journal_record::end_of_request(std::uint64_t left_over, std::uint32_t flags) noexcept {
  if (is_silent()) return;
  state next = now();
  next.flags |= flags;
  next.request_bytes = received_ - next.log_begin - left_over;
  commit(next);
}

void journal_record::closing() noexcept {
  if (is_silent()) return;
  state next = now();
  next.flags |= journal_closing;
  commit(next);
}

void journal_record::waits(bool so) noexcept {
  if (!journal_.is_left()) journal_.set_waits(slot_, so);
}

void journal_record::count_resumed(bool ran) noexcept {
  if (is_silent()) return;
  state next = now();
  ++next.resumed;
  next.ran += ran ? 1 : 0;
  commit(next);
}

void journal_record::event(const journal_event& event) {
  if (is_silent()) return;
  const layout::stored_event stored{event.job, static_cast<std::uint8_t>(event.what), event.unwritten,
                                    event.token};
  const std::uint64_t at = events_ * sizeof stored;
  if (!reserve(events_chain_, at + sizeof stored)) return;
  std::memcpy(journal_.block(events_chain_.last).data() + at % layout::block_bytes, &stored, sizeof stored);
  ++events_;
}

/// The chain of the state that does not hold is free to be written: its write is over.
void journal_record::output(std::string_view bytes, std::uint32_t flags) {
  sent_before_ += std::exchange(sending_, bytes.size());
  if (is_silent()) return;
  chain& out = out_[other()];
  if (!reserve(out, bytes.size())) return;
  put(out, 0, std::as_bytes(std::span(bytes)));
  state next = now();
  next.sent_before = sent_before_;
  next.out_bytes = bytes.size();
  next.out_head = out.first;
  next.events_head = events_chain_.first;
  next.events_told = events_;
  next.flags |= flags;
  commit(next);
}

}  // namespace orcd::net
