// Layers with a state on the device: a convolution, gates and a scan against the recurrence itself in f64 and
// against the host's kernels, and bit for bit however a sequence is cut into steps, alone or beside others.
#include "kernels/host/recurrent.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "kernels/host/thread_pool.hpp"
#include "kernels/recurrent/recurrent_layer.hpp"
#include "test/gpu/device_array.hpp"
#include "test/support/random_blocks.hpp"

namespace orcd::test::scan_kernels {
namespace {

struct shape {
  std::uint32_t key_heads, value_heads, key_length, value_length, taps;
  bool delta_net, in_turn;

  [[nodiscard]] std::uint32_t keys() const { return key_heads * key_length; }
  [[nodiscard]] std::uint32_t values() const { return value_heads * value_length; }
  [[nodiscard]] std::uint32_t channels() const { return 2 * keys() + values(); }
  [[nodiscard]] std::uint32_t key_head_of(std::uint32_t h) const {
    return in_turn ? h % key_heads : h / (value_heads / key_heads);
  }
  // Places in a row, as a delta net's: q|k|v, beta, decay, and what is convolved.
  [[nodiscard]] std::uint32_t beta() const { return channels(); }
  [[nodiscard]] std::uint32_t decay() const { return beta() + value_heads; }
  [[nodiscard]] std::uint32_t convolved() const { return (decay() + value_heads + 3) / 4 * 4; }
  [[nodiscard]] std::uint32_t width() const { return (convolved() + channels() + 3) / 4 * 4; }
};

constexpr std::uint32_t states = 3, rows = states * kernels::chunk_rows, slots = 3, pages = 4;
constexpr float eps = 1e-6F;

struct layer {
  explicit layer(const shape& s) {
    std::mt19937_64 random(s.channels());
    const auto some = [&](std::size_t count, float by, float add) {
      std::vector<float> out(count);
      for (float& v : out) v = random_unit(random) * by + add;
      return out;
    };
    taps = some(std::size_t{s.channels()} * s.taps, 1.0F, -0.4F);
    conv_bias = some(s.channels(), 0.2F, -0.1F);
    rate = some(s.value_heads, -0.5F, -0.01F);
    bias = some(s.value_heads, 1.0F, -0.5F);
    skip = some(s.value_heads, 1.0F, 0.0F);
  }
  std::vector<float> taps, conv_bias, rate, bias, skip;
};

/// Rows of a sequence before the convolution.
std::vector<float> sequence(const shape& s, std::uint32_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> out(std::size_t{count} * s.width(), 0.0F);
  for (std::uint32_t t = 0; t < count; ++t) {
    for (std::uint32_t i = 0; i < s.convolved(); ++i)
      out[std::size_t{t} * s.width() + i] = 2.0F * random_unit(random) - 1.0F;
  }
  return out;
}

/// The recurrence token by token, in f64.
std::vector<double> by_recurrence(const shape& s, const layer& l, std::span<const float> in,
                                  std::uint32_t count) {
  std::vector<double> out, state(std::size_t{s.values()} * s.key_length, 0.0), x(s.channels());
  const auto sigmoid = [](double v) { return 1.0 / (1.0 + std::exp(-v)); };
  for (std::uint32_t t = 0; t < count; ++t) {
    for (std::uint32_t c = 0; c < s.channels(); ++c) {
      double sum = l.conv_bias[c];
      for (std::uint32_t j = 0; j < s.taps; ++j) {
        const std::uint32_t back = s.taps - 1 - j;
        if (back <= t)
          sum += double{l.taps[std::size_t{c} * s.taps + j]} * in[std::size_t{t - back} * s.width() + c];
      }
      x[c] = sum * sigmoid(sum);
    }
    for (std::uint32_t h = 0; s.delta_net && h < 2 * s.key_heads; ++h) {
      double* const v = x.data() + std::size_t{h} * s.key_length;
      double squares = eps;
      for (std::uint32_t i = 0; i < s.key_length; ++i) squares += v[i] * v[i];
      const double by = (h < s.key_heads ? 1.0 / std::sqrt(double(s.key_length)) : 1.0) / std::sqrt(squares);
      for (std::uint32_t i = 0; i < s.key_length; ++i) v[i] *= by;
    }
    const float* const row = in.data() + std::size_t{t} * s.width();
    for (std::uint32_t h = 0; h < s.value_heads; ++h) {
      const double* const q = x.data() + s.key_head_of(h) * s.key_length;
      const double* const k = q + s.keys();
      const double* const v = x.data() + 2 * s.keys() + std::size_t{h} * s.value_length;
      const double step = std::log1p(std::exp(double{row[s.decay() + h]} + l.bias[h]));
      const double shrunk = std::exp(l.rate[h] * step);
      const double factor = s.delta_net ? sigmoid(row[s.beta() + h]) : step;
      for (std::uint32_t i = 0; i < s.value_length; ++i) {
        double* const of = state.data() + (std::size_t{h} * s.value_length + i) * s.key_length;
        double has = 0.0, given = 0.0;
        for (std::uint32_t d = 0; d < s.key_length; ++d) of[d] *= shrunk;
        for (std::uint32_t d = 0; d < s.key_length; ++d) has += of[d] * k[d];
        const double update = factor * (v[i] - (s.delta_net ? has : 0.0));
        for (std::uint32_t d = 0; d < s.key_length; ++d) of[d] += update * k[d];
        for (std::uint32_t d = 0; d < s.key_length; ++d) given += of[d] * q[d];
        out.push_back(given + (s.delta_net ? 0.0 : l.skip[h] * v[i]));
      }
    }
  }
  return out;
}

/// What is kept of slots and in pages on the device, and a layer's weights.
class device_layer {
 public:
  device_layer(const shape& s, const layer& l)
      : s_(s),
        taps_(std::span(l.taps)),
        bias_(std::span(l.conv_bias)),
        rate_(std::span(l.rate)),
        decay_bias_(std::span(l.bias)),
        skip_(std::span(l.skip)),
        kept_(slots * slot_values()),
        pages_(pages * page_values()) {}

