// A decode step of one sequence or a few as one kernel: it takes every family with f16 caches and without f32
// weights, and gives the bits that a step of many kernels gives, from the first position over several pages.
#include <algorithm>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "gpu/cuda/cuda_forward.hpp"
#include "gpu/cuda/cuda_resources.hpp"
#include "gpu/cuda/cuda_weights.hpp"
#include "kernels/decode_program/program_codes.hpp"
#include "test/gpu/cuda/generated_cuda_model.hpp"

namespace orcd::test {
namespace {

namespace data = boost::unit_test::data;

/// A forward pass of a model, with what it needs.
class planned_forward {
 public:
  planned_forward(const std::string& path, gpu::cuda_extents extents)
      : file_(engine::gguf_file::open(path).value()),
        model_(engine::load_model(file_, extents.context, {}).value()),
        stream_(gpu::make_stream()),
        weights_arena_(0, gpu::plan_cuda_weights(model_).value()),
        cache_(0, gpu::planned_kv_bytes(model_.spec, extents.slots, extents.context, extents.kv)),
        work_(0, gpu::work_layout(model_.spec, extents).bytes),
        weights_(gpu::upload_cuda_weights(model_, weights_arena_, {}, [](unsigned) {})),
        forward_(model_, weights_, extents, work_, cache_, stream_.get()) {}

  /// Phases of the kernel; 0 where it does not take the model.
  [[nodiscard]] std::size_t phases() const {
    return forward_.programs().empty() ? 0 : forward_.programs()[0].count;
  }
  [[nodiscard]] std::size_t sequences() const { return forward_.programs().size(); }
  [[nodiscard]] const kernels::program_needs& needs() const { return forward_.programs().front().needs; }
  /// The logits of a step of sequences that are all at this position.
  std::vector<float> step(std::uint32_t sequences, std::int32_t position) {
    std::vector<kernels::step_token> steps;
    for (std::uint32_t i = 0; i < sequences; ++i)
      steps.push_back({static_cast<std::int32_t>(7 * i + 3), position, static_cast<std::int32_t>(i)});
    ORCD_CUDA(
        cudaMemcpy(forward_.steps(), steps.data(), steps.size() * sizeof(steps[0]), cudaMemcpyHostToDevice));
    forward_.decode(sequences);
    ORCD_CUDA(cudaStreamSynchronize(stream_.get()));
    std::vector<float> logits(std::size_t{sequences} * model_.spec.vocab);
    ORCD_CUDA(
        cudaMemcpy(logits.data(), forward_.logits(), logits.size() * sizeof(float), cudaMemcpyDeviceToHost));
    return logits;
  }
  /// The top token that the last step of one sequence found; reading it resets it.
  engine::token_id take_top_token() {
    unsigned long long key = 0;
    ORCD_CUDA(cudaMemcpy(&key, forward_.keys(1), sizeof(key), cudaMemcpyDeviceToHost));
    ORCD_CUDA(cudaMemset(forward_.keys(1), 0, sizeof(key)));
    return key == 0 ? -1 : static_cast<engine::token_id>(~static_cast<std::uint32_t>(key));
  }
  void ban(std::span<const engine::token_id> tokens) { forward_.ban(tokens); }
  /// Makes the output head's last whole row tile a copy of its first, so that tokens of the two are equally
  /// likely.
  void repeat_first_tile() {
    const kernels::packed_matrix& w = weights_.output;
    const std::uint32_t last = w.rows / kernels::tile_rows - 1;
    ORCD_CUDA(cudaMemcpy(const_cast<std::byte*>(w.data) + last * w.tile_bytes(), w.data, w.tile_bytes(),
                         cudaMemcpyDeviceToDevice));
    ORCD_CUDA(cudaMemcpy(const_cast<float*>(w.row_scale) + last * kernels::tile_rows, w.row_scale,
                         kernels::tile_rows * sizeof(float), cudaMemcpyDeviceToDevice));
  }
  [[nodiscard]] std::uint32_t phases_counted() const { return state().phases; }
  /// Sets the count of phases that have passed.
  void count_phases(std::uint32_t phases) {
    kernels::program_state counted = state();
    counted.phases = phases;
    ORCD_CUDA(cudaMemcpy(forward_.programs()[0].state, &counted, sizeof(counted), cudaMemcpyHostToDevice));
  }
  [[nodiscard]] std::size_t layers() const { return model_.spec.layers.size(); }
  [[nodiscard]] bool has_experts() const { return model_.spec.experts > 0; }

