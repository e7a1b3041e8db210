#include "gpu/cuda/cuda_sampler.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "engine/base/ensure.hpp"
#include "gpu/plan/step_results.hpp"
#include "kernels/attention/page_control.hpp"
#include "kernels/sample/sample.hpp"

namespace orcd::gpu {

cuda_sampler::cuda_sampler(const sampler_layout& layout, const vram_arena& arena,
                           const forward_buffers& shared, std::uint32_t vocab, std::uint32_t slots,
                           std::uint32_t context, cudaStream_t stream)
    : ends_(arena.at<std::uint32_t>(layout.ends)),
      allowed_(arena.at<std::uint32_t>(layout.allowed)),
      biases_(arena.at<kernels::sample_bias>(layout.biases)),
      biases_of_(slots),
      device_results_(arena.at<kernels::sample_result>(layout.results)),
      stream_(stream) {
  to_.steps = shared.steps;
  to_.asked = arena.at<kernels::sample_column>(layout.asked);
  to_.slots = arena.at<kernels::slot_state>(layout.slot_states);
  to_.history = arena.at<std::int32_t>(layout.history);
  to_.history_stride = context;
  to_.sample_rows = shared.sample_rows;
  to_.ticket = arena.at<std::uint32_t>(layout.ticket);
  to_.turns = shared.turns;
  to_.blocks = shared.blocks;
  args_.logits = shared.logits;
  args_.vocab = vocab;
  args_.asked = to_.asked;
  args_.banned = shared.banned;
  args_.allowed = allowed_;
  args_.biases = biases_;
  for (auto& there : biases_of_) there.reserve(kernels::sample_biases_max);
  args_.history = to_.history;
  args_.history_stride = context;
  args_.slots = to_.slots;
  args_.ticket = to_.ticket;
  args_.results = device_results_;
}

void cuda_sampler::set_ends(std::span<const engine::token_id> tokens) {
  std::vector<std::uint32_t> bits((args_.vocab + 31) / 32);
  for (const engine::token_id id : tokens) {
    if (id >= 0 && static_cast<std::uint32_t>(id) < args_.vocab)
      bits[static_cast<std::size_t>(id) / 32] |= 1U << id % 32;
  }
  ORCD_CUDA(cudaMemcpy(ends_, bits.data(), bits.size() * sizeof(std::uint32_t), cudaMemcpyHostToDevice));
  args_.ends = ends_;
}

/// to[i] = word(i) for i < count.
template <class Word>
void cuda_sampler::write(std::int32_t* to, std::size_t count, Word word) {
  kernels::write_words_args args;
  for (std::size_t first = 0; first < count; first += kernels::written_words_max) {
    args.to = to + first;
    args.count = static_cast<std::uint32_t>(std::min<std::size_t>(kernels::written_words_max, count - first));
    for (std::size_t i = 0; i < args.count; ++i) args.words[i] = word(first + i);
    ORCD_CUDA(kernels::launch_write_words(args, stream_));
  }
}

void cuda_sampler::set_history(engine::slot_id slot, std::span<const engine::token_id> tokens) {
  const std::size_t first = tokens.size() - std::min<std::size_t>(tokens.size(), kernels::sample_window_max);
  write(to_.history + static_cast<std::size_t>(slot) * to_.history_stride + first, tokens.size() - first,
        [&](std::size_t i) { return tokens[first + i]; });
}

void cuda_sampler::write_mask(std::uint32_t row, engine::token_mask mask) {
  const std::size_t words = (args_.vocab + 31) / 32;
  write(reinterpret_cast<std::int32_t*>(allowed_ + row * words), words,
        [&](std::size_t i) { return i < mask.size() ? static_cast<std::int32_t>(mask[i]) : 0; });
}

void cuda_sampler::write_biases(engine::slot_id slot, std::span<const engine::token_bias> biases) {
  static_assert(sizeof(kernels::sample_bias) == 2 * sizeof(std::int32_t));
  auto& there = biases_of_[static_cast<std::size_t>(slot)];
  const auto same = [](const auto& a, const auto& b) { return a.token == b.token && a.bias == b.bias; };
  if (std::equal(biases.begin(), biases.end(), there.begin(), there.end(), same)) return;
  ORCD_ENSURE(biases.size() <= kernels::sample_biases_max);
  for (std::size_t i = 1; i < biases.size(); ++i) ORCD_ENSURE(biases[i - 1].token < biases[i].token);
  there.clear();
  auto* const to = biases_ + static_cast<std::size_t>(slot) * kernels::sample_biases_max;
  write(reinterpret_cast<std::int32_t*>(to), 2 * biases.size(), [&](std::size_t i) {
    const auto& entry = biases[i / 2];
    return i % 2 == 0 ? entry.token : std::bit_cast<std::int32_t>(entry.bias);
  });
  there.assign(biases.begin(), biases.end());
}

void cuda_sampler::begin_decode(std::span<const decoding_sequence> sequences, std::uint32_t ticket,
                                pass_place at) {
  kernels::begin_decode_args args;
  args.to = to_;
  args.ticket = ticket;
  for (std::size_t first = 0; first < sequences.size(); first += kernels::decode_sequences_max) {
    args.first = at.column + static_cast<std::uint32_t>(first);
    args.row = at.row + static_cast<std::uint32_t>(first);
    args.count = static_cast<std::uint32_t>(
        std::min<std::size_t>(kernels::decode_sequences_max, sequences.size() - first));
    for (std::uint32_t i = 0; i < args.count; ++i) {
      const decoding_sequence& sequence = sequences[first + i];
      args.sequences[i] = {static_cast<std::int32_t>(sequence.slot), sequence.token,
                           static_cast<std::int32_t>(sequence.position),
                           static_cast<std::int32_t>(sequence.rotary_shift), sequence.sample};
    }
    ORCD_CUDA(kernels::launch_begin_decode(args, stream_));
  }
}

void cuda_sampler::begin_chunk(const engine::sequence_step& sequence, const kernels::sample_request* sample,
                               std::uint32_t ticket, pass_place at) {
  kernels::begin_chunk_args args;
  args.to = to_;
  args.ticket = ticket;
  args.slot = static_cast<std::int32_t>(sequence.slot);
  args.shift = static_cast<std::int32_t>(sequence.rotary_shift);
  for (std::size_t first = 0; first < sequence.tokens.size(); first += kernels::chunk_tokens_max) {
    const auto piece = sequence.tokens.subspan(
        first, std::min<std::size_t>(kernels::chunk_tokens_max, sequence.tokens.size() - first));
    args.first = at.column + static_cast<std::uint32_t>(first);
    args.row = at.row;
    args.count = static_cast<std::uint32_t>(piece.size());
    args.position = static_cast<std::int32_t>(sequence.position + first);
    args.samples = sample != nullptr && first + piece.size() == sequence.tokens.size() ? 1 : 0;
    if (args.samples != 0) args.sample = *sample;
    std::copy(piece.begin(), piece.end(), args.tokens);
    ORCD_CUDA(kernels::launch_begin_chunk(args, stream_));
  }
}

void cuda_sampler::sample(std::uint32_t columns) {
  kernels::sample_args args = args_;
  args.columns = columns;
  ORCD_CUDA(kernels::launch_sample(args, stream_));
}

void cuda_sampler::sample(std::span<const decoding_sequence> sequences, unsigned long long* keys) {
  kernels::sample_args args = args_;
  args.columns = static_cast<std::uint32_t>(sequences.size());
  args.keys = keys;
  args.all_plain = std::all_of(sequences.begin(), sequences.end(), [](const decoding_sequence& sequence) {
    return kernels::is_plain(sequence.sample);
  });
  ORCD_CUDA(kernels::launch_sample(args, stream_));
}

}  // namespace orcd::gpu
