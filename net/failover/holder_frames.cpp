#include "net/failover/holder_frames.hpp"

#include <optional>
#include <utility>

#include "engine/base/ensure.hpp"
#include "net/failover/frame_fields.hpp"
#include "net/failover/weights_bodies.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;
using engine::result;

constexpr std::uint32_t magic = 0x4843524F;  // "ORCH"
constexpr std::uint16_t version = 4;
constexpr std::uint32_t is_fresh = 1;
constexpr std::uint32_t is_last = 2;
constexpr std::uint32_t ports_max = 65'535;

error malformed(const std::string& why) {
  return {errc::invalid_request, "frame: " + why};
}

void put_place(frame_writer& to, const held_place& place) {
  to.put(place.slot);
  to.put(std::uint32_t{0});
  to.put(place.serial);
}

void write_body(frame_writer& to, const hello_frame& f) {
  to.put(f.engine);
  to.put(f.system_port);
}
void write_body(frame_writer& to, const welcome_frame& f) {
  to.put(std::uint32_t{f.complete});
}
void write_body(frame_writer& to, const take_over_frame& f) {
  to.put(f.room);
}
void write_body(frame_writer& to, const sockets_frame& f) {
  ORCD_ENSURE(f.places.size() <= frame_descriptors_max);
  to.put((f.fresh ? is_fresh : 0) | (f.last ? is_last : 0));
  to.put(static_cast<std::uint32_t>(f.places.size()));
  to.put(f.next_serial);
  for (const auto& place : f.places) put_place(to, place);
}
void write_body(frame_writer& to, const closed_frame& f) {
  put_place(to, f.which);
}
void write_body(frame_writer& to, const yield_frame& f) {
  to.put(std::uint32_t{f.rests});
}
void write_body(frame_writer& to, const ping_frame& f) {
  to.put(f.progress);
}
void write_body(frame_writer&, const offer_frame&) {}
void write_body(frame_writer&, const probe_frame&) {}
void write_body(frame_writer&, const rest_frame&) {}
void write_body(frame_writer&, const settled_frame&) {}
void write_body(frame_writer&, const journal_damaged_frame&) {}
void write_answers(frame_writer& to, const answer_identity& answers) {
  ORCD_ENSURE(answers.parts.size() <= answer_identity::parts_max);
  to.put(static_cast<std::uint32_t>(answers.parts.size()));
  for (const auto part : answers.parts) to.put(part);
  to.put(answers.weights.files);
  to.put(answers.weights.mapped);
  to.put(answers.weights.digest);
}
void write_body(frame_writer& to, const standby_frame& f) {
  write_answers(to, f.answers);
}
void write_body(frame_writer& to, const who_frame& f) {
  write_answers(to, f.answers);
}
void write_body(frame_writer& to, const waiting_frame& f) {
  ORCD_ENSURE(f.places.size() <= held_sockets_max);
  to.put(static_cast<std::uint32_t>(f.places.size()));
  for (const auto& place : f.places) put_place(to, place);
}
void write_body(frame_writer& to, const report_frame& f) {
  to.put(f.engines);
  to.put(f.standbys);
  to.put(f.others);
  to.put(f.differs);
  to.put(f.active);
  to.put(f.sockets);
  to.put(std::uint32_t{f.complete});
  to.put(std::uint32_t{f.settled});
}
void write_body(frame_writer& to, const signal_frame& f) {
  to.put(static_cast<std::uint32_t>(f.what));
}
void write_body(frame_writer&, const reloaded_frame&) {}
void write_body(frame_writer&, const list_frame&) {}
void write_body(frame_writer& to, const engines_frame& f) {
  ORCD_ENSURE(f.engines.size() <= engine_ids);
  to.put(f.port);
  to.put(f.sockets);
  to.put(std::uint32_t{f.complete});
  to.put(f.journals_replaced);
  to.put(f.closed_with_journals);
  to.put(static_cast<std::uint32_t>(f.engines.size()));
  for (const auto& one : f.engines) {
    to.put(one.engine);
    to.put(static_cast<std::uint32_t>(one.state));
    to.put(std::uint32_t{one.is_silent});
    to.put(one.process);
    to.put(one.system_port);
  }
}

using problem = frame_problem;

problem read_place(frame_reader& from, held_place& place) {
  place.slot = from.take<std::uint32_t>();
  const auto padding = from.take<std::uint32_t>();
  place.serial = from.take<std::uint64_t>();
  if (from.is_short()) return std::nullopt;  // said by the caller
  if (place.slot >= held_sockets_max) {
    return "slot " + std::to_string(place.slot) + ", the limit is " + std::to_string(held_sockets_max - 1);
  }
  if (place.serial == 0 || padding != 0) return "a place without a serial, or with other bytes than zero";
  return std::nullopt;
}

