#include "net/server/takeover.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "net/journal/socket_counters.hpp"
#include "net/json/request_fields.hpp"
#include "net/status/metrics_text.hpp"

namespace orcd::net {

using engine::errc;
using engine::error;
using engine::result;

namespace {

/// Engines that died while a request ran, from which on it is not run beside others.
constexpr std::uint32_t suspicious_deaths = 2;

constexpr std::string_view fingerprint_begin = "fp_";
constexpr std::size_t fingerprint_digits = 16;

/// The digits of a system_fingerprint; 0 for any other text.
std::uint64_t number_of_fingerprint(std::string_view text) {
  if (text.substr(0, fingerprint_begin.size()) != fingerprint_begin) return 0;
  std::uint64_t out = 0;
  std::from_chars(text.data() + fingerprint_begin.size(), text.data() + text.size(), out, 16);
  return out;
}

std::string fingerprint_of(std::uint64_t number) {
  return std::string(fingerprint_begin) + digits_of({number, 0}).substr(0, fingerprint_digits);
}

journal_engine engine_of(const held_config& config) {
  return {number_of(config.identity.parts), config.identity.weights,
          number_of_fingerprint(config.fingerprint)};
}

}  // namespace

takeover::takeover(journal opened, held_config config)
    : journal_(std::move(opened)),
      config_(std::move(config)),
      self_(engine_of(config_)),
      maker_(journal_.enter(self_)) {
  counts_.lost = config_.lost;
}

void takeover::know_digest(std::uint64_t digest) {
  self_.weights.digest = digest;
  if (!is_left()) journal_.know_digest(maker_, digest);
}

takeover_counts& takeover_counts::operator+=(const takeover_counts& more) noexcept {
  resumed += more.resumed;
  idle += more.idle;
  fresh += more.fresh;
  ended += more.ended;
  lost += more.lost;
  conflicts += more.conflicts;
  bytes += more.bytes;
  return *this;
}

void takeover::go_on_from(const takeover_counts& before, std::uint64_t given_up) noexcept {
  before_ = before;
  given_up_before_ = given_up;
}

takeover_counts takeover::all_counts() const noexcept {
  takeover_counts all = before_;
  return all += counts_;
}

result<std::unique_ptr<takeover>> takeover::make(int journal_descriptor, held_config config) {
  auto opened = journal::map(journal_descriptor);
  if (!opened) return opened.error();
  return std::make_unique<takeover>(std::move(*opened), std::move(config));
}

void takeover::begin(const held_connections& all) {
  std::vector<bool> slots(journal_records, false);
  for (const held_socket& held : all.sockets) slots[held.slot] = true;
  for (const held_place& place : all.waiting) slots[place.slot] = true;
  journal_.keep_only(slots);
  in_order_ = journal_.take_in_order();
  alone_ = journal_.take_alone();
}

std::optional<journalled> takeover::give_up(std::uint32_t slot, bool conflict) {
  ++counts_.lost;
  if (conflict) ++counts_.conflicts;
  journal_.forget(slot);
  return std::nullopt;
}

std::optional<journalled> takeover::leave_closed(std::uint32_t slot) {
  ++counts_.ended;
  journal_.forget(slot);
  return std::nullopt;
}

/// One that the journal does not know, because too many others came since, is taken for another.
bool takeover::answers_like(const std::optional<journal_engine>& other) const noexcept {
  return other && other->parts == self_.parts && are_same(other->weights, self_.weights);
}

std::optional<error> takeover::refusal_of(const recovered_connection& c,
                                          const std::optional<journal_engine>& began_with_it) const {
  if (!in_request(c)) return std::nullopt;
  if (c.request_bytes > 0 && !answers_like(began_with_it)) {
    return error{errc::engine_changed,
                 "the engine is gone, and the one that took over would answer differently"};
  }
  if (in_order_ || c.ran <= config_.replays) return std::nullopt;
  return error{errc::engine_lost, "the engine died with this request " + std::to_string(c.ran) + " times"};
}

/// One that ran by itself is the reason; else each that ran may be.
bool takeover::may_have_killed(std::uint32_t slot) const {
  if (alone_) return *alone_ == slot;
  return !journal_.waits(slot);
}

/// Its last try, and any after two deaths: if it is innocent, another one of the same fate is not.
bool takeover::runs_alone(const recovered_connection& c) const {
  return c.ran > 0 && c.ran >= std::min(suspicious_deaths, config_.replays);
}

void takeover::count(const recovered_connection& c) {
  ++(in_request(c) ? counts_.resumed : counts_.idle);
  counts_.bytes += c.unsent.size();
}

std::string takeover::render_metrics() const {
  const auto number = [](std::uint64_t count) { return static_cast<double>(count); };
  const auto all = all_counts();
  metrics_text out;
  out.family("orcd_failover_connections_total", "counter",
             "Connections of engines before, by what became of them.")
      .sample(number(all.resumed), {{"became", "resumed"}})
      .sample(number(all.idle), {{"became", "idle"}})
      .sample(number(all.fresh), {{"became", "fresh"}})
      .sample(number(all.ended), {{"became", "ended"}})
      .sample(number(all.lost), {{"became", "lost"}});
  out.family("orcd_failover_streams_resumed_total", "counter", "Requests that were gone on with.")
      .sample(number(all.resumed));
  out.family("orcd_failover_conflicts_total", "counter",
             "Connections of which the journal and the kernel say different things.")
      .sample(number(all.conflicts));
  out.family("orcd_failover_unsent_bytes_total", "counter",
             "Output of engines before that their sockets had not taken.")
      .sample(number(all.bytes));
  out.family("orcd_failover_journal_bytes", "gauge", "Room for connections in the journal.")
      .sample(number(std::uint64_t{journal_.blocks()} * journal_layout::block_bytes));
  out.family("orcd_failover_journal_free_bytes", "gauge", "Of it, what is free.")
      .sample(number(std::uint64_t{journal_.blocks_free()} * journal_layout::block_bytes));
  out.family("orcd_failover_journal_full_total", "counter",
             "Connections that end with their engine, because the journal was full.")
      .sample(number(given_up()));
  return std::move(out).take();
}

std::optional<journalled> takeover::judge(const held_socket& held, bool dead_engine) {
  // A place whose connection this engine still has cannot be another's: that one is closed.
  if (held.slot >= journal_records || journal_.is_in_use(held.slot)) return std::nullopt;
  const auto counters = read_counters(held.socket.get());
  // The kernel has no counters of a connection that is over.
  if (!counters) return leave_closed(held.slot);
  auto found = recover(journal_, held.slot, held.serial, *counters);
  if (found.kind == recovery_kind::lost) return give_up(held.slot, found.conflict);
  if (found.kind == recovery_kind::ended) return leave_closed(held.slot);
  journalled out;
  out.maker = maker_;
  if (found.kind == recovery_kind::fresh) {
    if (dead_engine) ++counts_.fresh;
    journal_.forget(held.slot);
    out.record = std::make_unique<journal_record>(journal_, held.slot, held.serial);
    return out;
  }
  out.record =
      std::make_unique<journal_record>(journal_record::taken_over{}, journal_, held.slot, counters->received);
  if (in_request(found.connection) && !in_order_) {
    const bool ran = may_have_killed(held.slot);
    out.record->count_resumed(ran);
    ++found.connection.resumed;
    found.connection.ran += ran ? 1 : 0;
  }
  out.record->waits(false);
  const auto began_with_it = journal_.engine_of(found.connection.origin.maker);
  out.refusal = refusal_of(found.connection, began_with_it);
  if (began_with_it && began_with_it->fingerprint != 0) {
    out.fingerprint = fingerprint_of(began_with_it->fingerprint);
  }
  out.alone = in_request(found.connection) && runs_alone(found.connection);
  count(found.connection);
  out.recovered = std::move(found.connection);
  return out;
}

}  // namespace orcd::net