  struct part {
    std::uint32_t slot = 0, position = 0;
    std::span<const float> rows;
    std::vector<kernels::wanted_state> wanted = {};
  };
  /// A step; what the heads give, part after part.
  std::vector<float> step(const std::vector<part>& parts, bool short_runs) {
    std::vector<kernels::step_token> steps;
    std::vector<kernels::wanted_state> wanted;
    std::vector<float> mixed;
    for (const part& p : parts) {
      for (std::uint32_t t = 0; t < p.rows.size() / s_.width(); ++t) {
        const auto position = static_cast<std::int32_t>(p.position + t);
        steps.push_back({0, position, static_cast<std::int32_t>(p.slot)});
        kernels::wanted_state want;
        for (const auto& w : p.wanted) want = w.position == position + 1 ? w : want;
        wanted.push_back(want);
      }
      mixed.insert(mixed.end(), p.rows.begin(), p.rows.end());
    }
    const auto columns = static_cast<std::uint32_t>(steps.size());
    const device_array<kernels::step_token> device_steps{std::span<const kernels::step_token>(steps)};
    const device_array<kernels::wanted_state> device_wanted{std::span<const kernels::wanted_state>(wanted)};
    device_array<float> rows_of_step{std::span<const float>(mixed)};
    const device_array<kernels::device_run> runs(columns);
    const device_array<std::int32_t> count(1);
    const device_array<float> factors(columns * s_.value_heads), decays(columns * s_.value_heads);
    kernels::recurrent_pass pass{device_steps.data(),
                                 device_wanted.data(),
                                 runs.data(),
                                 count.data(),
                                 columns,
                                 static_cast<std::uint32_t>(parts.size()),
                                 short_runs};
    if (!short_runs)
      BOOST_REQUIRE_EQUAL(
          kernels::launch_find_runs({device_steps.data(), columns, runs.data(), count.data()}, nullptr), 0);
    prepare(pass, rows_of_step, factors, decays);
    keep(pass, rows_of_step.data(), s_.width(), s_.channels(), memory().inputs);
    scan(pass, rows_of_step, factors, decays);
    keep(pass, rows_of_step.data() + s_.convolved() + s_.keys(), s_.width(), s_.keys(), memory().keys);
    keep(pass, decays.data(), s_.value_heads, s_.value_heads, memory().decays);
    std::vector<float> out;
    const std::vector<float> all = rows_of_step.read();
    for (std::uint32_t c = 0; c < columns; ++c)
      out.insert(out.end(), all.begin() + std::size_t{c} * s_.width(),
                 all.begin() + std::size_t{c} * s_.width() + s_.values());
    return out;
  }
  void copy(std::uint32_t slot, std::uint32_t position, std::uint32_t page, bool to_page) {
    kernels::copy_state_args args;
    args.kept = memory();
    args.channels = s_.channels();
    args.back = s_.taps - 1;
    args.slot = slot;
    args.position = position;
    args.page = page;
    args.to_page = to_page;
    BOOST_REQUIRE_EQUAL(kernels::launch_copy_state(args, nullptr), 0);
  }
  /// Whatever was kept is NaN.
  void poison() { kept_.fill(0xFF); }

