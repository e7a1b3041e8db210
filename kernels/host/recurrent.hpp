// Layers with a state: gated delta nets and Mamba-2, in chunks of eight absolute positions, and the causal
// convolutions before them. What a token gives is a function of the state at its chunk's beginning and of the
// chunk's rows up to its own, added up in rising order, so that it does not depend on how many tokens a step
// has: docs/architecture.md, "Recurrent layers".
//
// With S the state at the boundary, [value][key], and l_t = l_(t-1) + g_t from 0:
//   u_t = b_t (v_t - e^l_t S k_t - sum over i < t of (e^(l_t - l_i) k_t.k_i) u_i)     a delta net
//   u_t = b_t v_t                                                                     Mamba-2
//   o_t = e^l_t S q_t + sum over i <= t of (e^(l_t - l_i) q_t.k_i) u_i, and skip * v_t
//   and behind the chunk's last row S <- e^l_7 S + sum over i of u_i (e^(l_7 - l_i) k_i)'
// A dot product is sixteen partial sums by index modulo 16 and a fixed tree, as in matmul.hpp;
// multiplications and additions are rounded each for itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace orcd::kernels {

/// Positions of a chunk; the same number as engine::chunk_positions.
inline constexpr std::uint32_t recurrent_chunk = 8;
/// The widest key and value of a head, and the longest convolution.
inline constexpr std::uint32_t recurrent_width_max = 640;
inline constexpr std::uint32_t recurrent_taps_max = 8;

/// Neighbouring columns of a step that are a sequence's, and what is kept of the sequence in one layer. What
/// was kept of a position lies at its number modulo the count; rows behind `position` are written anew.
struct recurrent_run {
  std::uint32_t column = 0;
  std::uint32_t count = 0;
  std::uint32_t position = 0;  ///< of the first column
  float* states = nullptr;     ///< [args.states][value heads][value_length][key_length], by chunk
  float* keys = nullptr;       ///< [args.rows][key heads][key_length], by position, as the next two
  float* updates = nullptr;    ///< [args.rows][value heads][value_length]
  float* decays = nullptr;     ///< [args.rows][value heads], their sums from the chunk's beginning
  float* inputs = nullptr;     ///< [args.rows][channels] of the convolution
};

/// out_t = sum over j of tap_j in_(t - taps + 1 + j), from the oldest on; plus a bias; then SiLU if asked
/// for. What lies before the sequence is 0.
struct causal_conv_args {
  const recurrent_run* runs = nullptr;
  const float* in = nullptr;  ///< [columns] rows of channels
  float* out = nullptr;       ///< not `in`
  std::size_t in_stride = 0;
  std::size_t out_stride = 0;
  const float* weights = nullptr;  ///< [channels][taps]
  const float* bias = nullptr;     ///< [channels]; null: none
  std::uint32_t run_count = 0;
  std::uint32_t channels = 0;
  std::uint32_t taps = 0;
  std::uint32_t rows = 0;  ///< that are kept: at least taps - 1
  bool silu = false;
};

/// A column's queries, keys and gates. A delta net: q / sqrt(sum q^2 + eps) / sqrt(key_length), k / sqrt(sum
/// k^2 + eps), b = sigmoid(beta), g = rate * softplus(decay + bias). Mamba-2: queries and keys as they are, b
/// = softplus(decay + bias), g = rate * b.
struct recurrent_gate_args {
  float* queries = nullptr;  ///< [columns] rows of [key heads][key_length]; replaced, as keys
  float* keys = nullptr;
  const float* beta = nullptr;   ///< [columns] rows, of a delta net
  const float* decay = nullptr;  ///< likewise, of both kinds
  const float* rate = nullptr;   ///< [value heads]
  const float* bias = nullptr;   ///< [value heads]
  float* factors = nullptr;      ///< b: [columns][value heads]
  float* decays = nullptr;       ///< g: likewise
  std::size_t stride = 0;        ///< between rows of queries and keys
  std::size_t gate_stride = 0;   ///< between rows of beta and decay
  std::uint32_t columns = 0;
  std::uint32_t key_heads = 0;
  std::uint32_t value_heads = 0;
  std::uint32_t key_length = 0;
  /// Value heads of a key head whose beta, then decay, are neighbours; 0: all of beta are, and of decay.
  std::uint32_t joint = 0;
  float eps = 0.0F;
  bool delta_net = false;
};

struct recurrent_args {
  const recurrent_run* runs = nullptr;
  const float* queries = nullptr;  ///< [columns] rows of [key heads][key_length]
  const float* keys = nullptr;     ///< likewise
  const float* values = nullptr;   ///< [columns] rows of [value heads][value_length]
  std::size_t stride = 0;          ///< between rows of all three
  const float* factors = nullptr;  ///< [columns][value heads]
  const float* decays = nullptr;   ///< [columns][value heads]
  const float* skip = nullptr;     ///< [value heads]; null: none
  float* out = nullptr;            ///< [columns] rows of [value heads][value_length]
  std::size_t out_stride = 0;
  std::uint32_t run_count = 0;
  std::uint32_t key_heads = 0;
  std::uint32_t value_heads = 0;
  std::uint32_t key_length = 0;
  std::uint32_t value_length = 0;
  std::uint32_t states = 0;  ///< that are kept: at least two, and one more than a step crosses boundaries
                             ///< that the next may go back over
  std::uint32_t rows = 0;    ///< that are kept, a multiple of a chunk: at least states chunks
  bool in_turn = false;      ///< the key head of a value head h is h modulo key_heads, not h / ratio
  bool delta_net = false;
};

/// x *= sigmoid(gate), head by head: of attention whose queries have gates.
struct sigmoid_gate_args {
  float* x = nullptr;            ///< [rows] of [heads][width]
  const float* gates = nullptr;  ///< [rows] of heads' gates, gate_step apart
  std::size_t x_stride = 0;
  std::size_t gate_stride = 0;
  std::size_t gate_step = 0;
  std::uint32_t rows = 0;
  std::uint32_t heads = 0;
  std::uint32_t width = 0;
};

namespace host {
class thread_pool;

void sigmoid_gate(const sigmoid_gate_args& args, thread_pool& pool);
/// Keeps the runs' inputs, too.
void causal_conv(const causal_conv_args& args, thread_pool& pool);
void recurrent_gates(const recurrent_gate_args& args, thread_pool& pool);
/// Keeps the runs' keys, updates and decays, and the states behind chunks that they fill.
void recurrent_scan(const recurrent_args& args, thread_pool& pool);
}  // namespace host

}  // namespace orcd::kernels
