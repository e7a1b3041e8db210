// Attention of one x86 level; the definition is in kernels/host/attention.hpp.
#include "kernels/host/attention.hpp"

#include "kernels/host/isa/exponential.hpp"
#include "kernels/host/isa/for_format.hpp"
#include "kernels/host/isa/hyperbolic.hpp"
#include "kernels/host/isa/kv_rows.hpp"
#include "kernels/host/kernel_table.hpp"

namespace orcd::kernels::host::ORCD_ISA {
namespace {

// Heads of one kv head that are taken together, so that a cached row is widened once for all of them.
constexpr std::uint32_t heads_at_once = 8;
constexpr std::uint32_t width_max = attention_head_width_max;

/// Running softmax of one head: the largest score, the sum of weights and the weighted values.
struct head_state {
  float largest;
  float sum;
  alignas(64) float values[width_max];
};

struct scratch {
  alignas(64) float q[heads_at_once][width_max];
  alignas(64) float row[width_max];                                    // one cached K or V, zero-padded
  alignas(64) float scores[heads_at_once][engine::kv_page_positions];  // scores, then weights, of a page
  alignas(64) float chunk_values[heads_at_once][width_max];
  head_state heads[heads_at_once];
};

constexpr float lowest_score = -__builtin_inff();

ORCD_INLINE float dot(const float* a, const float* b, std::uint32_t padded_width) {
  float_lanes sum = splat(0.0F);
  for (std::uint32_t i = 0; i < padded_width; i += lane_count) sum = sum + load(a + i) * load(b + i);
  return fold(sum);
}

/// Masked positions stay masked.
void cap_scores(const attention_args& a, scratch& s, std::uint32_t heads) {
  for (std::uint32_t h = 0; h < heads; ++h) {
    for (std::uint32_t i = 0; i < engine::kv_page_positions; i += lane_count) {
      alignas(64) float capped[lane_count];
      store(capped, a.softcap * hyperbolic_tangent(load(&s.scores[h][i]) / splat(a.softcap)));
      for (std::uint32_t j = 0; j < lane_count; ++j)
        if (s.scores[h][i + j] != lowest_score) s.scores[h][i + j] = capped[j];
    }
  }
}

/// Scores of positions [begin, end) of the page that starts at `base`, whose rows are at `keys`; the rest of
/// the page is masked.
template <engine::kv_type Type>
void score_chunk(const attention_args& a, const std::byte* keys, scratch& s, std::uint32_t heads,
                 std::uint32_t base, std::uint32_t begin, std::uint32_t end) {
  for (std::uint32_t h = 0; h < heads; ++h)
    for (std::uint32_t i = 0; i < engine::kv_page_positions; i += lane_count)
      store(&s.scores[h][i], splat(lowest_score));
  const std::uint32_t width = padded(a.key_width);
  for (std::uint32_t position = begin; position < end; ++position) {
    widen_row<Type>(keys + (position - base) * engine::kv_row_bytes(Type, a.key_width), a.key_width, s.row);
    for (std::uint32_t h = 0; h < heads; ++h)
      s.scores[h][position - base] = a.scale * dot(s.q[h], s.row, width);
  }
  if (a.softcap > 0.0F) cap_scores(a, s, heads);
}

/// Turns a head's scores into weights e^(score - largest). Returns the largest score, and the sum of weights,
/// which is taken in lanes by position and folded like a dot product.
void weigh_chunk(float* scores, float& largest, float& sum) {
  float_lanes most = splat(lowest_score);
  for (std::uint32_t i = 0; i < engine::kv_page_positions; i += lane_count)
    most = larger(most, load(scores + i));
  largest = fold_larger(most);
  float_lanes total = splat(0.0F);
  for (std::uint32_t i = 0; i < engine::kv_page_positions; i += lane_count) {
    const float_lanes weight = exponential(load(scores + i) - largest);
    store(scores + i, weight);
    total = total + weight;
  }
  sum = fold(total);
}

/// Weighted values of the page, in ascending positions.
template <engine::kv_type Type>
void sum_values(const attention_args& a, const std::byte* values, scratch& s, std::uint32_t heads,
                std::uint32_t base, std::uint32_t begin, std::uint32_t end) {
  const std::uint32_t width = padded(a.value_width);
  const std::uint64_t row_bytes = engine::kv_row_bytes(Type, a.values_in_keys ? a.key_width : a.value_width);
  for (std::uint32_t h = 0; h < heads; ++h)
    for (std::uint32_t i = 0; i < width; i += lane_count) store(&s.chunk_values[h][i], splat(0.0F));
  for (std::uint32_t position = begin; position < end; ++position) {
    widen_row<Type>(values + (position - base) * row_bytes, a.value_width, s.row);
    for (std::uint32_t h = 0; h < heads; ++h) {
      const float weight = s.scores[h][position - base];
      float* sums = s.chunk_values[h];
      for (std::uint32_t i = 0; i < width; i += lane_count)
        store(sums + i, load(sums + i) + weight * load(s.row + i));
    }
  }
}

/// Folds a page with its own largest score into the running state.
void merge(head_state& state, float largest, float sum, const float* values, std::uint32_t width) {
  const float most = largest > state.largest ? largest : state.largest;
  const float keep = exponential(state.largest - most);
  const float add = exponential(largest - most);
  state.largest = most;
  state.sum = state.sum * keep + sum * add;
  for (std::uint32_t i = 0; i < width; i += lane_count)
    store(state.values + i, keep * load(state.values + i) + add * load(values + i));
}

/// The sink takes its share of the weight and contributes no value.
void merge_sink(head_state& state, float sink, std::uint32_t width) {
  const float most = sink > state.largest ? sink : state.largest;
  const float keep = exponential(state.largest - most);
  state.sum = state.sum * keep + exponential(sink - most);
  for (std::uint32_t i = 0; i < width; i += lane_count)
    store(state.values + i, keep * load(state.values + i));
}

void start(const attention_args& a, scratch& s, std::uint32_t column, std::uint32_t first_head,
           std::uint32_t heads) {
  const float* q = a.q + column * a.q_stride + std::size_t{first_head} * a.key_width;
  for (std::uint32_t h = 0; h < heads; ++h) {
    const std::uint32_t whole = a.key_width & ~15U;
    __builtin_memcpy(s.q[h], q + std::size_t{h} * a.key_width, a.key_width * sizeof(float));
    if (whole != a.key_width)
      store(s.q[h] + whole, load_tail(q + std::size_t{h} * a.key_width + whole, a.key_width - whole));
    s.heads[h].largest = lowest_score;
    s.heads[h].sum = 0.0F;
    for (std::uint32_t i = 0; i < padded(a.value_width); i += lane_count)
      store(s.heads[h].values + i, splat(0.0F));
  }
}

void finish(const attention_args& a, scratch& s, std::uint32_t column, std::uint32_t first_head,
            std::uint32_t heads) {
  float* out = a.out + (std::size_t{column} * a.heads + first_head) * a.value_width;
  for (std::uint32_t h = 0; h < heads; ++h) {
    head_state& state = s.heads[h];
    if (a.sinks) merge_sink(state, a.sinks[first_head + h], padded(a.value_width));
    const float share = 1.0F / state.sum;
    for (std::uint32_t i = 0; i < a.value_width; ++i)
      out[std::size_t{h} * a.value_width + i] = state.values[i] * share;
  }
}

void attend_heads(const attention_args& a, scratch& s, std::uint32_t column, std::uint32_t kv_head,
                  std::uint32_t first_head, std::uint32_t heads) {
  const attention_column& at = a.columns[column];
  const std::uint32_t end = at.end == 0 ? at.position + 1 : at.end;
  const std::uint32_t until = at.block == attention_column::none ? end : at.position + 1;
  std::uint32_t begin = a.window != 0 && until > a.window ? until - a.window : 0;
  begin = begin < at.block ? begin : at.block;
  start(a, s, column, first_head, heads);
  for (std::uint32_t base = begin / engine::kv_page_positions * engine::kv_page_positions; base < end;
       base += engine::kv_page_positions) {
    const std::uint32_t from = base > begin ? base : begin;
    const std::uint32_t to = base + engine::kv_page_positions < end ? base + engine::kv_page_positions : end;
    const std::uint64_t row =
        attention_first_row(at.pages[base / engine::kv_page_positions], a.kv_heads, kv_head);
    const std::byte* keys = a.cache.keys + row * engine::kv_row_bytes(a.types.keys, a.key_width);
    const std::byte* values =
        a.values_in_keys ? keys : a.cache.values + row * engine::kv_row_bytes(a.types.values, a.value_width);
    for_kv_type(
        a.types.keys, [&]<engine::kv_type Type>() __attribute__((always_inline)) {
          score_chunk<Type>(a, keys, s, heads, base, from, to);
        });
    float largest[heads_at_once], sum[heads_at_once];
    for (std::uint32_t h = 0; h < heads; ++h) weigh_chunk(s.scores[h], largest[h], sum[h]);
    for_kv_type(
        a.values_in_keys ? a.types.keys : a.types.values, [&]<engine::kv_type Type>()
                                                              __attribute__((always_inline)) {
                                                                sum_values<Type>(a, values, s, heads, base,
                                                                                 from, to);
                                                              });
    for (std::uint32_t h = 0; h < heads; ++h)
      merge(s.heads[h], largest[h], sum[h], s.chunk_values[h], padded(a.value_width));
  }
  finish(a, s, column, first_head, heads);
}

}  // namespace

void attend(const attention_args& a, std::uint32_t column, std::uint32_t kv_head) {
  scratch s;
  const std::uint32_t group = a.heads / a.kv_heads;
  for (std::uint32_t done = 0; done < group; done += heads_at_once) {
    const std::uint32_t heads = group - done < heads_at_once ? group - done : heads_at_once;
    attend_heads(a, s, column, kv_head, kv_head * group + done, heads);
  }
}

}  // namespace orcd::kernels::host::ORCD_ISA
