// What layers that keep a state instead of keys and values are made of, as data: gated delta nets, Mamba-2
// and short convolutions. docs/architecture.md, "Recurrent layers", has the arithmetic.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace orcd::engine {

/// How a layer mixes tokens.
///   attention    keys and values of all tokens before
///   delta_net    a state that is corrected towards each value: S <- e^g S, S += k (beta (v - S'k))', o = S'q
///   mamba2       a state that values are added to: h <- e^a h + (dt x) B', y = h C + D x
///   short_conv   c * conv(b * x): the last few products are all that it keeps
///   none         the layer is a feed-forward alone
enum class mixer_kind : std::uint8_t { attention, delta_net, mamba2, short_conv, none };

/// Whether it has a state, which exists at multiples of chunk_positions alone.
[[nodiscard]] constexpr bool has_state(mixer_kind kind) noexcept {
  return kind == mixer_kind::delta_net || kind == mixer_kind::mamba2;
}
/// Whether what it computes of a token depends on the ones before, other than by keys and values.
[[nodiscard]] constexpr bool is_recurrent(mixer_kind kind) noexcept {
  return has_state(kind) || kind == mixer_kind::short_conv;
}

/// Positions between two states of a sequence. A part of every answer's bits.
inline constexpr std::uint32_t chunk_positions = 8;
/// Rows that a convolution looks at, at most.
inline constexpr std::uint32_t conv_kernel_max = 8;

/// Which key head a value head has, of `r` value heads a key head: of neighbours the same (h / r), or all key
/// heads in turn (h mod key heads).
enum class head_sharing : std::uint8_t { neighbours, in_turn };

/// Of all layers with a state, or of all short convolutions; every size in values. A key head of Mamba-2 is a
/// group of B and C.
struct recurrent_spec {
  std::uint32_t conv_kernel = 0;  ///< rows that a convolution looks at, the token's own included
  std::uint32_t key_heads = 0;
  std::uint32_t value_heads = 0;
  std::uint32_t key_length = 0;    ///< of a key and a query; a state has value_length rows of so many values
  std::uint32_t value_length = 0;  ///< of what a value head gives
  head_sharing sharing = head_sharing::neighbours;
  std::uint32_t norm_groups = 0;     ///< vectors that ssm_norm is of, in what all heads give
  bool own_norm_weights = false;     ///< each of them has weights of its own
  double norm_eps = 1e-6;            ///< of ssm_norm, whatever the stream's norms have
  double unit_eps = 1e-6;            ///< of a delta net's queries and keys, which no key of a file says
  bool joint_beta_decay = false;     ///< ssm_ba: of each key head r rows of beta, then r of the decay
  std::uint32_t short_channels = 0;  ///< of short convolutions

  [[nodiscard]] constexpr std::uint32_t keys() const noexcept { return key_heads * key_length; }
  [[nodiscard]] constexpr std::uint32_t values() const noexcept { return value_heads * value_length; }
  [[nodiscard]] constexpr std::uint32_t key_head_of(std::uint32_t value_head) const noexcept {
    return sharing == head_sharing::in_turn ? value_head % key_heads : value_head / (value_heads / key_heads);
  }
  /// Channels of the convolution: queries, keys and values in whatever order the kind has them.
  [[nodiscard]] constexpr std::uint32_t conv_channels(mixer_kind kind) const noexcept {
    return kind == mixer_kind::short_conv ? short_channels : 2 * keys() + values();
  }
  /// Rows of its first product: a delta net's q|k|v, Mamba-2's gate|x|B|C|dt, a short convolution's b|c|x.
  [[nodiscard]] constexpr std::uint32_t input_rows(mixer_kind kind) const noexcept {
    if (kind == mixer_kind::short_conv) return 3 * short_channels;
    return conv_channels(kind) + (kind == mixer_kind::mamba2 ? values() + value_heads : 0);
  }
  /// Values of a layer's state.
  [[nodiscard]] constexpr std::uint64_t state_values(mixer_kind kind) const noexcept {
    return has_state(kind) ? std::uint64_t{values()} * key_length : 0;
  }
  /// Values that a recurrent layer keeps at a boundary: its state, then the rows that its convolution looks
  /// back at.
  [[nodiscard]] constexpr std::uint64_t boundary_values(mixer_kind kind) const noexcept {
    return state_values(kind) + std::uint64_t{conv_kernel - 1} * conv_channels(kind);
  }
};

}  // namespace orcd::engine