 private:
  [[nodiscard]] kernels::program_state state() const {
    kernels::program_state state;
    ORCD_CUDA(cudaMemcpy(&state, forward_.programs()[0].state, sizeof(state), cudaMemcpyDeviceToHost));
    return state;
  }

  engine::gguf_file file_;
  engine::model model_;
  gpu::owned_stream stream_;
  gpu::vram_arena weights_arena_, cache_, work_;
  gpu::cuda_weights weights_;
  gpu::cuda_forward forward_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(decode_program)

BOOST_DATA_TEST_CASE(every_family_is_taken,
                     data::make({"llama-no-f32", "qwen2", "phi3", "gpt-oss", "mixtral"}), name) {
  const generated_model generated(name);
  const planned_forward taken(generated.path(), {1, generated_context, 512, {}});
  const std::size_t phases = 1 + taken.layers() * (taken.has_experts() ? 7 : 5) + 1;  // the output head's
  BOOST_TEST(taken.sequences() == 1U);
  BOOST_TEST(taken.phases() == phases);
  const planned_forward other_cache(
      generated.path(), {1, generated_context, 512, {engine::kv_type::q8_0, engine::kv_type::f16}});
  BOOST_TEST(other_cache.phases() == 0U);
  gpu::cuda_extents many{1, generated_context, 512, {}};
  many.one_kernel = 0;
  BOOST_TEST(planned_forward(generated.path(), many).phases() == 0U);
}

/// All matrices of one model have that type, in the other one of them does.
BOOST_DATA_TEST_CASE(there_is_no_room_for_a_chunk_of_f32, data::make({"llama-f32", "llama"}), name) {
  const generated_model generated(name);
  const planned_forward refused(generated.path(), {1, generated_context, 512, {}});
  BOOST_TEST(refused.sequences() == 0U);
  BOOST_TEST(refused.phases() == 0U);
}

namespace {

void compare_one_kernel_with_many(const std::string& name, std::uint32_t positions) {
  const generated_model generated(name);
  auto one = generated.load({}, 1);
  auto many = generated.load({.one_kernel = 0}, 1);
  std::minstd_rand random(7);
  for (std::uint32_t position = 0; position < positions; ++position) {
    const auto token = static_cast<engine::token_id>(random() % one.vocab());
    const auto seen = one.run(0, {&token, 1});
    const auto expected = many.run(0, {&token, 1});
    BOOST_REQUIRE_MESSAGE(seen == expected, name << ": other bits at position " << position);
    BOOST_REQUIRE(std::all_of(seen.begin(), seen.end(), [](float v) { return v == v; }));
  }
}

}  // namespace

BOOST_DATA_TEST_CASE(one_kernel_and_many_give_the_same_bits, data::make(shape_names), name) {
  compare_one_kernel_with_many(name, 600);
}

namespace {

/// Steps of as many sequences as one kernel takes at positions far from each other, in it and in many.
void compare_sequences(const std::string& name, std::uint32_t steps) {
  constexpr std::uint32_t sequences = kernels::program_sequences_max;
  const generated_model generated(name);
  gpu::cuda_extents extents{sequences, generated_context, 512, {}};
  extents.one_kernel = sequences;
  BOOST_REQUIRE(planned_forward(generated.path(), extents).sequences() == sequences);
  auto one = generated.load({.one_kernel = sequences}, sequences);
  auto many = generated.load({.one_kernel = 0}, sequences);
  std::minstd_rand random(sequences);
  std::vector<engine::token_id> tokens(std::size_t{sequences} * 300);
  for (auto& token : tokens) token = static_cast<engine::token_id>(random() % one.vocab());
  const std::span<const engine::token_id> all(tokens);
  for (std::uint32_t slot = 0; slot < sequences; ++slot) {
    const auto prompt = all.subspan(slot, slot == 0 ? 1 : 290 * slot);
    BOOST_REQUIRE((one.run(slot, prompt) == many.run(slot, prompt)));
  }
  for (std::uint32_t step = 0; step < steps; ++step) {
    loaded_cuda_model::parts parts;
    for (std::uint32_t slot = 0; slot < sequences; ++slot)
      parts.emplace_back((slot + step) % sequences, all.subspan(random() % all.size(), 1));
    one.append(parts);
    many.append(parts);
    for (std::uint32_t slot = 0; slot < sequences; ++slot)
      BOOST_REQUIRE_MESSAGE(one.logits(slot) == many.logits(slot),
                            name << ": step " << step << ": other bits in " << slot);
  }
}

const std::vector<std::string> dense_names{"llama-no-f32", "qwen2", "phi3"};
const std::vector<std::string> expert_names{"gpt-oss", "mixtral"};

}  // namespace

BOOST_DATA_TEST_CASE(few_sequences_have_the_same_bits_in_one_kernel, data::make(dense_names), name) {
  compare_sequences(name, 40);
}

BOOST_DATA_TEST_CASE(few_sequences_with_experts_have_the_same_bits_in_one_kernel, data::make(expert_names),
                     name) {
  compare_sequences(name, 40);
}

// Rows as wide as Phi-3-mini's.
BOOST_AUTO_TEST_CASE(few_sequences_of_wide_rows_have_the_same_bits) {
  compare_sequences("phi3-wide", 10);
}

// Several items of attention for a block.
BOOST_AUTO_TEST_CASE(few_sequences_of_many_heads_have_the_same_bits) {
  compare_sequences("many-heads", 10);
}

const std::vector<std::string> head_names{"qwen2", "phi3-wide"};  // one part, two parts
const std::vector<std::string> all_head_names{"qwen2", "phi3-wide", "bitnet", "bitnet-odd"};

BOOST_DATA_TEST_CASE(the_output_head_finds_the_top_token, data::make(all_head_names), name) {
  const generated_model generated(name);
  planned_forward forward(generated.path(), {1, generated_context, 512, {}});
  std::vector<engine::token_id> banned;
  for (std::int32_t step = 0; step < 24; ++step) {
    std::vector<float> logits = forward.step(1, step / 8);
    for (const engine::token_id id : banned) logits[static_cast<std::size_t>(id)] = -INFINITY;
    const auto top =
        static_cast<engine::token_id>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    BOOST_TEST(forward.take_top_token() == top);
    banned.push_back(top);
    forward.ban(banned);
  }
  banned.resize(forward.step(1, 3).size());
  std::iota(banned.begin(), banned.end(), 0);
  forward.ban(banned);
  forward.take_top_token();
  (void)forward.step(1, 3);
  BOOST_TEST(forward.take_top_token() == -1);
}

BOOST_DATA_TEST_CASE(of_equally_likely_tokens_the_lowest_is_found, data::make(head_names), name) {
  const generated_model generated(name);
  planned_forward forward(generated.path(), {1, generated_context, 512, {}});
  forward.repeat_first_tile();
  const std::size_t vocab = forward.step(1, 0).size();
  const std::size_t twin = (vocab / kernels::tile_rows - 1) * kernels::tile_rows;
  std::vector<engine::token_id> banned;  // all but those of the two tiles
  for (std::size_t id = kernels::tile_rows; id < vocab; ++id) {
    if (id < twin || id >= twin + kernels::tile_rows) banned.push_back(static_cast<engine::token_id>(id));
  }
  forward.ban(banned);
  forward.take_top_token();
  for (std::int32_t position = 1; position < 9; ++position) {
    const std::vector<float> logits = forward.step(1, position);
    const auto top = std::max_element(logits.begin(), logits.begin() + kernels::tile_rows);
    const auto id = static_cast<std::size_t>(top - logits.begin());
    BOOST_TEST(logits[twin + id] == logits[id]);
    BOOST_TEST(forward.take_top_token() == static_cast<engine::token_id>(id));
  }
}

// When counting begins anew, words of a sequence that no step has written for long must not look new.
BOOST_AUTO_TEST_CASE(counting_begins_anew) {
  const generated_model generated("qwen2");
  gpu::cuda_extents extents{2, generated_context, 512, {}};
  extents.one_kernel = 2;
  planned_forward forward(generated.path(), extents);
  BOOST_REQUIRE(forward.sequences() == 2U);
  planned_forward fresh(generated.path(), extents);
  const auto compare = [&](std::uint32_t sequences, std::int32_t position) {
    BOOST_TEST((forward.step(sequences, position) == fresh.step(sequences, position)));
  };
  compare(2, 0);
  forward.count_phases(kernels::counted_phases_max - 15);
  compare(1, 1);
  compare(2, 1);
  BOOST_TEST(forward.phases_counted() < 1000U);
  compare(1, 2);
  compare(2, 3);
}

// How a norm is gathered depends on the width.
BOOST_DATA_TEST_CASE(wide_models_have_the_same_bits, data::make(wide_shape_names), name) {
  const generated_model generated(name);
  BOOST_TEST(planned_forward(generated.path(), {1, generated_context, 512, {}}).phases() > 0U);
  compare_one_kernel_with_many(name, 40);
}

const std::vector<std::string> many_heads_names{"many-heads", "many-wide-heads", "more-heads-than-blocks"};

// Enough steps that a phase description overwritten before it was read would be noticed (fetch_phase()):
// without the fence there, heads of 96 gave other bits in 3 of 8 runs of 700.
BOOST_DATA_TEST_CASE(several_pages_of_one_worker_have_the_same_bits, data::make(many_heads_names), name) {
  compare_one_kernel_with_many(name, 2200);
}

namespace {

/// A token alone after every `apart` others that come together, up to the end of the context.
void compare_along_context(const std::string& name, std::uint32_t context, std::uint32_t apart) {
  const generated_model generated(name);
  auto one = generated.load({}, 1, context);
  auto many = generated.load({.one_kernel = 0}, 1, context);
  std::minstd_rand random(7);
  std::vector<engine::token_id> tokens(apart + 1);
  for (std::uint32_t position = 0; position + apart + 1 < context; position += apart + 1) {
    for (auto& token : tokens) token = static_cast<engine::token_id>(random() % one.vocab());
    const std::span<const engine::token_id> all(tokens);
    BOOST_REQUIRE((one.run(0, all.first(apart)) == many.run(0, all.first(apart))));
    BOOST_REQUIRE_MESSAGE(one.run(0, all.last(1)) == many.run(0, all.last(1)),
                          name << ": other bits at position " << position + apart);
  }
}

}  // namespace

const std::vector<std::string> few_a_key_names{"many-heads", "many-wide-heads", "more-heads-than-blocks",
                                               "heads-in-pairs", "wide-heads-by-three"};

// Of all nine, or of every second or fourth.
BOOST_DATA_TEST_CASE(workers_of_several_pages_have_the_same_bits, data::make(few_a_key_names), name) {
  BOOST_TEST(planned_forward(generated_model(name).path(), {1, generated_context, 512, {}}).phases() > 0U);
  compare_along_context(name, generated_context, 6);
}

BOOST_AUTO_TEST_CASE(more_pages_than_are_folded_at_a_time) {
  compare_along_context("long", long_context, 60);
}

const std::vector<std::string> heads_of_96_names{"grouped-heads", "two-tiles", "padded-heads",
                                                 heads_of("gpt-oss", 96)};

BOOST_DATA_TEST_CASE(heads_whose_keys_are_prefetched_have_the_same_bits, data::make(heads_of_96_names),
                     name) {
  BOOST_TEST(planned_forward(generated_model(name).path(), {1, generated_context, 512, {}}).phases() > 0U);
  compare_one_kernel_with_many(name, 600);
}

BOOST_AUTO_TEST_CASE(many_experts_have_the_same_bits) {
  BOOST_TEST(
      planned_forward(generated_model("gpt-oss-128").path(), {1, generated_context, 512, {}}).phases() > 0U);
  compare_one_kernel_with_many("gpt-oss-128", 600);
  compare_sequences("gpt-oss-128", 40);
  compare_one_kernel_with_many("gpt-oss-128-wide", 40);
  compare_sequences("gpt-oss-128-wide", 6);
}

BOOST_AUTO_TEST_CASE(experts_of_wide_rows_have_the_same_bits) {
  compare_one_kernel_with_many("gpt-oss-wide", 40);
  compare_sequences("gpt-oss-wide", 6);
}

// A kernel for each width, and for each set of formats.
BOOST_DATA_TEST_CASE(every_kernel_gives_the_same_bits,
                     data::make(std::vector<std::string>{"llama-no-f32", "phi3", "gpt-oss", "few-bit",
                                                         "table"}) *
                         data::make({32U, 64U, 96U, 128U}),
                     family, width) {
  const std::string name = heads_of(family, width);
  const planned_forward taken(generated_model(name).path(), {1, generated_context, 512, {}});
  const bool dense = taken.needs().within(kernels::dense_code::has);  // the first of the sets that are tried
  BOOST_TEST(dense == (family == "phi3"));
  BOOST_TEST(taken.needs().within(kernels::fp4_code::has) == (family == "gpt-oss"));
  BOOST_TEST((!dense && taken.needs().within(kernels::few_bit_code::has)) == (family == "few-bit"));
  BOOST_TEST(taken.needs().within(kernels::table_code::has) == (family == "table"));
  compare_one_kernel_with_many(name, 40);
  compare_sequences(name, 6);
}

BOOST_DATA_TEST_CASE(integer_activations_have_the_same_bits, data::make(ternary_shape_names), name) {
  const generated_model generated(name);
  const planned_forward taken(generated.path(), {2, generated_context, 512, {}});
  BOOST_TEST(taken.sequences() == 1U);
  BOOST_TEST(taken.phases() == 1 + taken.layers() * 5 + 1);
  BOOST_TEST(taken.needs().within(kernels::ternary_code::has));
  compare_one_kernel_with_many(name, name == "bitnet" || name == "bitnet-wide" ? 600 : 300);
}

// Several pages, which workers hand each other.
BOOST_AUTO_TEST_CASE(integer_activations_have_the_same_bits_along_the_context) {
  compare_along_context("bitnet", generated_context, 6);
  compare_along_context("bitnet-many-heads", generated_context, 60);
}

BOOST_AUTO_TEST_CASE(heads_of_other_formats_follow_the_kernel) {
  const planned_forward taken(generated_model("bitnet-q4_1").path(), {1, generated_context, 512, {}});
  BOOST_TEST(taken.phases() == 1 + taken.layers() * 5);
  compare_one_kernel_with_many("bitnet-q4_1", 40);
}

BOOST_AUTO_TEST_CASE(there_is_no_room_for_a_chunk_of_very_wide_rows) {
  const generated_model generated("bitnet-too-wide");
  BOOST_TEST(planned_forward(generated.path(), {1, generated_context, 512, {}}).sequences() == 0U);
}

// The words of integer activations' phases, too.
BOOST_AUTO_TEST_CASE(counting_begins_anew_with_integer_activations) {
  const generated_model generated("bitnet");
  const gpu::cuda_extents extents{1, generated_context, 512, {}};
  planned_forward forward(generated.path(), extents);
  planned_forward fresh(generated.path(), extents);
  forward.count_phases(kernels::counted_phases_max - 5);
  for (std::int32_t position = 0; position < 4; ++position) {
    BOOST_TEST((forward.step(1, position) == fresh.step(1, position)));
    BOOST_TEST(forward.phases_counted() < 1000U);
  }
}

// The second launch begins where the first has left its counters.
BOOST_AUTO_TEST_CASE(sequences_follow_each_other) {
  const generated_model generated("gpt-oss");
  auto model = generated.load({}, 2);
  const std::vector<engine::token_id> tokens{3, 1, 4, 1, 5, 9, 2, 6};
  const auto expected = model.run(0, tokens, 1);
  for (int i = 0; i < 3; ++i) {
    model.release(0);
    BOOST_TEST((model.run(0, tokens, 1) == expected));
    BOOST_TEST((model.run(1, tokens, 1) == expected));
    model.release(1);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
