// Lays out a decode step as the phases of one kernel; see decode_program_plan.hpp.
#include "gpu/plan/decode_program_plan.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace orcd::gpu {
namespace {

using kernels::block_share;
using kernels::packed_matmul_args;

std::uint32_t tiles_of(const kernels::packed_matrix& w, std::uint32_t tile_rows) {
  return (w.rows + tile_rows - 1) / tile_rows;
}

/// Part `part` of `parts` equal ranges of the matrices' tiles of so many rows, which are counted one matrix
/// after the other; gate and up tiles of the same rows stay together.
block_share share_of(const packed_matmul_args& args, std::uint32_t tile_rows, std::uint32_t part,
                     std::uint32_t parts) {
  block_share share;
  const bool paired = kernels::is_paired(args);
  // A tile of a ternary matrix is one chunk.
  const auto chunks_of = [&](const kernels::packed_matrix& w) {
    return tile_rows == kernels::tile_rows ? w.chunks() : 1;
  };
  std::uint64_t all = 0;
  for (std::uint32_t i = 0; i < (paired ? 1 : args.matrices); ++i) all += tiles_of(args.w[i], tile_rows);
  const auto begin = static_cast<std::uint32_t>(all * part / parts);
  const auto end = static_cast<std::uint32_t>(all * (part + 1) / parts);
  std::uint32_t before = 0;
  for (std::uint32_t i = 0; i < args.matrices; ++i) {
    const kernels::packed_matrix& w = args.w[i];
    const std::uint32_t tiles = tiles_of(w, tile_rows);
    const std::uint32_t first = std::clamp(begin, before, before + tiles) - before;
    const std::uint32_t last = std::clamp(end, before, before + tiles) - before;
    share.first_tile[i] = first;
    share.tiles[i] = last - first;
    share.chunks += share.tiles[i] * chunks_of(w);
    if (!paired) before += tiles;
  }
  return share;
}

/// A ternary matrix as the loader and the outputs of a product see it; its format is no packed one.
kernels::packed_matrix rows_of(const kernels::ternary_matrix& w) {
  kernels::packed_matrix out;
  out.data = w.data;
  out.rows = w.rows;
  out.cols = w.cols;
  return out;
}

/// Says in which order the blocks take rows of adapters: those with the fewest chunks first.
void order_by_chunks(std::vector<block_share>& shares) {
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return shares[a].chunks < shares[b].chunks; });
  for (std::size_t turn = 0; turn < order.size(); ++turn)
    shares[order[turn]].adapter_turn = static_cast<std::uint16_t>(turn);
}

/// Each block's share of a product of so many items (experts): every item gets the same number of blocks.
std::vector<block_share> shares_of(const packed_matmul_args& args, std::uint32_t items,
                                   std::uint32_t blocks) {
  std::vector<block_share> shares(blocks);
  const std::uint32_t parts = std::max(1U, blocks / items);
  for (std::uint32_t block = 0; block < std::min(blocks, items * parts); ++block) {
    shares[block] = share_of(args, kernels::tile_rows, block % parts, parts);
    shares[block].item = block / parts;
  }
  order_by_chunks(shares);
  return shares;
}

}  // namespace

std::uint64_t share_rows_max(const engine::model_spec& spec, std::uint32_t sequences) {
  std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, engine::ffn_kind>> shapes;
  for (const auto& layer : spec.layers)
    shapes.emplace(layer.heads, layer.kv_heads, layer.ffn_size, layer.window, layer.ffn);
  const std::uint64_t a_layer = spec.experts > 0 ? 5 + 2 * std::uint64_t{sequences} : 5;
  return 1 + shapes.size() * a_layer + head_parts_max;
}