problem read_body(frame_reader& from, hello_frame& f) {
  f.engine = from.take<std::uint32_t>();
  f.system_port = from.take<std::uint32_t>();
  if (f.system_port > ports_max) {
    return "system port " + std::to_string(f.system_port) + ", the limit is " + std::to_string(ports_max);
  }
  if (f.engine < engine_ids) return std::nullopt;
  return "engine " + std::to_string(f.engine) + ", the limit is " + std::to_string(engine_ids - 1);
}
problem read_body(frame_reader& from, welcome_frame& f) {
  return from.take_flag(f.complete);
}
problem read_body(frame_reader& from, take_over_frame& f) {
  f.room = from.take<std::uint32_t>();
  if (from.is_short() || (f.room > 0 && f.room <= held_sockets_max)) return std::nullopt;
  return "room for " + std::to_string(f.room) + " sockets, not 1 to " + std::to_string(held_sockets_max);
}
/// So many places.
problem read_places(frame_reader& from, std::uint32_t count, std::vector<held_place>& places) {
  places.resize(count);
  for (auto& place : places) {
    if (auto wrong = read_place(from, place)) return wrong;
  }
  return std::nullopt;
}
problem read_body(frame_reader& from, sockets_frame& f) {
  const auto flags = from.take<std::uint32_t>();
  const auto count = from.take<std::uint32_t>();
  f.next_serial = from.take<std::uint64_t>();
  if (!from.is_short() && f.next_serial == 0) return "next serial 0";
  if (flags > (is_fresh | is_last)) return "flags of sockets: " + std::to_string(flags);
  if (count > frame_descriptors_max) {
    return std::to_string(count) + " sockets, the limit is " + std::to_string(frame_descriptors_max);
  }
  f.fresh = (flags & is_fresh) != 0;
  f.last = (flags & is_last) != 0;
  return read_places(from, count, f.places);
}
problem read_body(frame_reader& from, waiting_frame& f) {
  const auto count = from.take<std::uint32_t>();
  if (count <= held_sockets_max) return read_places(from, count, f.places);
  return std::to_string(count) + " that wait, the limit is " + std::to_string(held_sockets_max);
}
problem read_body(frame_reader& from, closed_frame& f) {
  return read_place(from, f.which);
}
problem read_body(frame_reader& from, yield_frame& f) {
  return from.take_flag(f.rests);
}
problem read_body(frame_reader& from, ping_frame& f) {
  f.progress = from.take<std::uint64_t>();
  return std::nullopt;
}
problem read_body(frame_reader&, offer_frame&) {
  return std::nullopt;
}
problem read_body(frame_reader&, probe_frame&) {
  return std::nullopt;
}
problem read_body(frame_reader&, settled_frame&) {
  return std::nullopt;
}
problem read_body(frame_reader&, journal_damaged_frame&) {
  return std::nullopt;
}
problem read_body(frame_reader&, rest_frame&) {
  return std::nullopt;
}
problem read_answers(frame_reader& from, answer_identity& answers) {
  const auto count = from.take<std::uint32_t>();
  if (count > answer_identity::parts_max) {
    return std::to_string(count) + " parts of an identity, the limit is " +
           std::to_string(answer_identity::parts_max);
  }
  answers.parts.resize(count);
  for (auto& part : answers.parts) part = from.take<std::uint64_t>();
  answers.weights.files = from.take<std::uint64_t>();
  answers.weights.mapped = from.take<std::uint64_t>();
  answers.weights.digest = from.take<std::uint64_t>();
  return std::nullopt;
}
problem read_body(frame_reader& from, standby_frame& f) {
  return read_answers(from, f.answers);
}
problem read_body(frame_reader& from, who_frame& f) {
  return read_answers(from, f.answers);
}
problem read_body(frame_reader& from, report_frame& f) {
  f.engines = from.take<std::uint32_t>();
  f.standbys = from.take<std::uint32_t>();
  f.others = from.take<std::uint32_t>();
  f.differs = from.take<std::uint32_t>();
  f.active = from.take<std::uint32_t>();
  f.sockets = from.take<std::uint32_t>();
  if (auto wrong = from.take_flag(f.complete)) return wrong;
  return from.take_flag(f.settled);
}
problem read_body(frame_reader& from, signal_frame& f) {
  const auto number = from.take<std::uint32_t>();
  f.what = static_cast<signal_frame::kind>(number);
  if (f.what == signal_frame::kind::hang_up || f.what == signal_frame::kind::hand_over) return std::nullopt;
  return "signal " + std::to_string(number) + ", not 1 to 2";
}
problem read_body(frame_reader&, reloaded_frame&) {
  return std::nullopt;
}
problem read_body(frame_reader&, list_frame&) {
  return std::nullopt;
}
problem read_listed(frame_reader& from, listed_engine& one) {
  one.engine = from.take<std::uint32_t>();
  const auto state = from.take<std::uint32_t>();
  auto wrong = from.take_flag(one.is_silent);
  one.process = from.take<std::uint32_t>();
  one.system_port = from.take<std::uint32_t>();
  if (wrong || from.is_short()) return wrong;
  one.state = static_cast<listed_engine::kind>(state);
  if (state >= 1 && state <= static_cast<std::uint32_t>(listed_engine::kind::leaves)) return std::nullopt;
  return "state " + std::to_string(state) + " of an engine, not 1 to 4";
}
problem read_body(frame_reader& from, engines_frame& f) {
  f.port = from.take<std::uint32_t>();
  f.sockets = from.take<std::uint32_t>();
  if (auto wrong = from.take_flag(f.complete)) return wrong;
  f.journals_replaced = from.take<std::uint32_t>();
  f.closed_with_journals = from.take<std::uint32_t>();
  const auto count = from.take<std::uint32_t>();
  if (count > engine_ids) {
    return std::to_string(count) + " engines, the limit is " + std::to_string(engine_ids);
  }
  f.engines.resize(count);
  for (auto& one : f.engines) {
    if (auto wrong = read_listed(from, one)) return wrong;
  }
  return std::nullopt;
}

