// Layers with a state, of one x86 level; definitions in kernels/host/recurrent.hpp.
#include "kernels/host/recurrent.hpp"

#include "kernels/host/isa/exponential.hpp"
#include "kernels/host/isa/sixteens.hpp"
#include "kernels/host/kernel_table.hpp"

namespace orcd::kernels::host::ORCD_ISA {
namespace {

float dot(const float* a, const float* b, std::uint32_t width) {
  float_lanes sum = splat(0.0F);
  each_sixteen(width, [&](std::uint32_t i, std::uint32_t count) {
    sum = sum + load_some(a + i, count) * load_some(b + i, count);
  });
  return fold(sum);
}

/// ln(1 + y) for y in [0, 1]: 2 atanh(z) with z = y / (2 + y) <= 1/3, its series to z^15. The remainder is
/// below 2e-9 of it.
float log_of_one_and(float y) {
  const float z = y / (2.0F + y);
  const float square = z * z;
  float sum = 1.0F / 15.0F;
  for (int n = 13; n >= 1; n -= 2) sum = sum * square + 1.0F / static_cast<float>(n);
  return 2.0F * z * sum;
}

/// ln(1 + e^x), without what overflows.
float softplus(float x) {
  const float away = x < 0.0F ? x : -x;
  return (x > 0.0F ? x : 0.0F) + log_of_one_and(exponential(away));
}

float sigmoid(float x) {
  return 1.0F / (1.0F + exponential(-x));
}

void scale_vector(float* x, std::uint32_t width, float scale) {
  each_sixteen(width, [&](std::uint32_t i, std::uint32_t count) {
    store_some(x + i, scale * load_some(x + i, count), count);
  });
}

/// to += factor * x
void add_scaled(float* to, const float* x, std::uint32_t width, float factor) {
  each_sixteen(width, [&](std::uint32_t i, std::uint32_t count) {
    store_some(to + i, load_some(to + i, count) + factor * load_some(x + i, count), count);
  });
}

/// One head of one sequence: a walk over chunks.
class head_scan {
 public:
  head_scan(const recurrent_args& a, const recurrent_run& run, std::uint32_t head)
      : a_(a),
        run_(run),
        head_(head),
        key_at_(std::size_t{key_head_of(a, head)} * a.key_length),
        value_at_(std::size_t{head} * a.value_length),
        state_values_(std::size_t{a.value_heads} * a.value_length * a.key_length) {}

  void walk() {
    std::uint32_t done = 0;
    while (done < run_.count) {
      const std::uint32_t offset = (run_.position + done) % recurrent_chunk;
      const std::uint32_t room = recurrent_chunk - offset;
      const std::uint32_t count = run_.count - done < room ? run_.count - done : room;
      rows(run_.position + done - offset, offset, count);
      done += count;
    }
  }

 private:
  static std::uint32_t key_head_of(const recurrent_args& a, std::uint32_t head) {
    return a.in_turn ? head % a.key_heads : head / (a.value_heads / a.key_heads);
  }
  const float* in_step(const float* rows, std::uint32_t position) const {
    return rows + (run_.column + (position - run_.position)) * a_.stride;
  }
  const float* key(std::uint32_t position) const {
    const std::size_t width = std::size_t{a_.key_heads} * a_.key_length;
    return (position < run_.position ? run_.keys + position % a_.rows * width : in_step(a_.keys, position)) +
           key_at_;
  }
  float* update(std::uint32_t position) const {
    return run_.updates + position % a_.rows * (std::size_t{a_.value_heads} * a_.value_length) + value_at_;
  }
  float& decay(std::uint32_t position) const {
    return run_.decays[position % a_.rows * a_.value_heads + head_];
  }
  float* state(std::uint32_t chunk_begin) const {
    return run_.states + chunk_begin / recurrent_chunk % a_.states * state_values_ +
           value_at_ * a_.key_length;
  }

  /// Rows [offset, offset + count) of the chunk that begins at `begin`.
  void rows(std::uint32_t begin, std::uint32_t offset, std::uint32_t count) {
    read_state(begin, offset, count);
    for (std::uint32_t j = 0; j < count; ++j) row(begin, offset + j, j);
    if (offset + count == recurrent_chunk) advance(begin);
  }