kernels::decode_phase& decode_program_plan::add(kernels::phase_kind kind, const std::uint64_t* in,
                                                std::uint64_t* out) {
  kernels::decode_phase& phase = phases_.emplace_back();
  sums_bytes_.push_back(0);
  if (phases_.size() > 1) {
    kernels::decode_phase& last = phases_[phases_.size() - 2];
    last.overlaps_next =
        last.kind == kernels::phase_kind::matmul || last.kind == kernels::phase_kind::ternary;
    last.attention_next = kind == kernels::phase_kind::attention;
  }
  phase.kind = kind;
  phase.in = in;
  phase.out = out;
  return phase;
}

void decode_program_plan::assign_shares(const std::vector<block_share>& shares, bool by_sequences) {
  const std::size_t rows = shares.size() / blocks_;
  const std::size_t known = shares_.size() / blocks_;
  const auto row_at = [&](std::size_t first) {
    return shares_.begin() + static_cast<std::ptrdiff_t>(first * blocks_);
  };
  std::size_t first = 0;
  while (first + rows <= known && !std::equal(shares.begin(), shares.end(), row_at(first))) ++first;
  if (first + rows > known) {
    first = known;
    shares_.insert(shares_.end(), shares.begin(), shares.end());
  }
  rows_.push_back({static_cast<std::uint32_t>(first), by_sequences});
  if (phases_.size() > kernels::phase_slots)
    phases_[phases_.size() - 1 - kernels::phase_slots].later = rows_.back();
}

/// Gives every block of the last phase its rows of the residual stream, with nothing to multiply.
void decode_program_plan::assign_residual_rows() {
  phases_.back().matmul = o_;
  std::vector<block_share> shares(blocks_);
  for (std::uint32_t block = 0; block < blocks_; ++block) {
    shares[block] = share_of(o_, residual_tile_rows_, block, blocks_);
    shares[block].chunks = 0;
  }
  assign_shares(shares, false);
}

void decode_program_plan::reserve_work(std::uint32_t sequences, std::uint32_t work_bytes) {
  std::uint32_t& most = work_bytes_.at(sequences - 1);
  most = std::max(most, work_bytes);
}

void decode_program_plan::place_sums_past_input(std::uint32_t input_bytes) {
  if (phases_.size() < 2) return;
  const std::size_t index = phases_.size() - 2;
  kernels::decode_phase& before = phases_[index];
  if (!before.overlaps_next) return;
  const std::uint32_t sums_at = std::max(before.sums_at, input_bytes);
  before.overlaps_next = sums_at + sums_bytes_[index] <= overlap_bytes_max;
  if (before.overlaps_next) before.sums_at = sums_at;
}

/// The last phase begins with a norm: the phase with the norm before it loads its weights; for the first
/// norm, the program's first phase does.
void decode_program_plan::prefetch_next_norm(const float* weights) {
  const auto index = static_cast<std::uint32_t>(phases_.size()) - 1;
  phases_[norm_at_].next_norm = weights;
  phases_[norm_at_].next_norm_at = index;
  phases_.back().has_norm = true;
  phases_.back().norm_round = norms_++;
  norm_at_ = index;
}

void decode_program_plan::begin_residual(std::uint64_t* out) {
  add(kernels::phase_kind::begin, nullptr, out);
  assign_residual_rows();
  const std::uint32_t tiles = (tiles_of(o_.w[0], residual_tile_rows_) + blocks_ - 1) / blocks_;
  taken_ = taken_ && o_.matrices == 1 && tiles * residual_tile_rows_ <= kernels::own_rows_max;
}

void decode_program_plan::add_begin(const packed_matmul_args& o, std::uint64_t* out) {
  o_ = o;
  begin_residual(out);
}

void decode_program_plan::add_begin(const kernels::ternary_matrix& o, float* residual, std::uint64_t* out) {
  o_ = {};
  o_.w[0] = rows_of(o);
  o_.out = residual;
  o_.output = kernels::matmul_output::add;
  residual_tile_rows_ = kernels::ternary_tile_rows;
  begin_residual(out);
}

