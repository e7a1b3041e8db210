#include "net/failover/weights_bodies.hpp"

#include "engine/base/ensure.hpp"
#include "net/failover/frame_limits.hpp"

namespace orcd::net {
namespace {

void put_hash(frame_writer& to, const weights_hash& hash) {
  to.put_bytes(hash.data(), hash.size());
}

void put_metadata(frame_writer& to, const std::string& text) {
  ORCD_ENSURE(text.size() <= weights_metadata_bytes_max);
  to.put_text(text);
}

void put_name(frame_writer& to, const std::string& name) {
  ORCD_ENSURE(is_piece_name(name));
  to.put_text(name);
}

void take_hash(frame_reader& from, weights_hash& hash) {
  from.take_bytes(hash.data(), hash.size());
}

frame_problem take_metadata(frame_reader& from, std::string& text) {
  return from.take_text(text, weights_metadata_bytes_max, "metadata");
}

frame_problem take_name(frame_reader& from, std::string& name) {
  if (auto wrong = from.take_text(name, piece_name_bytes_max, "a name")) return wrong;
  // Of one that is cut short the caller says so.
  if (from.is_short() || is_piece_name(name)) return std::nullopt;
  return "a name of " + std::to_string(name.size()) + " bytes, not of 1 to " +
         std::to_string(piece_name_bytes_max) + " letters, digits and ._-";
}

/// A word that names one of 1 to `last`.
template <class Enum>
frame_problem take_choice(frame_reader& from, Enum& to, Enum last, const char* what) {
  const auto word = from.take<std::uint32_t>();
  if (word == 0 && from.is_short()) return std::nullopt;
  if (word == 0 || word > static_cast<std::uint32_t>(last)) {
    return std::string(what) + " " + std::to_string(word) + ", not 1 to " +
           std::to_string(static_cast<std::uint32_t>(last));
  }
  to = static_cast<Enum>(word);
  return std::nullopt;
}

frame_problem check_bytes(std::uint64_t bytes) {
  if (bytes >= 1 && bytes <= piece_bytes_max) return std::nullopt;
  return "memory of " + std::to_string(bytes) + " bytes, not 1 to " + std::to_string(piece_bytes_max);
}

}  // namespace

void write_body(frame_writer& to, const claim_frame& f) {
  to.put(f.engine);
  to.put(static_cast<std::uint32_t>(f.mode));
  to.put(f.timeout_ms);
  to.put(f.epoch);
}
void write_body(frame_writer& to, const grant_frame& f) {
  to.put(static_cast<std::uint32_t>(f.mode));
  to.put(f.epoch);
  put_hash(to, f.layout);
  put_hash(to, f.content);
  put_metadata(to, f.metadata);
}
void write_body(frame_writer& to, const deny_frame& f) {
  to.put(static_cast<std::uint32_t>(f.why));
}
void write_body(frame_writer& to, const put_frame& f) {
  to.put(f.bytes);
  put_name(to, f.name);
}
void write_body(frame_writer& to, const commit_frame& f) {
  put_hash(to, f.layout);
  put_hash(to, f.content);
  put_metadata(to, f.metadata);
}
void write_body(frame_writer& to, const get_frame& f) {
  put_name(to, f.name);
}
void write_body(frame_writer& to, const piece_frame& f) {
  to.put(std::uint32_t{f.found});
  to.put(f.bytes);
}
void write_body(frame_writer&, const done_frame&) {}
void write_body(frame_writer&, const ask_frame&) {}
void write_body(frame_writer& to, const weights_state_frame& f) {
  to.put(f.epoch);
  to.put(f.bytes);
  for (const std::uint32_t word :
       {f.pieces, f.readers, f.waiting, std::uint32_t{f.has_writer}, std::uint32_t{f.committed}}) {
    to.put(word);
  }
  put_hash(to, f.layout);
  put_hash(to, f.content);
}

frame_problem read_body(frame_reader& from, claim_frame& f) {
  f.engine = from.take<std::uint32_t>();
  if (f.engine >= engine_ids) {
    return "engine " + std::to_string(f.engine) + ", the limit is " + std::to_string(engine_ids - 1);
  }
  if (auto wrong = take_choice(from, f.mode, weights_mode::write_or_read, "mode")) return wrong;
  f.timeout_ms = from.take<std::uint32_t>();
  f.epoch = from.take<std::uint64_t>();
  return std::nullopt;
}
frame_problem read_body(frame_reader& from, grant_frame& f) {
  if (auto wrong = take_choice(from, f.mode, weights_mode::read, "granted mode")) return wrong;
  f.epoch = from.take<std::uint64_t>();
  take_hash(from, f.layout);
  take_hash(from, f.content);
  return take_metadata(from, f.metadata);
}
frame_problem read_body(frame_reader& from, deny_frame& f) {
  return take_choice(from, f.why, denial::nothing, "reason");
}
frame_problem read_body(frame_reader& from, put_frame& f) {
  f.bytes = from.take<std::uint64_t>();
  if (from.is_short()) return std::nullopt;
  if (auto wrong = check_bytes(f.bytes)) return wrong;
  return take_name(from, f.name);
}
frame_problem read_body(frame_reader& from, commit_frame& f) {
  take_hash(from, f.layout);
  take_hash(from, f.content);
  if (!from.is_short() && f.layout == weights_hash{}) return "a layout hash of zeros";
  return take_metadata(from, f.metadata);
}
frame_problem read_body(frame_reader& from, get_frame& f) {
  return take_name(from, f.name);
}
frame_problem read_body(frame_reader& from, piece_frame& f) {
  if (auto wrong = from.take_flag(f.found)) return wrong;
  f.bytes = from.take<std::uint64_t>();
  if (from.is_short()) return std::nullopt;
  if (f.found) return check_bytes(f.bytes);
  return f.bytes == 0 ? std::nullopt : frame_problem("memory that is not there has bytes");
}
frame_problem read_body(frame_reader&, done_frame&) {
  return std::nullopt;
}
frame_problem read_body(frame_reader&, ask_frame&) {
  return std::nullopt;
}
frame_problem read_body(frame_reader& from, weights_state_frame& f) {
  f.epoch = from.take<std::uint64_t>();
  f.bytes = from.take<std::uint64_t>();
  f.pieces = from.take<std::uint32_t>();
  f.readers = from.take<std::uint32_t>();
  f.waiting = from.take<std::uint32_t>();
  if (auto wrong = from.take_flag(f.has_writer)) return wrong;
  if (auto wrong = from.take_flag(f.committed)) return wrong;
  take_hash(from, f.layout);
  take_hash(from, f.content);
  return std::nullopt;
}

}  // namespace orcd::net
