#include "net/journal/recovery.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace orcd::net {

namespace layout = journal_layout;

/// Copies out of a chain of blocks of which nothing is believed.
class chain_reader {
 public:
  chain_reader(const journal& from, std::uint32_t first) : journal_(from), first_(first) {}

  /// `bytes` bytes from `offset` on; nothing where the chain is shorter or broken.
  [[nodiscard]] std::optional<std::string> read(std::uint64_t offset, std::uint64_t bytes) const {
    if (bytes == 0) return std::string();
    const std::uint64_t most = std::uint64_t{journal_.blocks_} * layout::block_bytes;
    if (bytes > most || offset > most - bytes || !is_as_long(offset + bytes)) return std::nullopt;
    std::string out;
    out.reserve(bytes);
    std::uint32_t block = first_;
    for (std::uint64_t at = 0; out.size() < bytes; at += layout::block_bytes) {
      if (block >= journal_.blocks_) return std::nullopt;
      if (at + layout::block_bytes > offset) {
        const std::uint64_t skip = offset > at ? offset - at : 0;
        const auto n = std::min<std::uint64_t>(layout::block_bytes - skip, bytes - out.size());
        out.append(reinterpret_cast<const char*>(journal_.block(block).data()) + skip, n);
      }
      block = journal_.next_of(block);
    }
    return out;
  }

  static const journal::record& record_of(const journal& from, std::uint32_t slot) { return from.at(slot); }

 private:
  /// Looked at before there is memory for what a spoilt length says.
  [[nodiscard]] bool is_as_long(std::uint64_t bytes) const {
    std::uint32_t block = first_;
    for (std::uint64_t at = 0; at < bytes; at += layout::block_bytes) {
      if (block >= journal_.blocks_) return false;
      block = journal_.next_of(block);
    }
    return true;
  }

  const journal& journal_;
  const std::uint32_t first_;
};

namespace {

recovery lost(const char* why, bool conflict) {
  recovery out;
  out.why = why;
  out.conflict = conflict;
  return out;
}

std::optional<std::vector<journal_event>> events_of(const journal& from, const layout::state& s) {
  if (s.events_told > std::uint64_t{from.blocks()} * layout::block_bytes / sizeof(layout::stored_event)) {
    return std::nullopt;
  }
  const auto bytes = chain_reader(from, s.events_head).read(0, s.events_told * sizeof(layout::stored_event));
  if (!bytes) return std::nullopt;
  std::vector<journal_event> out;
  out.reserve(s.events_told);
  for (std::uint64_t i = 0; i < s.events_told; ++i) {
    layout::stored_event stored{};
    std::memcpy(&stored, bytes->data() + i * sizeof stored, sizeof stored);
    if (stored.kind > static_cast<std::uint8_t>(journal_event::kind::ended)) return std::nullopt;
    out.push_back(
        {stored.job, static_cast<journal_event::kind>(stored.kind), stored.token, stored.unwritten});
  }
  return out;
}

recovery go_on(const journal& from, const layout::state& s, const socket_counters& counters) {
  const bool closing = (s.flags & journal_closing) != 0;
  if (s.sent_before > counters.sent || counters.sent - s.sent_before > s.out_bytes ||
      (!closing && counters.received < s.log_begin)) {
    return lost("the journal and the socket's counters contradict one another", true);
  }
  recovery out;
  auto& c = out.connection;
  const std::uint64_t taken = counters.sent - s.sent_before;
  auto unsent = chain_reader(from, s.out_head).read(taken, s.out_bytes - taken);
  auto input = chain_reader(from, s.log_head).read(0, closing ? 0 : counters.received - s.log_begin);
  auto told = events_of(from, s);
  if (!unsent || !input || !told || (!closing && s.request_bytes > input->size())) {
    return lost("its record in the journal is spoilt", true);
  }
  out.kind = recovery_kind::resumed;
  c.unsent = std::move(*unsent);
  c.input = std::move(*input);
  c.told = std::move(*told);
  c.request_bytes = closing ? 0 : s.request_bytes;
  c.flags = s.flags;
  c.served = s.log_begin > 0;
  c.resumed = s.resumed;
  c.ran = s.ran;
  c.origin = {s.entropy, s.received_wall_ns, s.received_steady_ns, s.maker};
  return out;
}

}  // namespace

recovery recover(const journal& from, std::uint32_t slot, std::uint64_t serial,
                 const socket_counters& counters) {
  if (slot >= journal_records || serial == 0) return lost("the holder names a place that there is not", true);
  const auto& record = chain_reader::record_of(from, slot);
  if (record.serial.load(std::memory_order_acquire) != serial) {
    recovery out;
    out.kind = counters.received == 0 && counters.sent == 0 ? recovery_kind::fresh : recovery_kind::ended;
    return out;
  }
  const auto status = record.status.load(std::memory_order_relaxed);
  if (status == layout::abandoned) return lost("there was no room for it in the journal", false);
  const auto* const state = layout::holding(record, serial);
  if (status != layout::kept || state == nullptr) return lost("its record in the journal is spoilt", true);
  return go_on(from, *state, counters);
}

}  // namespace orcd::net