void decode_program_plan::add_ternary(const kernels::ternary_matmul_args& args,
                                      const kernels::norm_to_int8_args& input,
                                      const kernels::norm_to_int8_args* activated, const std::uint64_t* in,
                                      std::uint64_t* out) {
  constexpr std::uint32_t tile_rows = kernels::ternary_tile_rows;
  const std::uint32_t cols = args.w[0].cols;
  kernels::decode_phase& phase = add(kernels::phase_kind::ternary, in, out);
  phase.matmul.matrices = args.matrices;
  phase.matmul.out = args.out;
  phase.matmul.output = activated != nullptr ? kernels::matmul_output::swiglu
                        : args.add           ? kernels::matmul_output::add
                                             : kernels::matmul_output::store;
  phase.chunks = kernels::divider::by(1);
  phase.stride_tiles = kernels::program_warps;
  for (std::uint32_t i = 0; i < args.matrices; ++i) {
    phase.matmul.w[i] = rows_of(args.w[i]);
    phase.tile_bytes[i] = phase.chunk_bytes[i] = kernels::ternary_tile_bytes(cols);
    phase.ternary.code_scale[i] = args.w[i].code_scale;
    taken_ = taken_ && args.w[i].rows % tile_rows == 0 && args.w[i].cols == cols;
  }
  chunk_bytes_[0] = std::max(chunk_bytes_[0], kernels::ternary_tile_bytes(cols));
  phase.ternary.norm_weight = input.weight;
  phase.ternary.eps = input.eps;
  phase.ternary.from_halves = input.halves != nullptr;
  phase.ternary.squared = activated != nullptr && activated->squared;
  phases_[rounds_at_].ternary.next_norm = input.weight;
  phases_[rounds_at_].ternary.next_cols = cols;
  rounds_at_ = static_cast<std::uint32_t>(phases_.size()) - 1;
  taken_ = taken_ && residual_tile_rows_ == tile_rows && cols % kernels::ternary_block_cols == 0 &&
           (!args.add || (args.matrices == 1 && args.w[0].rows == width())) &&
           (activated == nullptr || (args.matrices == 2 && args.w[0].rows == args.w[1].rows));
  std::vector<block_share> shares(blocks_);
  std::uint32_t most = 0;
  for (std::uint32_t block = 0; block < blocks_; ++block) {
    shares[block] = share_of(phase.matmul, tile_rows, block, blocks_);
    most = std::max(most, shares[block].chunks);
  }
  const std::uint32_t input_bytes = kernels::ternary_input_bytes(cols);
  place_sums_past_input(input_bytes);
  phases_.back().sums_at = input_bytes;
  sums_bytes_.back() = kernels::ternary_sums_bytes(most);
  assign_shares(shares, false);
}

void decode_program_plan::add_matmul(const packed_matmul_args& args, const std::uint64_t* in,
                                     std::uint64_t* out) {
  add_product(args, in, out, sequences_);
}

