// What decides the bytes that a request is answered with, as engines compare it: the weights, and numbers for
// everything else in an order that all engines have. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace orcd::net {

/// 64 bits of the text's SHA-256; never 0, which stands for what is not known.
[[nodiscard]] std::uint64_t number_of(std::string_view text);

/// Which weights an engine has, as numbers of texts. 0: not known, or none.
struct weights_identity {
  std::uint64_t files = 0;   ///< the files that the engine opened, and as of when
  std::uint64_t mapped = 0;  ///< those that another engine loaded, whose memory this one maps
  std::uint64_t digest = 0;  ///< SHA-256 of the files, which is known some time after the start

  bool operator==(const weights_identity&) const = default;
};

/// Whether they are the very same files, or the same memory, or have one digest. Weights of which nothing of
/// that is known are others.
[[nodiscard]] bool are_same(const weights_identity& a, const weights_identity& b) noexcept;

struct answer_identity {
  static constexpr std::size_t parts_max = 128;

  /// Equal in two engines that answer alike. The first one stands for the code, and engines in which it is
  /// equal have the same parts in the same order.
  std::vector<std::uint64_t> parts;
  weights_identity weights;

  bool operator==(const answer_identity&) const = default;
};

/// What difference() tells where the parts are equal and the weights are not.
inline constexpr std::uint32_t weights_differ = 0xFFFF'FFFE;

/// The place of the first part that differs, weights_differ, or nullopt: they answer alike.
[[nodiscard]] std::optional<std::uint32_t> difference(const answer_identity& a,
                                                      const answer_identity& b) noexcept;

/// One number for all parts.
[[nodiscard]] std::uint64_t number_of(const std::vector<std::uint64_t>& parts);

}  // namespace orcd::net
