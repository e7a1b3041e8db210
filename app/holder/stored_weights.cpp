#include "app/holder/stored_weights.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>

#include "app/holder/shared_files.hpp"
#include "app/holder/stored_number.hpp"
#include "net/failover/weights_bodies.hpp"

namespace orcd::app {
namespace {

using net::file_descriptor;

constexpr std::string_view record_prefix = "weights-";
constexpr std::string_view piece_prefix = "memory-";
constexpr std::uint64_t record_magic = 0x3130'5745'4352'4f00;
constexpr int record_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
/// Hashes, metadata and the names of all pieces, with room to spare.
constexpr std::size_t record_bytes_max = net::weights_metadata_bytes_max + (std::size_t{16} << 10U);

using by_name = std::map<std::string, file_descriptor, std::less<>>;

struct record_of {
  std::string device;
  std::uint64_t epoch = 0;
};

std::optional<record_of> parse_name(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  record_of out;
  if (!take_number(name, out.epoch) || out.epoch == 0 || !name.starts_with('-')) return std::nullopt;
  out.device = name.substr(1);
  return out;
}

std::optional<record_of> parse_record_name(std::string_view name) {
  return parse_name(name, record_prefix);
}

std::optional<record_of> parse_piece_name(std::string_view name) {
  auto out = parse_name(name, piece_prefix);
  if (!out) return std::nullopt;
  std::string_view left = out->device;
  std::size_t index = 0;
  if (!take_number(left, index) || !left.starts_with('-')) return std::nullopt;
  out->device = std::string(left.substr(1));
  return out;
}

/// Of what was passed, whatever becomes of it.
void note_epochs(const std::vector<stored_descriptor>& passed, restored_weights& out) {
  for (const stored_descriptor& one : passed) {
    auto of = parse_record_name(one.name);
    if (!of) of = parse_piece_name(one.name);
    if (!of) continue;
    auto& highest = out.epochs[of->device];
    highest = std::max(highest, of->epoch);
  }
}

std::string to_bytes(const weights_table::committed& what) {
  net::frame_writer to;
  to.put(record_magic);
  to.put(what.epoch);
  write_body(to, what.told);
  to.put(static_cast<std::uint32_t>(what.pieces.size()));
  for (const auto& one : what.pieces) write_body(to, net::put_frame{one.bytes, one.name});
  return std::move(to.out);
}

std::optional<weights_table::committed> from_bytes(std::span<const std::byte> bytes) {
  net::frame_reader from(bytes);
  weights_table::committed out;
  if (from.take<std::uint64_t>() != record_magic) return std::nullopt;
  out.epoch = from.take<std::uint64_t>();
  if (read_body(from, out.told)) return std::nullopt;
  const auto pieces = from.take<std::uint32_t>();
  if (pieces == 0 || pieces > net::pieces_max) return std::nullopt;
  for (std::uint32_t i = 0; i < pieces; ++i) {
    net::put_frame one;
    if (read_body(from, one)) return std::nullopt;
    const bool again = std::any_of(out.pieces.begin(), out.pieces.end(),
                                   [&](const weights_table::piece& p) { return p.name == one.name; });
    if (again) return std::nullopt;
    out.pieces.push_back({one.name, one.bytes, {}});
  }
  if (!from.is_done()) return std::nullopt;
  return out;
}

std::optional<weights_table::committed> read_record(int descriptor) {
  struct stat facts {};
  if (::fcntl(descriptor, F_GET_SEALS) != record_seals || ::fstat(descriptor, &facts) != 0) {
    return std::nullopt;
  }
  if (facts.st_size <= 0 || static_cast<std::size_t>(facts.st_size) > record_bytes_max) return std::nullopt;
  std::vector<std::byte> bytes(static_cast<std::size_t>(facts.st_size));
  if (::pread(descriptor, bytes.data(), bytes.size(), 0) != facts.st_size) return std::nullopt;
  return from_bytes(bytes);
}

/// The weights that a record tells of, with their memory; nullopt where something is missing or is no memory.
std::optional<weights_table::committed> put_together(const record_of& of, int record, by_name& pieces) {
  auto out = read_record(record);
  if (!out || out->epoch != of.epoch) return std::nullopt;
  for (std::size_t i = 0; i < out->pieces.size(); ++i) {
    const auto found = pieces.find(piece_name(of.device, of.epoch, i));
    if (found == pieces.end() || !is_memory(found->second.get(), out->pieces[i].bytes)) return std::nullopt;
  }
  for (std::size_t i = 0; i < out->pieces.size(); ++i) {
    const auto found = pieces.find(piece_name(of.device, of.epoch, i));
    out->pieces[i].memory = std::move(found->second);
    pieces.erase(found);
  }
  return out;
}

}  // namespace

std::string record_name(const std::string& device, std::uint64_t epoch) {
  return std::string(record_prefix) + std::to_string(epoch) + "-" + device;
}

std::string piece_name(const std::string& device, std::uint64_t epoch, std::size_t index) {
  return std::string(piece_prefix) + std::to_string(epoch) + "-" + std::to_string(index) + "-" + device;
}

engine::result<file_descriptor> make_record(const weights_table::committed& what) {
  const auto bytes = to_bytes(what);
  file_descriptor out(::memfd_create("worker-orcd-weights-record", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (out && ::write(out.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) &&
      ::fcntl(out.get(), F_ADD_SEALS, record_seals) == 0) {
    return out;
  }
  return engine::error(engine::errc::not_ready,
                       std::string("no memory for what is said of weights: ") + std::strerror(errno));
}

restored_weights take_weights(std::vector<stored_descriptor>& passed) {
  restored_weights out;
  note_epochs(passed, out);
  std::vector<std::pair<record_of, file_descriptor>> records;
  by_name pieces;
  std::vector<stored_descriptor> others;
  for (stored_descriptor& one : passed) {
    if (const auto of = parse_record_name(one.name)) {
      records.emplace_back(*of, std::move(one.descriptor));
    } else if (!one.name.starts_with(piece_prefix) ||
               !pieces.emplace(one.name, std::move(one.descriptor)).second) {
      others.push_back(std::move(one));
    }
  }
  passed = std::move(others);
  // Of two the later one: the earlier would have been let go next.
  std::sort(records.begin(), records.end(),
            [](const auto& a, const auto& b) { return a.first.epoch > b.first.epoch; });
  for (auto& [of, record] : records) {
    std::optional<weights_table::committed> found;
    if (!out.by_device.contains(of.device)) found = put_together(of, record.get(), pieces);
    if (found) {
      out.by_device.emplace(of.device, restored_weights::set{std::move(*found), std::move(record)});
    } else {
      out.refused.push_back(record_name(of.device, of.epoch));
    }
  }
  for (const auto& [name, memory] : pieces) out.refused.push_back(name);
  return out;
}

}  // namespace orcd::app
