// The workspace of the CUDA backend, and that plans without a GPU count by it.
#include "app/inspect/gpu_plan.hpp"

#include <boost/test/unit_test.hpp>

#include "engine/gguf/gguf_file.hpp"
#include "gpu/plan/draft_room.hpp"
#include "gpu/plan/work_layout.hpp"
#include "kernels/layer/experts.hpp"
#include "test/support/tiny_model.hpp"

using namespace orcd;

namespace {

engine::model loaded(const engine::gguf_file& file) {
  auto m = engine::load_model(file);
  BOOST_REQUIRE(m.has_value());
  return std::move(*m);
}

/// What the backend allocates when it is loaded so, without weights and cache.
std::uint64_t allocated(const engine::model_spec& spec, const engine::accelerator_config& config) {
  const auto choices = gpu::choices_for(spec, config);
  return gpu::sampler_layout(spec, gpu::extents_for(spec, config, choices)).end;
}

engine::accelerator_config config_of(std::uint32_t slots, std::uint32_t context) {
  engine::accelerator_config config;
  config.slots = slots;
  config.context_tokens = context;
  config.draft_tokens = gpu::draft_tokens_wanted;
  return config;
}

/// Sizes of DeepSeek V2 Lite, which has 16 heads, and of V3's attention, which has 128; without tensors.
engine::model_spec with_latents(std::uint32_t heads) {
  engine::model_spec spec;
  spec.embedding = 2'048;
  spec.vocab = 102'400;
  spec.latent = {.rank = 512, .query_rank = 0, .key_length = 192, .value_length = 128, .rotated = 64};
  spec.experts = 64;
  spec.experts_used = 6;
  spec.layers.resize(27);
  for (engine::layer_spec& layer : spec.layers) {
    layer.heads = layer.kv_heads = heads;
    layer.ffn_size = 1'408;
    layer.shared_size = 2'816;
  }
  return spec;
}

/// Sizes of a mixture of experts like gpt-oss, or of a dense model where it has none; without tensors.
engine::model_spec with_experts(std::uint32_t experts, std::uint32_t used, std::uint32_t ffn = 2'880) {
  engine::model_spec spec;
  spec.embedding = 2'880;
  spec.vocab = 201'088;
  spec.experts = experts;
  spec.experts_used = used;
  spec.layers.resize(36);
  for (engine::layer_spec& layer : spec.layers) {
    layer.heads = 64;
    layer.kv_heads = 8;
    layer.key_length = layer.value_length = 64;
    layer.ffn_size = ffn;
    if (experts > 0) layer.ffn = engine::ffn_kind::moe;
  }
  return spec;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(gpu_plan)

BOOST_AUTO_TEST_CASE(a_plan_without_a_gpu_counts_all_that_is_allocated) {
  for (const char* name : {"deepseek2", "deepseek2-glm", "qwen3moe", "gemma2", "llama"}) {
    test::tiny_model_options options;
    if (std::string_view(name) != "llama") options.file = name;
    const test::bytes image = test::make_tiny_model(options);
    const auto file = engine::gguf_file::parse(image, name).value();
    const engine::model m = loaded(file);
    for (const std::uint32_t slots : {1U, 4U, 200U}) {
      const auto plan = app::plan_gpu(m, {.slots = slots, .context = 512});
      BOOST_REQUIRE(plan.has_value());
      const std::uint64_t planned = plan->workspace_bytes + plan->logits_bytes + plan->drafts_bytes;
      BOOST_TEST(planned == allocated(m.spec, config_of(slots, 512)), name << " of " << slots);
      BOOST_TEST(plan->required_bytes ==
                 planned + plan->weights_bytes + plan->kv_bytes + plan->context_bytes + plan->reserve_bytes);
    }
  }
}

BOOST_AUTO_TEST_CASE(buffers_end_where_the_next_begin) {
  const engine::model_spec spec = with_latents(16);
  const auto extents =
      gpu::extents_for(spec, config_of(4, 4'096), gpu::choices_for(spec, config_of(4, 4'096)));
  const gpu::work_layout layout(spec, extents);
  const std::uint64_t pairs = std::uint64_t{extents.columns()} * 16;
  BOOST_TEST(layout.latent.unrotated - layout.latent.query == pairs * 192 * sizeof(float));
  BOOST_TEST(layout.latent.attended - layout.latent.query_in_latent == pairs * 512 * sizeof(float));
  BOOST_TEST(layout.latent.tile_count < layout.bytes);
  const gpu::sampler_layout sampler(spec, extents);
  BOOST_TEST(sampler.asked == layout.bytes);
  BOOST_TEST(sampler.end > sampler.results);
}

BOOST_AUTO_TEST_CASE(latents_of_many_slots_take_more_than_a_guess) {
  const engine::model_spec spec = with_latents(128);
  const auto beside_logits = [&](std::uint32_t slots) {
    const auto config = config_of(slots, 4'096);
    const auto extents = gpu::extents_for(spec, config, gpu::choices_for(spec, config));
    return allocated(spec, config) - std::uint64_t{extents.sampling()} * spec.vocab * sizeof(float);
  };
  BOOST_TEST(beside_logits(256) > (std::uint64_t{400} << 20));
  BOOST_TEST(beside_logits(256) > 2 * beside_logits(4));
}

BOOST_AUTO_TEST_CASE(models_that_embed_have_no_program_and_may_take_a_context_at_once) {
  engine::model_spec spec = with_latents(16);
  spec.pooling.emplace();
  const auto config = config_of(200, 300);
  BOOST_TEST(gpu::choices_for(spec, config).one_kernel.value() == 0U);
  BOOST_TEST(gpu::choices_for(spec, config).chunk_tokens == engine::prompt_tokens_least);
  spec.causal = false;
  BOOST_TEST(gpu::choices_for(spec, config).chunk_tokens == 300U);
}

BOOST_AUTO_TEST_CASE(a_step_has_as_many_prompt_tokens_as_fill_experts_unless_it_is_said) {
  const auto chosen = [&](const engine::model_spec& spec, std::uint32_t slots, std::uint32_t asked = 0,
                          std::uint32_t backend = 0) {
    auto config = config_of(slots, 4'096);
    config.chunk_tokens = asked;
    return gpu::choices_for(spec, config, {.chunk_tokens = backend}).chunk_tokens;
  };
  const engine::model_spec many = with_experts(32, 4);
  BOOST_TEST(chosen(many, 1) == 2'048U);
  BOOST_TEST(chosen(many, 1'024) == 2'048U);
  BOOST_TEST(chosen(many, 1'024, 256) == 256U);
  BOOST_TEST(chosen(many, 1'024, 256, 64) == 64U);
  BOOST_TEST(chosen(with_experts(8, 8), 1) == 512U);
  BOOST_TEST(chosen(with_experts(0, 0), 1) == 2'048U);
  // 8,192 would take longer than a quarter of a second, and so would 2,048 of wide dense layers.
  BOOST_TEST(chosen(with_experts(128, 4), 1) == 4'096U);
  BOOST_TEST(chosen(with_experts(0, 0, 60'000), 1) == 1'024U);
  BOOST_TEST(chosen(with_latents(16), 256) == 512U);
  BOOST_TEST(chosen(with_latents(16), 256, 2'048) == 2'048U);
}

BOOST_AUTO_TEST_CASE(memory_shortens_steps_that_nobody_asked_for) {
  const engine::model_spec spec = with_experts(128, 4);
  auto config = config_of(1, 4'096);
  std::vector<std::uint32_t> lengths;
  for (std::optional<gpu::step_choices> next = gpu::choices_for(spec, config); next;
       next = gpu::with_shorter_steps(*next))
    lengths.push_back(next->chunk_tokens);
  BOOST_TEST(lengths == (std::vector<std::uint32_t>{4'096, 2'048, 1'024, 512}),
             boost::test_tools::per_element());
  config.chunk_tokens = 2'048;
  BOOST_TEST(!gpu::with_shorter_steps(gpu::choices_for(spec, config)).has_value());
  BOOST_TEST(!gpu::with_shorter_steps(gpu::choices_for(spec, config_of(1, 4'096), {.chunk_tokens = 64})));
}

BOOST_AUTO_TEST_CASE(a_plan_has_shorter_steps_where_memory_is_short) {
  const test::bytes image = test::make_tiny_model({});
  const auto file = engine::gguf_file::parse(image, "llama").value();
  const engine::model m = loaded(file);
  app::gpu_plan_request request{.slots = 1, .context = 256};
  const auto longest = app::plan_gpu(m, request);
  request.chunk_tokens = engine::prompt_tokens_least;
  const auto shortest = app::plan_gpu(m, request);
  BOOST_REQUIRE((longest.has_value() && shortest.has_value()));
  BOOST_TEST(longest->workspace_bytes > shortest->workspace_bytes);
  request.chunk_tokens = 0;
  request.vram_bytes = longest->required_bytes;
  BOOST_TEST(app::plan_gpu(m, request)->required_bytes == longest->required_bytes);
  request.vram_bytes = longest->required_bytes - 1;
  const auto shorter = app::plan_gpu(m, request);
  BOOST_TEST(shorter->required_bytes < longest->required_bytes);
  BOOST_TEST(shorter->required_bytes > shortest->required_bytes);
  request.vram_bytes = shortest->required_bytes;
  BOOST_TEST(app::plan_gpu(m, request)->required_bytes == shortest->required_bytes);
  BOOST_TEST(app::plan_gpu(m, request)->context_max.value() == 256U);
}

BOOST_AUTO_TEST_CASE(the_longest_steps_have_no_more_pairs_than_can_be_sorted) {
  constexpr std::uint32_t slots_max = 256;  // of --slots
  constexpr std::uint64_t columns = engine::prompt_tokens_limit + slots_max + gpu::draft_tokens_wanted;
  BOOST_TEST(columns * kernels::experts_max <= kernels::sorted_pairs_max);
  BOOST_TEST(columns < 65'536U);  // each has an expert at most once
}

BOOST_AUTO_TEST_SUITE_END()
