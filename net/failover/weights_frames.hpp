// What is said at the holder's socket of one device about the weights in its memory. An engine makes the
// memory, and the holder keeps descriptors of it, so that it outlives the engine. The connection is the lock:
// its end, however it comes, frees what it had. Frames are those of holder_frames.hpp. Source: the weights of
// the failover plan.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace orcd::net {

inline constexpr std::size_t piece_name_bytes_max = 64;
inline constexpr std::size_t weights_metadata_bytes_max = std::size_t{16} << 10U;
/// Pieces of memory that the holder keeps of one device.
inline constexpr std::size_t pieces_max = 64;
inline constexpr std::uint64_t piece_bytes_max = std::uint64_t{1} << 44U;
/// As a timeout: waits until it is granted.
inline constexpr std::uint32_t no_timeout = ~std::uint32_t{0};

/// A SHA-256.
using weights_hash = std::array<std::uint8_t, 32>;

enum class weights_mode : std::uint32_t {
  write = 1,          ///< RW: when nobody reads or writes
  read = 2,           ///< RO: when committed, and nobody writes or waits to write
  write_or_read = 3,  ///< RW_OR_RO: as RW when nothing is committed, else as RO
};

/// Where the holder of a folder is reached about a device: a GPU's UUID or index, or host_device.
[[nodiscard]] inline std::string weights_socket_path(const std::string& dir, const std::string& device) {
  return dir + "/gms_" + device + ".sock";
}
/// The names that a device may have there: CUDA tells the UUID of a part of a GPU as if it was a GPU's.
[[nodiscard]] std::vector<std::string> device_names_of(const std::string& device);
/// Stands for memory that is on no GPU.
inline constexpr const char* host_device = "host";

/// Whether it is 1 to piece_name_bytes_max letters, digits and "._-".
[[nodiscard]] bool is_piece_name(std::string_view name) noexcept;

/// From an engine, first of all; beside it its own pidfd. Answered by a grant or a denial.
struct claim_frame {
  std::uint32_t engine = 0;
  weights_mode mode = weights_mode::read;
  std::uint32_t timeout_ms = no_timeout;  ///< 0: now or not at all
  std::uint64_t epoch = 0;                ///< of the grant that it comes back to; 0: it has none
  bool operator==(const claim_frame&) const = default;
};
/// The answer, and the one to a commit, after which its writer reads.
struct grant_frame {
  weights_mode mode = weights_mode::read;  ///< write or read
  std::uint64_t epoch = 1;                 ///< grants to write so far, this one among them
  weights_hash layout{};                   ///< of what is committed; zero for a writer
  weights_hash content{};
  std::string metadata{};
  bool operator==(const grant_frame&) const = default;
};
enum class denial : std::uint32_t {
  timeout = 1,
  nothing = 2,  ///< the claimant comes back to a grant, and nothing is committed nor about to be
};
/// The answer to a claim. It may claim again.
struct deny_frame {
  denial why = denial::timeout;
  bool operator==(const deny_frame&) const = default;
};
/// From the writer: memory, whose descriptor is beside it. Answered by `done`.
struct put_frame {
  std::uint64_t bytes = 0;  ///< 1 to piece_bytes_max
  std::string name{};       ///< each name once
  bool operator==(const put_frame&) const = default;
};
/// From the writer: all is there and will not change. Answered by a grant to read.
struct commit_frame {
  weights_hash layout{};   ///< not zero
  weights_hash content{};  ///< zero where it is not known
  std::string metadata{};
  bool operator==(const commit_frame&) const = default;
};
/// From a reader or the writer.
struct get_frame {
  std::string name{};
  bool operator==(const get_frame&) const = default;
};
/// The answer: the descriptor of that memory is beside it, unless there is no such memory.
struct piece_frame {
  bool found = false;
  std::uint64_t bytes = 0;
  bool operator==(const piece_frame&) const = default;
};
/// The answer to a put and to a ping.
struct done_frame {
  bool operator==(const done_frame&) const = default;
};
/// From any peer: what is there?
struct ask_frame {
  bool operator==(const ask_frame&) const = default;
};
/// The answer.
struct weights_state_frame {
  std::uint64_t epoch = 0;
  std::uint64_t bytes = 0;  ///< of all pieces
  std::uint32_t pieces = 0;
  std::uint32_t readers = 0;
  std::uint32_t waiting = 0;
  bool has_writer = false;
  bool committed = false;
  weights_hash layout{};
  weights_hash content{};
  bool operator==(const weights_state_frame&) const = default;
};

}  // namespace orcd::net