 private:
  [[nodiscard]] std::uint64_t state_values() const { return std::uint64_t{s_.values()} * s_.key_length; }
  [[nodiscard]] std::uint64_t slot_values() const {
    return states * state_values() + rows * (s_.keys() + s_.values() + 4ULL * s_.value_heads + s_.channels());
  }
  [[nodiscard]] std::uint64_t page_values() const {
    return state_values() + (s_.taps - 1) * std::uint64_t{s_.channels()};
  }
  [[nodiscard]] kernels::kept_memory memory() const {
    kernels::kept_memory out;
    out.slots = kept_.data();
    out.slot_stride = slot_values();
    out.keys = states * state_values();
    out.updates = out.keys + rows * s_.keys();
    out.decays = out.updates + rows * s_.values();
    out.inputs = out.decays + rows * s_.value_heads;
    out.state_count = states;
    out.rows = rows;
    out.state_values = state_values();
    out.pages = pages_.data();
    out.page_stride = page_values();
    return out;
  }
  void keep(const kernels::recurrent_pass& pass, const float* from, std::uint32_t stride, std::uint32_t width,
            std::uint64_t to) {
    if (pass.short_runs) return;
    kernels::keep_rows_args args;
    args.pass = pass;
    args.kept = memory();
    args.parts[0] = {from, nullptr, stride, width, to};
    BOOST_REQUIRE_EQUAL(kernels::launch_keep_rows(args, nullptr), 0);
  }
  void prepare(const kernels::recurrent_pass& pass, const device_array<float>& mixed,
               const device_array<float>& factors, const device_array<float>& decays) {
    kernels::prepare_mix_args a;
    a.pass = pass;
    a.kept = memory();
    a.mixed = mixed.data();
    a.stride = s_.width();
    a.convolved = s_.convolved();
    a.keys = s_.keys();
    a.values = 2 * s_.keys();
    a.beta = s_.beta();
    a.decay = s_.decay();
    a.taps = taps_.data();
    a.conv_bias = bias_.data();
    a.rate = rate_.data();
    a.decay_bias = decay_bias_.data();
    a.factors = factors.data();
    a.decays = decays.data();
    a.tap_count = s_.taps;
    a.channels = s_.channels();
    a.key_heads = s_.key_heads;
    a.value_heads = s_.value_heads;
    a.key_length = s_.key_length;
    a.value_length = s_.value_length;
    a.eps = eps;
    a.delta_net = s_.delta_net;
    BOOST_REQUIRE_EQUAL(kernels::launch_prepare_mix(a, nullptr), 0);
  }
  void scan(const kernels::recurrent_pass& pass, const device_array<float>& mixed,
            const device_array<float>& factors, const device_array<float>& decays) {
    kernels::scan_args a;
    a.pass = pass;
    a.kept = memory();
    a.queries = mixed.data() + s_.convolved();
    a.keys = a.queries + s_.keys();
    a.values = a.keys + s_.keys();
    a.out = mixed.data();
    a.stride = s_.width();
    a.factors = factors.data();
    a.decays = decays.data();
    a.skip = s_.delta_net ? nullptr : skip_.data();
    a.key_heads = s_.key_heads;
    a.value_heads = s_.value_heads;
    a.key_length = s_.key_length;
    a.value_length = s_.value_length;
    a.in_turn = s_.in_turn;
    a.delta_net = s_.delta_net;
    BOOST_REQUIRE_EQUAL(kernels::launch_scan(a, nullptr), 0);
  }

