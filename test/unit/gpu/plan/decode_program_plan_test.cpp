// The static work tables of a decode step in one kernel: every row tile belongs to one block, and blocks keep
// the rows that they own.
#include "gpu/plan/decode_program_plan.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "test/unit/gpu/plan/plan_products.hpp"

namespace orcd::test {
namespace {

namespace data = boost::unit_test::data;
using gpu::sequences_best;
using kernels::block_share;

std::vector<block_share> shares_of(const decode_program_plan& plan, std::uint32_t phase, std::uint32_t blocks,
                                   std::uint32_t sequences = 1) {
  const std::size_t row = plan.row_of(phase).of(sequences);
  const auto first = plan.shares().begin() + static_cast<std::ptrdiff_t>(row * blocks);
  return {first, first + blocks};
}

BOOST_DATA_TEST_CASE(every_row_tile_of_a_stack_is_one_block_s, data::make({1U, 7U, 78U, 132U, 160U}),
                     blocks) {
  decode_program_plan plan(blocks);
  plan.add_begin(output_product(), nullptr);
  const packed_matmul_args qkv =
      product({matrix(896, 896), matrix(136, 896, packed_format::q8_0), matrix(128, 896)});
  plan.add_matmul(qkv, nullptr, nullptr);
  std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
  std::uint32_t least = UINT32_MAX;
  std::uint32_t most = 0;
  for (const block_share& share : shares_of(plan, 1, blocks)) {
    std::uint32_t tiles = 0;
    for (std::uint32_t m = 0; m < 3; ++m) {
      for (std::uint32_t t = 0; t < share.tiles[m]; ++t)
        BOOST_TEST(seen.emplace(m, share.first_tile[m] + t).second);
      tiles += share.tiles[m];
    }
    BOOST_TEST(share.chunks == tiles * qkv.w[0].chunks());
    least = std::min(least, tiles);
    most = std::max(most, tiles);
  }
  BOOST_TEST(seen.size() == 56U + 9U + 8U);
  BOOST_TEST(most - least <= 1U);
}

// Blocks without weights come first, then those with the fewest.
BOOST_DATA_TEST_CASE(rows_of_adapters_go_to_the_blocks_with_the_fewest_chunks, data::make({1U, 78U, 132U}),
                     blocks) {
  decode_program_plan plan(blocks);
  plan.add_begin(output_product(), nullptr);
  plan.add_matmul(product({matrix(896, 896), matrix(136, 896), matrix(128, 896)}), nullptr, nullptr);
  std::vector<std::uint32_t> chunks(blocks, UINT32_MAX);
  for (const block_share& share : shares_of(plan, 1, blocks)) {
    BOOST_TEST_REQUIRE(share.adapter_turn < blocks);
    BOOST_TEST(chunks[share.adapter_turn] == UINT32_MAX);
    chunks[share.adapter_turn] = share.chunks;
  }
  BOOST_TEST(std::is_sorted(chunks.begin(), chunks.end()));
}

// Rows of less and of more chunks than there are workers.
BOOST_DATA_TEST_CASE(a_worker_s_next_chunk_is_known_by_tiles_and_chunks,
                     data::make({256U, 896U, 2880U, 4864U, 8192U}), cols) {
  decode_program_plan plan(132);
  plan.add_begin(output_product(), nullptr);
  plan.add_matmul(gate_up(3072, cols), nullptr, nullptr);
  const kernels::decode_phase& phase = plan.phases().back();
  const std::uint32_t in_tile = (cols + 255) / 256;
  BOOST_TEST(phase.chunks.d == in_tile);
  BOOST_TEST(phase.groups == cols / 64);
  BOOST_TEST(phase.stride_chunks < in_tile);
  BOOST_TEST(phase.stride_tiles * in_tile + phase.stride_chunks == kernels::program_warps);
}

BOOST_AUTO_TEST_CASE(gate_and_up_tiles_of_the_same_rows_stay_together) {
  decode_program_plan plan(132);
  plan.add_begin(output_product(), nullptr);
  plan.add_matmul(gate_up(8192, 3072), nullptr, nullptr);
  std::uint32_t next = 0;
  for (const block_share& share : shares_of(plan, 1, 132)) {
    BOOST_TEST(share.first_tile[0] == next);
    BOOST_TEST(share.first_tile[1] == next);
    BOOST_TEST(share.tiles[0] == share.tiles[1]);
    BOOST_TEST(share.chunks == 2 * share.tiles[0] * 12);
    next += share.tiles[0];
  }
  BOOST_TEST(next == 512U);
}

BOOST_AUTO_TEST_CASE(rows_of_the_residual_stream_have_one_owner_in_every_phase) {
  decode_program_plan plan(132);
  plan.add_begin(output_product(2880), nullptr);
  plan.add_matmul(output_product(2880), nullptr, nullptr);
  packed_matmul_args down = product({matrix(2880, 8192)});
  down.output = kernels::matmul_output::add;
  plan.add_matmul(down, nullptr, nullptr);
  plan.add_combine({.width = 2880, .used = 4, .columns = 1}, nullptr, nullptr);
  BOOST_TEST(plan.fits());
  const auto begin = shares_of(plan, 0, 132);
  for (std::uint32_t phase = 1; phase < 4; ++phase) {
    const auto here = shares_of(plan, phase, 132);
    for (std::size_t b = 0; b < begin.size(); ++b) {
      BOOST_TEST(here[b].first_tile[0] == begin[b].first_tile[0]);
      BOOST_TEST(here[b].tiles[0] == begin[b].tiles[0]);
    }
  }
  BOOST_TEST(begin[0].chunks == 0U);
  BOOST_TEST(shares_of(plan, 3, 132)[0].chunks == 0U);
}

BOOST_AUTO_TEST_CASE(chosen_experts_share_the_blocks_and_wait_for_the_choice) {
  decode_program_plan plan(132);
  plan.add_begin(output_product(2880), nullptr);
  add_route(plan);
  plan.add_matmul(of_experts(gate_up(2880, 2880)), nullptr, nullptr);
  plan.add_matmul(of_experts(product({matrix(2880, 2880)})), nullptr, nullptr);
  plan.add_matmul(product({matrix(5120, 2880)}), nullptr, nullptr);
  BOOST_TEST(plan.phases()[2].chooses);
  BOOST_TEST(plan.phases()[2].route.experts == 32U);
  BOOST_TEST(!plan.phases()[3].chooses);
  BOOST_TEST(plan.phases()[2].known_from == 2U);
  BOOST_TEST(plan.phases()[3].known_from == 2U);
  BOOST_TEST(plan.phases()[4].known_from == 0U);
  std::vector<std::uint32_t> tiles(4);
  for (const block_share& share : shares_of(plan, 2, 132)) tiles[share.item] += share.tiles[0];
  for (const std::uint32_t of_expert : tiles) BOOST_TEST(of_expert == 180U);
}

// gpt-oss-120b: a layer of 128 experts, 36 times, for one sequence and for two.
BOOST_AUTO_TEST_CASE(a_model_of_128_experts_fits) {
  const float norm[1] = {};
  float logits[1] = {};
  decode_program_plan plan(132, kernels::program_sequences_max);
  plan.add_begin(output_product(2880), nullptr);
  for (std::uint32_t layer = 0; layer < 36; ++layer) {
    plan.add_matmul(product({matrix(5120, 2880, packed_format::q8_0)}), nullptr, nullptr);
    plan.add_attention(attention_of(64, 8, 64), nullptr, nullptr);
    plan.add_matmul(output_product(2880), nullptr, nullptr);
    plan.add_route({.width = 2880, .experts = 128, .used = 4, .columns = 1}, nullptr, nullptr);
    plan.add_matmul(of_experts(gate_up(2880, 2880)), nullptr, nullptr);
    plan.add_matmul(of_experts(product({matrix(2880, 2880)})), nullptr, nullptr);
    plan.add_combine({.width = 2880, .used = 4, .columns = 1}, nullptr, nullptr);
  }
  packed_matmul_args head = product({matrix(201'088, 2880, packed_format::q8_0)});
  head.norm_x = head.norm_weight = norm;
  head.out = logits;
  BOOST_TEST(plan.add_head(head, nullptr));
  BOOST_TEST((plan.fits(1) && plan.fits(2)));
  BOOST_TEST(plan.experts() == 128U);
  engine::model_spec spec;
  spec.layers.resize(36);
  spec.experts = 128;
  BOOST_TEST(plan.phases().size() == 1 + 36 * 7 + 3U);
  BOOST_TEST(plan.phases().size() <= gpu::phases_max(spec));
}

BOOST_AUTO_TEST_CASE(each_sequence_s_experts_have_blocks_of_their_own) {
  constexpr std::uint32_t sequences = kernels::program_sequences_max;
  decode_program_plan plan(132, sequences);
  plan.add_begin(output_product(2880), nullptr);
  add_route(plan);
  plan.add_matmul(of_experts(gate_up(2880, 2880)), nullptr, nullptr);
  for (std::uint32_t n = 1; n <= sequences; ++n) {
    BOOST_TEST(plan.fits(n));
    std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
    for (const block_share& share : shares_of(plan, 2, 132, n)) {
      for (std::uint32_t t = 0; t < share.tiles[0]; ++t)
        BOOST_TEST(seen.emplace(share.item, share.first_tile[0] + t).second);
    }
    BOOST_TEST(seen.size() == n * 4 * 180U);
  }
  BOOST_TEST(!plan.fits(sequences + 1));
}

BOOST_AUTO_TEST_CASE(sequences_are_as_many_as_one_kernel_is_faster_for) {
  BOOST_TEST(sequences_best(896, 0) == 1U);
  BOOST_TEST((sequences_best(3072, 0) == 2U && sequences_best(5120, 0) == 2U));
  BOOST_TEST(sequences_best(2880, 4) == 2U);
  BOOST_TEST((sequences_best(2880, 6) == 2U && sequences_best(2880, 7) == 1U));
  BOOST_TEST(sequences_best(2880, 13) == 1U);
  BOOST_TEST(sequences_best(16'384, 0) == 1U);
}

// With several sequences the head comes after the kernel.
BOOST_AUTO_TEST_CASE(an_output_head_is_of_one_sequence) {
  decode_program_plan plan(132, kernels::program_sequences_max);
  plan.add_begin(output_product(896), nullptr);
  const std::uint32_t before = plan.work_bytes(2);
  packed_matmul_args head = product({matrix(151'936, 896, packed_format::q8_0)});
  float logits[1] = {};
  head.out = logits;
  BOOST_TEST_REQUIRE(plan.add_head(head, nullptr));
  BOOST_TEST(plan.work_bytes(2) == before);
}

// Three layers of phases with the same shares: they are stored once, and every slot knows the row that comes
// next.
BOOST_AUTO_TEST_CASE(phases_with_equal_shares_have_one_row) {
  decode_program_plan plan(132, 2);
  plan.add_begin(output_product(), nullptr);
  for (std::uint32_t layer = 0; layer < 3; ++layer) {
    plan.add_matmul(product({matrix(9216, 3072, layer == 1 ? packed_format::q6_k : packed_format::q4_k)}),
                    nullptr, nullptr);
    plan.add_matmul(output_product(), nullptr, nullptr);
    plan.add_matmul(gate_up(8192, 3072), nullptr, nullptr);
  }
  BOOST_TEST(plan.phases().size() == 10U);
  BOOST_TEST(plan.shares().size() == 4 * 132U);
  for (std::uint32_t i = 0; i < 2; ++i) {
    const kernels::share_row later = plan.phases()[i].later;
    BOOST_TEST(later.of(2) == plan.row_of(i + kernels::phase_slots).of(2));
    BOOST_TEST(later.of(2) == 2 + i);  // an output product, then a gate and up
  }
}

BOOST_AUTO_TEST_CASE(layers_of_equal_shapes_need_no_more_rows) {
  engine::model_spec spec;
  spec.layers.resize(24);
  const auto dense = gpu::share_rows_max(spec, 8);
  spec.layers.resize(48);
  BOOST_TEST(gpu::share_rows_max(spec, 8) == dense);
  for (std::size_t i = 0; i < spec.layers.size(); i += 2) spec.layers[i].window = 128;
  BOOST_TEST(gpu::share_rows_max(spec, 8) > dense);
  spec.experts = 32;
  BOOST_TEST(gpu::share_rows_max(spec, 8) > gpu::share_rows_max(spec, 1));
}

BOOST_AUTO_TEST_CASE(every_sequence_has_items_of_its_own) {
  kernels::attention_args_paged a;
  a.heads = 40;
  a.kv_heads = 4;
  a.cache.pages_per_slot = 9;
  const std::uint32_t workers = kernels::decode_page_workers(a, 5, 132);
  BOOST_TEST(workers == 3U);
  const std::uint32_t items = kernels::decode_items(a, 5, workers);
  std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> seen;
  for (std::uint32_t item = 0; item < items; ++item) {
    const auto share = kernels::attention_share_of(a, 5, item);
    BOOST_TEST(share.sequence < 5U);
    for (std::uint32_t h = share.first_head; h < share.first_head + std::uint32_t{share.heads}; ++h)
      BOOST_TEST(seen.emplace(share.sequence, h, share.worker).second);
  }
  BOOST_TEST(seen.size() == 5 * 40 * workers);
}

BOOST_DATA_TEST_CASE(every_head_of_every_part_of_the_pages_is_one_item_s, data::make({6U, 132U}), blocks) {
  decode_program_plan plan(blocks);
  plan.add_begin(output_product(), nullptr);
  const auto args = attention_of(40, 4, 64);  // ten query heads each: a tile of eight and one of two
  plan.add_attention(args, nullptr, nullptr);
  const kernels::decode_phase& phase = plan.phases()[1];
  BOOST_TEST(phase.page_workers == (blocks == 6 ? 1U : 9U));
  BOOST_TEST(phase.attention_items == 8 * phase.page_workers);
  std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
  const auto shares = shares_of(plan, 1, blocks);
  for (std::uint32_t item = 0; item < phase.attention_items; ++item) {
    const auto share = kernels::attention_share_of(args.attend, 1, item);
    if (item < blocks) {
      BOOST_TEST(shares[item].attention.first_head == share.first_head);
      BOOST_TEST(shares[item].attention.heads == share.heads);
      BOOST_TEST(shares[item].attention.worker == share.worker);
    }
    for (std::uint32_t h = share.first_head; h < share.first_head + std::uint32_t{share.heads}; ++h) {
      BOOST_TEST(h / 10 == share.kv_head);
      BOOST_TEST(seen.emplace(h, share.worker).second);
    }
  }
  BOOST_TEST(seen.size() == 40 * phase.page_workers);
  for (std::uint32_t b = phase.attention_items; b < blocks; ++b) BOOST_TEST(shares[b].attention.heads == 0U);
}

BOOST_AUTO_TEST_CASE(weights_of_a_norm_are_fetched_when_those_before_have_been_used) {
  const float weights[3] = {};
  const float router[1] = {};
  const float x[1] = {};
  const auto normed = [&](packed_matmul_args args, const float* weight) {
    args.norm_x = x;
    args.norm_weight = weight;
    return args;
  };
  decode_program_plan plan(132);
  plan.add_begin(output_product(2880), nullptr);
  plan.add_matmul(normed(product({matrix(5120, 2880)}), weights), nullptr, nullptr);
  plan.add_matmul(output_product(2880), nullptr, nullptr);
  plan.add_route({.norm_weight = weights + 1, .router = router, .width = 2880, .experts = 32, .used = 4},
                 nullptr, nullptr);
  // Has the router's norm.
  plan.add_matmul(of_experts(normed(gate_up(2880, 2880), weights + 1)), nullptr, nullptr);
  plan.add_matmul(normed(product({matrix(5120, 2880)}), weights + 2), nullptr, nullptr);
  const std::vector<const float*> norms = {weights, weights + 1, nullptr, weights + 2, nullptr, nullptr};
  for (std::size_t i = 0; i < norms.size(); ++i) BOOST_TEST(plan.phases()[i].next_norm == norms[i]);
  const std::vector<bool> has_one = {false, true, false, true, false, true};
  std::uint32_t round = 0;
  for (std::size_t i = 0; i < has_one.size(); ++i) {
    BOOST_TEST(plan.phases()[i].has_norm == has_one[i]);
    if (has_one[i]) BOOST_TEST(plan.phases()[i].norm_round == round++);
  }
  BOOST_TEST(plan.phases()[0].next_router == router);
  BOOST_TEST(plan.phases()[3].next_router == nullptr);
  BOOST_TEST(plan.kept_bytes() >= 2 * 2880 * sizeof(float));
  BOOST_TEST(plan.phases()[0].next_norm_at == 1U);
  BOOST_TEST(plan.phases()[3].next_norm_at == 5U);
  BOOST_TEST(plan.fits());
  // A norm of another width than the residual stream's has no place.
  plan.add_matmul(normed(product({matrix(64, 1440)}), weights), nullptr, nullptr);
  BOOST_TEST(!plan.fits());
}

// Qwen2.5's and gpt-oss's vocabularies: the first's sums have room beside the streams, the second's have not.
BOOST_AUTO_TEST_CASE(an_output_head_comes_in_parts_that_leave_room_for_the_streams) {
  const float norm[1] = {};
  std::vector<float> logits(201'088);
  for (const auto& [rows, cols, parts] :
       {std::tuple{151'936U, 896U, 1U}, std::tuple{32'064U, 3072U, 1U}, std::tuple{201'088U, 2880U, 3U}}) {
    decode_program_plan plan(132);
    plan.add_begin(output_product(cols), nullptr);
    packed_matmul_args head = product({matrix(rows, cols, packed_format::q8_0)});
    head.norm_x = head.norm_weight = norm;
    head.out = logits.data();
    BOOST_TEST_REQUIRE(plan.add_head(head, nullptr));
    BOOST_TEST_REQUIRE(plan.phases().size() == 1 + parts);
    std::uint32_t seen = 0;
    for (std::uint32_t part = 0; part < parts; ++part) {
      const kernels::decode_phase& phase = plan.phases()[1 + part];
      BOOST_TEST(phase.has_norm == (part == 0));
      BOOST_TEST(phase.keeps_input == (part > 0));
      BOOST_TEST(phase.matmul.out == logits.data() + seen);
      BOOST_TEST(phase.matmul.w[0].data == head.w[0].data + seen / 16 * head.w[0].tile_bytes());
      for (const block_share& share : shares_of(plan, 1 + part, 132)) {
        BOOST_TEST(share.tiles[0] > 0U);  // or it would have no input for the next part
        BOOST_TEST(share.chunks * kernels::tile_rows * sizeof(float) <= gpu::head_sums_max);
      }
      seen += phase.matmul.w[0].rows;
    }
    BOOST_TEST(seen == rows);
  }
}

BOOST_AUTO_TEST_CASE(an_output_head_without_room_stays_outside) {
  decode_program_plan plan(132);
  plan.add_begin(output_product(), nullptr);
  float logits[1] = {};
  packed_matmul_args head = product({matrix(32'000, 3072, packed_format::f32)});
  head.out = logits;
  BOOST_TEST(!plan.add_head(head, nullptr));
  head.w[0] = matrix(4'000'000, 3072);
  BOOST_TEST(!plan.add_head(head, nullptr));
  BOOST_TEST(plan.phases().size() == 1U);
  BOOST_TEST(plan.fits());
}

BOOST_AUTO_TEST_CASE(what_the_kernel_does_not_take_is_found) {
  const auto fits = [](auto add) {
    decode_program_plan plan(132);
    plan.add_begin(output_product(), nullptr);
    add(plan);
    return plan.fits();
  };
  const auto attention = [](engine::kv_type keys, std::uint32_t width) {
    kernels::decode_attention_args args = attention_of(8, 8, 64);
    args.attend.width = width;
    args.attend.cache.key_type = keys;
    return args;
  };
  BOOST_TEST(fits([&](auto& p) { p.add_attention(attention(engine::kv_type::f16, 64), nullptr, nullptr); }));
  BOOST_TEST(
      !fits([&](auto& p) { p.add_attention(attention(engine::kv_type::q8_0, 64), nullptr, nullptr); }));
  BOOST_TEST(!fits([&](auto& p) { p.add_attention(attention(engine::kv_type::f16, 63), nullptr, nullptr); }));
  // There is a kernel for each width of heads, so all layers must have one.
  BOOST_TEST(!fits([&](auto& p) {
    auto wider = attention(engine::kv_type::f16, 64);
    p.add_attention(wider, nullptr, nullptr);
    BOOST_TEST(p.padded_head_width() == 64U);
    wider.attend.padded_width = 96;
    p.add_attention(wider, nullptr, nullptr);
  }));
  // Chunks of f32 weights have no room in a warp's stream; rows of 200,000 values none in a block's memory.
  BOOST_TEST(
      !fits([](auto& p) { p.add_matmul(product({matrix(64, 256, packed_format::f32)}), nullptr, nullptr); }));
  BOOST_TEST(!fits([](auto& p) { p.add_matmul(product({matrix(64, 200'000)}), nullptr, nullptr); }));
  // Another product that adds must have the rows that the blocks own.
  BOOST_TEST(!fits([](auto& p) { p.add_matmul(output_product(1536), nullptr, nullptr); }));
  BOOST_TEST(
      !fits([](auto& p) { p.add_matmul(of_experts(gate_up(64, 256)), nullptr, nullptr); }));  // no choice
  BOOST_TEST(!decode_program_plan(132).fits());
  decode_program_plan narrow(2);
  narrow.add_begin(output_product(), nullptr);
  BOOST_TEST(!narrow.fits());  // 96 row tiles of the residual stream in one block
}

}  // namespace
}  // namespace orcd::test