void decode_program_plan::add_product(const packed_matmul_args& args, const std::uint64_t* in,
                                      std::uint64_t* out, std::uint32_t sequences_max) {
  const bool of_experts = args.experts != nullptr;
  const auto index = static_cast<std::uint32_t>(phases_.size());
  kernels::decode_phase& phase = add(kernels::phase_kind::matmul, in, out);
  phase.matmul = args;
  phase.chunks = kernels::divider::by(args.w[0].chunks());
  phase.stride_tiles = kernels::program_warps / args.w[0].chunks();
  phase.stride_chunks = kernels::program_warps % args.w[0].chunks();
  phase.groups = args.w[0].groups();
  phase.quads = kernels::divider::by(std::max(1U, args.w[0].cols / 4));
  for (std::uint32_t i = 0; i < args.matrices; ++i) {
    formats_ |= kernels::format_bit(args.w[i].format);
    phase.tile_bytes[i] = static_cast<std::uint32_t>(args.w[i].tile_bytes());
    phase.chunk_bytes[i] = args.w[i].chunk_bytes();
    for (std::uint32_t sequences = 1; sequences <= sequences_max; ++sequences) {
      std::uint32_t& most = chunk_bytes_.at(sequences - 1);
      most = std::max(most, phase.chunk_bytes[i]);
    }
  }
  if (of_experts) {
    phase.chooses = index > 0 && phases_[index - 1].kind == kernels::phase_kind::route;
    if (phase.chooses) {
      phase.route = phases_[index - 1].route;
      chooses_at_ = index;
    }
    phase.known_from = chooses_at_;
    taken_ = taken_ && chooses_at_ > 0;
  }
  if (args.norm_x != nullptr) {
    taken_ = taken_ && args.w[0].cols == width();
    if (!phase.chooses) prefetch_next_norm(args.norm_weight);
  }
  taken_ = taken_ && args.w[0].cols % 4 == 0 && args.x_stride % 4 == 0 && args.act_stride % 2 == 0;
  if (args.output == kernels::matmul_output::add)
    taken_ = taken_ && args.matrices == 1 && args.w[0].rows == o_.w[0].rows;
  taken_ = taken_ && (!of_experts || args.columns <= blocks_);
  std::vector<block_share> shares;
  for (std::uint32_t sequences = 1; sequences <= sequences_max; ++sequences) {
    if (of_experts || sequences == 1) {
      const std::uint32_t items = of_experts ? args.columns * sequences : 1;
      const std::vector<block_share> row = shares_of(args, items, blocks_);
      shares.insert(shares.end(), row.begin(), row.end());
    }
    const auto most =
        std::max_element(shares.end() - static_cast<std::ptrdiff_t>(blocks_), shares.end(),
                         [](const block_share& a, const block_share& b) { return a.chunks < b.chunks; });
    const std::uint32_t input = kernels::input_bytes(args, sequences);
    const std::uint32_t sums = kernels::sums_bytes(args, sequences, most->chunks);
    if (sequences == 1) {
      place_sums_past_input(input);
      phases_.back().sums_at = input;
      sums_bytes_.back() = sums;
    } else {
      reserve_work(sequences, input + sums);
    }
    if (sequences > 1 && args.norm_x != nullptr && !of_experts)
      reserve_work(sequences, kernels::norm_work_bytes(args.w[0].cols, sequences));
  }
  assign_shares(shares, of_experts);
}

void decode_program_plan::add_attention(const kernels::decode_attention_args& args, const std::uint64_t* in,
                                        std::uint64_t* out, std::uint64_t* partials) {
  const kernels::attention_args_paged& a = args.attend;
  kernels::decode_phase& phase = add(kernels::phase_kind::attention, in, out);
  phase.attention = args;
  phase.partials = partials;
  phase.page_workers = kernels::decode_page_workers(a, 1, blocks_);
  phase.attention_items = kernels::decode_items(a, 1, phase.page_workers);
  std::vector<block_share> shares(blocks_);
  for (std::uint32_t item = 0; item < std::min(blocks_, phase.attention_items); ++item)
    shares[item].attention = kernels::attention_share_of(a, 1, item);
  assign_shares(shares, false);
  taken_ = taken_ && a.width % 2 == 0 && a.cache.key_type == engine::kv_type::f16 &&
           a.cache.value_type == engine::kv_type::f16 &&
           (padded_head_width_ == 0 || padded_head_width_ == a.padded_width);
  padded_head_width_ = a.padded_width;
  if (phases_.size() > 1) {
    const std::size_t before = phases_.size() - 2;
    const std::uint32_t sums_end = phases_[before].sums_at + sums_bytes_[before];
    const std::uint32_t first = sums_end - std::min(sums_end, kernels::attention_page_bytes(a.padded_width));
    attention_at_ = std::max(attention_at_, (first + 127) / 128 * 128);
  }
  for (std::uint32_t sequences = 2; sequences <= sequences_; ++sequences)
    reserve_work(sequences, kernels::attention_work_bytes(a.padded_width));
}

