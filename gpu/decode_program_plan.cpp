#include "gpu/decode_program_plan.hpp"

#include <algorithm>
#include <utility>

namespace orcd::gpu {
namespace {

using kernels::block_share;
using kernels::packed_matmul_args;

/// Tiles `part` of `parts` equal ranges of the matrices' tiles, one after the other; gate and up tiles of the
/// same rows stay together.
block_share share_of(const packed_matmul_args& args, std::uint32_t part, std::uint32_t parts) {
  block_share share;
  const bool paired = kernels::is_paired(args);
  std::uint64_t all = 0;
  for (std::uint32_t i = 0; i < (paired ? 1 : args.matrices); ++i) all += args.w[i].row_tiles();
  const auto begin = static_cast<std::uint32_t>(all * part / parts);
  const auto end = static_cast<std::uint32_t>(all * (part + 1) / parts);
  std::uint32_t before = 0;
  for (std::uint32_t i = 0; i < args.matrices; ++i) {
    const kernels::packed_matrix& w = args.w[i];
    const std::uint32_t first = std::clamp(begin, before, before + w.row_tiles()) - before;
    const std::uint32_t last = std::clamp(end, before, before + w.row_tiles()) - before;
    share.first_tile[i] = first;
    share.tiles[i] = last - first;
    share.data[i] = w.data + first * w.tile_bytes();
    share.chunks += share.tiles[i] * w.chunks();
    if (!paired) before += w.row_tiles();
  }
  return share;
}

}  // namespace

kernels::decode_phase& decode_program_plan::add(kernels::phase_kind kind, const std::uint64_t* in,
                                                std::uint64_t* out) {
  kernels::decode_phase& phase = phases_.emplace_back();
  phase.kind = kind;
  phase.in = in;
  phase.out = out;
  shares_.resize(phases_.size() * blocks_);
  return phase;
}

/// To every block of a phase its rows of the residual stream, with nothing to multiply.
void decode_program_plan::give_rows(std::uint32_t phase) {
  phases_[phase].matmul = o_;
  for (std::uint32_t block = 0; block < blocks_; ++block) {
    block_share share = share_of(o_, block, blocks_);
    share.chunks = 0;
    shares_[std::size_t{phase} * blocks_ + block] = share;
  }
}

/// The norm before this phase fetches its weights; before the first, the beginning does.
void decode_program_plan::fetch_norm(const float* weights) {
  phases_[norm_at_].next_norm = weights;
  phases_.back().norms = true;
  phases_.back().norm_round = norms_++;
  norm_at_ = static_cast<std::uint32_t>(phases_.size()) - 1;
}

void decode_program_plan::add_begin(const packed_matmul_args& o, std::uint64_t* out) {
  o_ = o;
  add(kernels::phase_kind::begin, nullptr, out);
  give_rows(0);
  const std::uint32_t tiles = (o.w[0].row_tiles() + blocks_ - 1) / blocks_;
  taken_ = taken_ && o.matrices == 1 && tiles * kernels::tile_rows <= kernels::terms_ahead;
}

void decode_program_plan::add_matmul(const packed_matmul_args& args, const std::uint64_t* in,
                                     std::uint64_t* out) {
  const bool of_experts = args.experts != nullptr;
  const auto index = static_cast<std::uint32_t>(phases_.size());
  kernels::decode_phase& phase = add(kernels::phase_kind::matmul, in, out);
  phase.matmul = args;
  phase.chunks = kernels::divider::by(args.w[0].chunks());
  for (std::uint32_t i = 0; i < args.matrices; ++i) {
    const kernels::unit_layout unit = kernels::layout_of(args.w[i].format);
    phase.tile_bytes[i] = static_cast<std::uint32_t>(args.w[i].tile_bytes());
    phase.chunk_bytes[i] = unit.bytes() * (kernels::chunk_cols / unit.cols);
    chunk_bytes_ = std::max(chunk_bytes_, phase.chunk_bytes[i]);
  }
  if (of_experts) {
    phase.chooses = index > 0 && phases_[index - 1].kind == kernels::phase_kind::route;
    if (phase.chooses) {
      phase.route = phases_[index - 1].route;
      chooses_at_ = index;
    }
    phase.known_from = chooses_at_;
  }
  if (args.norm_x != nullptr) {
    taken_ = taken_ && args.w[0].cols == width();
    if (!phase.chooses) fetch_norm(args.norm_weight);
  }
  taken_ = taken_ && args.w[0].cols % 4 == 0 && args.x_stride % 4 == 0 && args.act_stride % 2 == 0;
  if (args.output == kernels::matmul_output::add)
    taken_ = taken_ && args.matrices == 1 && args.w[0].rows == o_.w[0].rows;
  const std::uint32_t items = of_experts ? args.columns : 1;
  taken_ = taken_ && items <= blocks_;
  const std::uint32_t parts = std::max(1U, blocks_ / items);
  std::uint32_t most = 0;
  for (std::uint32_t item = 0; item < items; ++item) {
    for (std::uint32_t part = 0; part < parts && item * parts + part < blocks_; ++part) {
      block_share share = share_of(args, part, parts);
      share.item = item;
      most = std::max(most, share.chunks);
      shares_[std::size_t{index} * blocks_ + item * parts + part] = share;
    }
  }
  work_bytes_ = std::max(work_bytes_, kernels::matmul_work_bytes(phase.matmul, most));
}

void decode_program_plan::add_attention(const kernels::decode_attention_args& args, const std::uint64_t* in,
                                        std::uint64_t* out) {
  const kernels::attention_args_paged& a = args.attend;
  kernels::decode_phase& phase = add(kernels::phase_kind::attention, in, out);
  phase.attention = args;
  phase.page_workers = kernels::decode_page_workers(a, blocks_);
  const std::size_t first_share = shares_.size() - blocks_;
  phase.attention_items = kernels::decode_items(a, phase.page_workers);
  for (std::uint32_t item = 0; item < std::min(blocks_, phase.attention_items); ++item)
    shares_[first_share + item].attention = kernels::attention_share_of(a, item);
  taken_ = taken_ && a.width % 2 == 0 && a.cache.key_type == engine::kv_type::f16 &&
           a.cache.value_type == engine::kv_type::f16 &&
           (padded_head_width_ == 0 || padded_head_width_ == a.padded_width);
  padded_head_width_ = a.padded_width;
  work_bytes_ = std::max(work_bytes_, kernels::attention_work_bytes(a.padded_width));
}

void decode_program_plan::add_route(const kernels::route_args& args, const std::uint64_t* in,
                                    std::uint64_t* out) {
  kernels::decode_phase& phase = add(kernels::phase_kind::route, in, out);
  phase.route = args;
  phase.route_round = routes_++;
  taken_ = taken_ && args.width == width() && (experts_ == 0 || experts_ == args.experts);
  experts_ = args.experts;
  fetch_norm(args.norm_weight);
  phases_[router_at_].next_router = args.router;
  router_at_ = norm_at_;
  work_bytes_ = std::max(work_bytes_, kernels::route_work_bytes(args.width));
}

void decode_program_plan::add_combine(const kernels::combine_experts_args& args, const std::uint64_t* in,
                                      std::uint64_t* out) {
  add(kernels::phase_kind::combine, in, out).combine = args;
  give_rows(static_cast<std::uint32_t>(phases_.size()) - 1);
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
    with.add_matmul(part_of(part), in, nullptr);
    with.phases_.back().keeps_input = part > 0;
  }
  if (parts > head_parts_max || !with.fits()) return false;
  *this = std::move(with);
  return true;
}

bool decode_program_plan::fits() const noexcept {
  return taken_ && !phases_.empty() && kernels::stream_bytes(work_bytes() + row_bytes()) >= chunk_bytes_;
}

}  // namespace orcd::gpu