/// The frame whose place in `frame` is `type` - 1, read by the function above that is for it.
template <std::size_t Index = 0>
problem read_frame(std::uint16_t type, frame_reader& from, frame& out) {
  if constexpr (Index < std::variant_size_v<frame>) {
    if (type != Index + 1) return read_frame<Index + 1>(type, from, out);
    return read_body(from, out.emplace<Index>());
  } else {
    return "type " + std::to_string(type) + " is none";
  }
}

}  // namespace

std::size_t descriptors_of(const frame& body) noexcept {
  if (std::holds_alternative<hello_frame>(body) || std::holds_alternative<claim_frame>(body) ||
      std::holds_alternative<put_frame>(body)) {
    return 1;
  }
  if (std::holds_alternative<offer_frame>(body)) return 2;
  if (const auto* const welcome = std::get_if<welcome_frame>(&body)) return welcome->complete ? 2 : 0;
  if (const auto* const sockets = std::get_if<sockets_frame>(&body)) return sockets->places.size();
  if (const auto* const piece = std::get_if<piece_frame>(&body)) return piece->found ? 1 : 0;
  return 0;
}

std::string encode_frame(const numbered_frame& what) {
  frame_writer body;
  std::visit([&](const auto& f) { write_body(body, f); }, what.body);
  frame_writer head;
  head.put(magic);
  head.put(version);
  head.put(static_cast<std::uint16_t>(what.body.index() + 1));
  head.put(what.request);
  head.put(static_cast<std::uint32_t>(body.out.size()));
  return std::move(head.out) + body.out;
}

result<numbered_frame> decode_frame(std::span<const std::byte> packet, std::size_t descriptors) {
  if (packet.size() < frame_header_bytes || packet.size() > frame_bytes_max) {
    return malformed(std::to_string(packet.size()) + " bytes, not " + std::to_string(frame_header_bytes) +
                     " to " + std::to_string(frame_bytes_max));
  }
  frame_reader head(packet.first(frame_header_bytes));
  frame_reader body(packet.subspan(frame_header_bytes));
  numbered_frame out;
  if (const auto word = head.take<std::uint32_t>(); word != magic) return malformed("no frame of the holder");
  if (const auto spoken = head.take<std::uint16_t>(); spoken != version) {
    return malformed("version " + std::to_string(spoken) + ", this is " + std::to_string(version));
  }
  const auto type = head.take<std::uint16_t>();
  out.request = head.take<std::uint32_t>();
  const auto length = head.take<std::uint32_t>();
  if (length != packet.size() - frame_header_bytes) {
    return malformed("a body of " + std::to_string(packet.size() - frame_header_bytes) + " bytes says " +
                     std::to_string(length));
  }
  if (const auto wrong = read_frame(type, body, out.body)) return malformed(*wrong);
  if (!body.is_done()) return malformed("the body's length is not that of its type");
  if (descriptors_of(out.body) != descriptors) {
    return malformed(std::to_string(descriptors) + " descriptors came beside a frame that has " +
                     std::to_string(descriptors_of(out.body)));
  }
  return out;
}

}  // namespace orcd::net