  /// What the boundary's state has for the rows' keys and queries.
  void read_state(std::uint32_t begin, std::uint32_t offset, std::uint32_t count) {
    const float* const from = state(begin);
    for (std::uint32_t v = 0; v < a_.value_length; ++v) {
      const float* const row = from + std::size_t{v} * a_.key_length;
      for (std::uint32_t j = 0; j < count; ++j) {
        const std::uint32_t position = begin + offset + j;
        if (a_.delta_net) by_key_[j][v] = dot(row, key(position), a_.key_length);
        by_query_[j][v] = dot(row, in_step(a_.queries, position) + key_at_, a_.key_length);
      }
    }
  }

  void row(std::uint32_t begin, std::uint32_t t, std::uint32_t j) {
    const std::uint32_t position = begin + t;
    const std::size_t column = run_.column + (position - run_.position);
    const std::uint32_t width = a_.value_length;
    const float before = t == 0 ? 0.0F : decay(position - 1);
    const float sum = before + a_.decays[column * a_.value_heads + head_];
    decay(position) = sum;
    const float shrunk = exponential(sum);
    const float factor = a_.factors[column * a_.value_heads + head_];
    const float* const value = in_step(a_.values, position) + value_at_;
    float* const u = update(position);
    if (a_.delta_net) {
      zero(width);
      for (std::uint32_t i = 0; i < t; ++i)
        add_scaled(sum_, update(begin + i), width, weight(begin, t, i) * keys_product(begin, t, i));
      each_sixteen(width, [&](std::uint32_t v, std::uint32_t n) {
        const float_lanes rest = load_some(value + v, n) - shrunk * load_some(by_key_[j] + v, n);
        store_some(u + v, factor * (rest - load_some(sum_ + v, n)), n);
      });
    } else {
      each_sixteen(width, [&](std::uint32_t v, std::uint32_t n) {
        store_some(u + v, factor * load_some(value + v, n), n);
      });
    }
    zero(width);
    const float* const query = in_step(a_.queries, position) + key_at_;
    for (std::uint32_t i = 0; i <= t; ++i)
      add_scaled(sum_, update(begin + i), width,
                 weight(begin, t, i) * dot(query, key(begin + i), a_.key_length));
    float* const out = a_.out + column * a_.out_stride + value_at_;
    each_sixteen(width, [&](std::uint32_t v, std::uint32_t n) {
      float_lanes o = shrunk * load_some(by_query_[j] + v, n) + load_some(sum_ + v, n);
      if (a_.skip != nullptr) o = o + a_.skip[head_] * load_some(value + v, n);
      store_some(out + v, o, n);
    });
  }

  float weight(std::uint32_t begin, std::uint32_t t, std::uint32_t i) const {
    return exponential(decay(begin + t) - decay(begin + i));
  }
  float keys_product(std::uint32_t begin, std::uint32_t t, std::uint32_t i) const {
    return dot(key(begin + t), key(begin + i), a_.key_length);
  }
  void zero(std::uint32_t width) {
    for (std::uint32_t v = 0; v < width; ++v) sum_[v] = 0.0F;
  }

  /// The state behind the chunk.
  void advance(std::uint32_t begin) {
    constexpr std::uint32_t last = recurrent_chunk - 1;
    const float shrunk = exponential(decay(begin + last));
    for (std::uint32_t i = 0; i < recurrent_chunk; ++i) {
      const float factor = weight(begin, last, i);
      const float* const from = key(begin + i);
      each_sixteen(a_.key_length, [&](std::uint32_t k, std::uint32_t n) {
        store_some(weighted_[i] + k, factor * load_some(from + k, n), n);
      });
    }
    const float* updates[recurrent_chunk];
    for (std::uint32_t i = 0; i < recurrent_chunk; ++i) updates[i] = update(begin + i);
    const float* const from = state(begin);
    float* const to = state(begin + recurrent_chunk);
    for (std::uint32_t v = 0; v < a_.value_length; ++v) {
      const std::size_t at = std::size_t{v} * a_.key_length;
      each_sixteen(a_.key_length, [&](std::uint32_t k, std::uint32_t n) {
        float_lanes sum = splat(0.0F);
        for (std::uint32_t i = 0; i < recurrent_chunk; ++i)
          sum = sum + updates[i][v] * load_some(weighted_[i] + k, n);
        store_some(to + at + k, shrunk * load_some(from + at + k, n) + sum, n);
      });
    }
  }

