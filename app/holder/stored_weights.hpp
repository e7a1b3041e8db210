// The weights of a device as a holder has its service manager keep them, so that they outlive a restart of
// the holder in which no engine lives: each piece of memory, and a sealed memory file that says what they
// are. Nothing is mapped here; who uses the weights compares their hash, as always.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/holder/weights_table.hpp"
#include "app/service/descriptor_store.hpp"

namespace orcd::app {

/// Descriptors of weights that are kept, at most: of 16 devices with six each, and engines make four. All
/// names of what is kept are one variable of the environment of 128 KiB, beside 4,096 connections.
inline constexpr std::size_t stored_weights_max = 96;

/// "weights-EPOCH-DEVICE" and "memory-EPOCH-INDEX-DEVICE": names of what says what they are, and of a piece.
[[nodiscard]] std::string record_name(const std::string& device, std::uint64_t epoch);
[[nodiscard]] std::string piece_name(const std::string& device, std::uint64_t epoch, std::size_t index);

/// Says what is committed, without the memory. Errors: not_ready, where there is no memory for it.
[[nodiscard]] engine::result<net::file_descriptor> make_record(const weights_table::committed& what);

struct restored_weights {
  struct set {
    weights_table::committed what{};
    net::file_descriptor record{};
  };
  std::map<std::string, set, std::less<>> by_device{};
  std::vector<std::string> refused{};  ///< names of what is no whole set of weights, which is closed
  /// The highest epoch of each device in any name, so that none is used twice: memory of a GPU cannot be told
  /// apart but by its name.
  std::map<std::string, std::uint64_t, std::less<>> epochs{};
};
/// Takes what has such a name out of what was passed. Of two sets of a device the later one counts.
[[nodiscard]] restored_weights take_weights(std::vector<stored_descriptor>& passed);

}  // namespace orcd::app