  const shape s_;
  device_array<float> taps_, bias_, rate_, decay_bias_, skip_, kept_, pages_;
};

/// The host's kernels, the sequence in one step.
std::vector<float> on_host(const shape& s, const layer& l, std::span<const float> in, std::uint32_t count) {
  kernels::host::thread_pool pool(1);
  std::vector<float> mixed(in.begin(), in.end()), factors(count * s.value_heads),
      decays(count * s.value_heads);
  std::vector<float> state(states * std::size_t{s.values()} * s.key_length), keys(rows * s.keys());
  std::vector<float> updates(rows * s.values()), sums(rows * s.value_heads), inputs(rows * s.channels());
  const kernels::recurrent_run run{0,           count,          0,           state.data(),
                                   keys.data(), updates.data(), sums.data(), inputs.data()};
  kernels::host::causal_conv({.runs = &run,
                              .in = mixed.data(),
                              .out = mixed.data() + s.convolved(),
                              .in_stride = s.width(),
                              .out_stride = s.width(),
                              .weights = l.taps.data(),
                              .bias = l.conv_bias.data(),
                              .run_count = 1,
                              .channels = s.channels(),
                              .taps = s.taps,
                              .rows = rows,
                              .silu = true},
                             pool);
  float* const queries = mixed.data() + s.convolved();
  kernels::host::recurrent_gates({.queries = queries,
                                  .keys = queries + s.keys(),
                                  .beta = mixed.data() + s.beta(),
                                  .decay = mixed.data() + s.decay(),
                                  .rate = l.rate.data(),
                                  .bias = l.bias.data(),
                                  .factors = factors.data(),
                                  .decays = decays.data(),
                                  .stride = s.width(),
                                  .gate_stride = s.width(),
                                  .columns = count,
                                  .key_heads = s.key_heads,
                                  .value_heads = s.value_heads,
                                  .key_length = s.key_length,
                                  .eps = eps,
                                  .delta_net = s.delta_net},
                                 pool);
  std::vector<float> out(std::size_t{count} * s.values());
  kernels::host::recurrent_scan({.runs = &run,
                                 .queries = queries,
                                 .keys = queries + s.keys(),
                                 .values = queries + 2 * s.keys(),
                                 .stride = s.width(),
                                 .factors = factors.data(),
                                 .decays = decays.data(),
                                 .skip = s.delta_net ? nullptr : l.skip.data(),
                                 .out = out.data(),
                                 .out_stride = s.values(),
                                 .run_count = 1,
                                 .key_heads = s.key_heads,
                                 .value_heads = s.value_heads,
                                 .key_length = s.key_length,
                                 .value_length = s.value_length,
                                 .states = states,
                                 .rows = rows,
                                 .in_turn = s.in_turn,
                                 .delta_net = s.delta_net},
                                pool);
  return out;
}

template <class T>
double relative_error(std::span<const float> ours, std::span<const T> reference) {
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    difference += std::pow(double{ours[i]} - double(reference[i]), 2);
    norm += std::pow(double(reference[i]), 2);
  }
  return std::sqrt(difference / norm);
}

/// Qwen3.5's heads, keys in turn and as neighbours, Mamba-2's, and odd widths.
const std::vector<shape> shapes{{4, 8, 128, 128, 4, true, true},  {2, 4, 128, 128, 4, true, false},
                                {2, 2, 64, 96, 3, true, false},   {1, 6, 128, 64, 4, false, false},
                                {2, 4, 256, 64, 4, false, false}, {3, 6, 20, 12, 8, true, false},
                                {1, 3, 12, 4, 2, false, false}};
constexpr std::uint32_t length = 150;

std::span<const float> rows_of(const shape& s, std::span<const float> all, std::uint32_t first,
                               std::uint32_t count) {
  return all.subspan(std::size_t{first} * s.width(), std::size_t{count} * s.width());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(recurrent_kernels)

BOOST_AUTO_TEST_CASE(a_sequence_is_the_recurrence_and_what_the_host_computes) {
  for (const shape& s : shapes) {
    const layer l(s);
    const std::vector<float> all = sequence(s, length, 1);
    device_layer device(s, l);
    const std::vector<float> ours = device.step({{1, 0, all}}, false);
    const std::vector<double> exact = by_recurrence(s, l, all, length);
    const std::vector<float> host = on_host(s, l, all, length);
    const double error = relative_error<double>(ours, exact),
                 host_error = relative_error<double>(host, exact);
    BOOST_TEST(error < 2e-6, s.key_length << " x " << s.value_length << ": " << error);
    BOOST_TEST(host_error < 2e-6);
    BOOST_TEST(relative_error<float>(ours, host) < 2e-6);
  }
}

// Token by token, as drafts, in prompts' chunks, beside others, and from a page at a boundary.
BOOST_AUTO_TEST_CASE(no_cut_and_no_neighbour_changes_a_bit) {
  for (const shape& s : shapes) {
    const layer l(s);
    const std::vector<float> all = sequence(s, length, 1), other = sequence(s, length, 2);
    device_layer device(s, l);
    const std::vector<float> want = device.step({{0, 0, all}}, false);
    std::mt19937 random(s.channels());
    for (int round = 0; round < 6; ++round) {
      device.poison();
      std::vector<float> given;
      std::uint32_t other_at = 0;
      for (std::uint32_t at = 0; at < length;) {
        const bool short_runs = round < 2 || random() % 3 == 0;
        const std::uint32_t most = round == 0 ? 1 : short_runs ? 16 : 70;
        const std::uint32_t count = std::min(length - at, 1 + static_cast<std::uint32_t>(random() % most));
        std::vector<device_layer::part> parts{{1, at, rows_of(s, all, at, count)}};
        const bool beside = round % 2 == 1 && other_at + 3 < length;
        if (beside) parts.push_back({2, other_at, rows_of(s, other, other_at, 3)});
        const std::vector<float> out = device.step(parts, short_runs);
        given.insert(given.end(), out.begin(), out.begin() + std::size_t{count} * s.values());
        at += count;
        other_at += beside ? 3 : 0;
      }
      BOOST_TEST((given == want), s.key_length << " x " << s.value_length << ", round " << round);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_sequence_goes_on_from_a_page) {
  for (const shape& s : shapes) {
    const layer l(s);
    const std::vector<float> all = sequence(s, length, 1);
    device_layer device(s, l);
    const std::vector<float> want = device.step({{0, 0, all, {{8, 0}, {64, 1}, {144, 2}}}}, false);
    device.copy(0, 144, 3, true);
    for (const auto& [position, page] : {std::pair{8U, 0U}, {64U, 1U}, {144U, 2U}, {144U, 3U}}) {
      device.poison();
      device.copy(2, position, page, false);
      const std::vector<float> rest =
          device.step({{2, position, rows_of(s, all, position, length - position)}}, false);
      BOOST_TEST((std::equal(rest.begin(), rest.end(), want.begin() + std::size_t{position} * s.values())),
                 s.key_length << " x " << s.value_length << " from " << position);
    }
  }
}

BOOST_AUTO_TEST_CASE(values_of_a_token_that_are_no_numbers_change_no_token_before_it_and_no_other_sequence) {
  for (const shape& s : shapes) {
    const layer l(s);
    const std::vector<float> all = sequence(s, 40, 1);
    device_layer device(s, l);
    const std::vector<float> want = device.step({{0, 0, all}, {1, 0, all}}, false);
    std::vector<float> bad = all;
    for (std::uint32_t i = 0; i < s.convolved(); ++i)
      bad[std::size_t{21} * s.width() + i] = i % 2 == 0 ? NAN : INFINITY;
    const std::vector<float> got = device.step({{0, 0, bad}, {1, 0, all}}, false);
    BOOST_TEST((std::equal(want.begin(), want.begin() + std::size_t{21} * s.values(), got.begin())));
    BOOST_TEST((std::equal(want.begin() + std::size_t{40} * s.values(), want.end(),
                           got.begin() + std::size_t{40} * s.values())));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test::scan_kernels