void decode_program_plan::add_route(const kernels::route_args& args, const std::uint64_t* in,
                                    std::uint64_t* out) {
  kernels::decode_phase& phase = add(kernels::phase_kind::route, in, out);
  phase.route = args;
  phase.route_round = routes_++;
  taken_ = taken_ && args.width == width() && (experts_ == 0 || experts_ == args.experts);
  experts_ = args.experts;
  experts_used_ = std::max(experts_used_, args.used);
  prefetch_next_norm(args.norm_weight);
  phases_[router_at_].next_router = args.router;
  router_at_ = norm_at_;
  for (std::uint32_t sequences = 1; sequences <= sequences_; ++sequences)
    reserve_work(sequences, kernels::route_work_bytes(args.width, sequences));
  place_sums_past_input(kernels::route_work_bytes(args.width, 1));
  assign_shares(std::vector<block_share>(blocks_), false);
}

void decode_program_plan::add_combine(const kernels::combine_experts_args& args, const std::uint64_t* in,
                                      std::uint64_t* out) {
  add(kernels::phase_kind::combine, in, out).combine = args;
  assign_residual_rows();
}

bool decode_program_plan::add_head(const packed_matmul_args& args, const std::uint64_t* in) {
  const kernels::packed_matrix& w = args.w[0];
  const std::uint32_t tiles = w.row_tiles();
  const std::uint32_t sums =
      (tiles + blocks_ - 1) / blocks_ * w.chunks() * kernels::tile_rows * sizeof(float);
  const std::uint32_t parts = (sums + head_sums_max - 1) / head_sums_max;
  const auto part_of = [&](std::uint32_t part) {
    const std::uint32_t first = tiles * part / parts;
    const std::uint32_t end = tiles * (part + 1) / parts;
    packed_matmul_args out = args;
    kernels::packed_matrix& rows = out.w[0];
    rows.data += first * w.tile_bytes();
    rows.rows = std::min(w.rows, end * kernels::tile_rows) - first * kernels::tile_rows;
    if (rows.row_scale != nullptr) rows.row_scale += first * kernels::tile_rows;
    out.out += first * kernels::tile_rows;
    if (part > 0) out.norm_x = nullptr;
    return out;
  };
  decode_program_plan with = *this;
  for (std::uint32_t part = 0; part < parts && parts <= head_parts_max; ++part) {
    with.add_product(part_of(part), in, nullptr, 1);
    with.phases_.back().keeps_input = part > 0;
  }
  if (parts > head_parts_max || !with.fits()) return false;
  *this = std::move(with);
  return true;
}

std::uint32_t decode_program_plan::work_bytes(std::uint32_t sequences) const {
  std::uint32_t bytes = work_bytes_.at(sequences - 1);
  if (sequences == 1) {
    for (std::size_t i = 0; i < phases_.size(); ++i)
      bytes = std::max(bytes, phases_[i].sums_at + sums_bytes_[i]);
    if (padded_head_width_ > 0)
      bytes = std::max(bytes, attention_at_ + kernels::attention_work_bytes(padded_head_width_));
  }
  return (bytes + 127) / 128 * 128;
}

bool decode_program_plan::fits(std::uint32_t sequences) const {
  if (!taken_ || phases_.empty() || sequences > sequences_) return false;
  if (kernels::stream_bytes(work_bytes(sequences) + kept_bytes(sequences)) < chunk_bytes_.at(sequences - 1))
    return false;
  if (sequences == 1) return true;
  const std::uint32_t rows = (o_.w[0].row_tiles() + blocks_ - 1) / blocks_ * kernels::tile_rows;
  return sequences * rows <= kernels::own_rows_max && sequences * experts_used_ <= blocks_ &&
         sequences <= sequences_taken(width(), experts_used_);
}

}  // namespace orcd::gpu