  const recurrent_args& a_;
  const recurrent_run& run_;
  const std::uint32_t head_;
  const std::size_t key_at_, value_at_, state_values_;
  // Of the rows at hand; written before they are read.
  float by_key_[recurrent_chunk][recurrent_width_max];
  float by_query_[recurrent_chunk][recurrent_width_max];
  float weighted_[recurrent_chunk][recurrent_width_max];
  float sum_[recurrent_width_max];
};

}  // namespace

void recurrent_head(const recurrent_args& a, std::uint32_t run, std::uint32_t head) {
  head_scan scan(a, a.runs[run], head);
  scan.walk();
}

void recurrent_gates_column(const recurrent_gate_args& a, std::uint32_t column) {
  if (a.delta_net) {
    const float root = __builtin_sqrtf(static_cast<float>(a.key_length));
    for (std::uint32_t h = 0; h < a.key_heads; ++h) {
      float* const q = a.queries + column * a.stride + std::size_t{h} * a.key_length;
      float* const k = a.keys + column * a.stride + std::size_t{h} * a.key_length;
      scale_vector(q, a.key_length, 1.0F / __builtin_sqrtf(dot(q, q, a.key_length) + a.eps));
      scale_vector(q, a.key_length, 1.0F / root);
      scale_vector(k, a.key_length, 1.0F / __builtin_sqrtf(dot(k, k, a.key_length) + a.eps));
    }
  }
  for (std::uint32_t h = 0; h < a.value_heads; ++h) {
    const std::uint32_t at = a.joint == 0 ? h : h / a.joint * 2 * a.joint + h % a.joint;
    const float* const decay = a.decay + column * a.gate_stride + (a.joint == 0 ? 0 : a.joint);
    const float step = softplus(decay[at] + a.bias[h]);
    const std::size_t to = std::size_t{column} * a.value_heads + h;
    a.decays[to] = a.rate[h] * step;
    a.factors[to] = a.delta_net ? sigmoid(a.beta[column * a.gate_stride + at]) : step;
  }
}

void sigmoid_gate_row(const sigmoid_gate_args& a, std::uint32_t row) {
  for (std::uint32_t h = 0; h < a.heads; ++h) {
    float* const x = a.x + row * a.x_stride + std::size_t{h} * a.width;
    const float* const gate = a.gates + row * a.gate_stride + std::size_t{h} * a.gate_step;
    each_sixteen(a.width, [&](std::uint32_t i, std::uint32_t n) {
      const float_lanes divisor = exponential(splat(0.0F) - load_some(gate + i, n)) + 1.0F;
      store_some(x + i, load_some(x + i, n) / divisor, n);
    });
  }
}

void causal_conv_block(const causal_conv_args& a, std::uint32_t run_index, std::uint32_t first) {
  const recurrent_run& run = a.runs[run_index];
  const std::uint32_t left = a.channels - first;
  const std::uint32_t count = left < lane_count ? left : lane_count;
  float taps[recurrent_taps_max][lane_count] = {};
  for (std::uint32_t j = 0; j < a.taps; ++j)
    for (std::uint32_t c = 0; c < count; ++c) taps[j][c] = a.weights[std::size_t{first + c} * a.taps + j];
  const float_lanes bias = a.bias == nullptr ? splat(0.0F) : load_some(a.bias + first, count);
  for (std::uint32_t t = 0; t < run.count; ++t) {
    float_lanes sum = splat(0.0F);
    for (std::uint32_t j = 0; j < a.taps; ++j) {
      const std::uint32_t back = a.taps - 1 - j;
      float_lanes x = splat(0.0F);
      if (back <= t) {
        x = load_some(a.in + (run.column + t - back) * a.in_stride + first, count);
      } else if (back <= run.position + t) {
        x = load_some(run.inputs + (run.position + t - back) % a.rows * std::size_t{a.channels} + first,
                      count);
      }
      sum = sum + load(taps[j]) * x;
    }
    sum = sum + bias;
    if (a.silu) sum = sum / (exponential(splat(0.0F) - sum) + 1.0F);
    store_some(a.out + (run.column + t) * a.out_stride + first, sum, count);
  }
}

}  // namespace orcd::kernels::host::ORCD_ISA
