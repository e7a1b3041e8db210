// A KV cache in VRAM that one engine after the other uses: what one has computed another goes on from, with
// the same bits, while the first one writes to other pages.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <vector>

#include "gpu/memory/allocation_counter.hpp"
#include "test/gpu/cuda/generated_cuda_model.hpp"

namespace orcd::test {
namespace {

using engine::kv_page;
using engine::token_id;
namespace data = boost::unit_test::data;

constexpr std::uint32_t prompt_tokens = 700, full_tokens = 512;
const std::vector<kv_page> written{0, 9, 4}, continued{0, 9, 6}, elsewhere{1, 2, 5};

std::vector<token_id> tokens_of(std::uint32_t vocab, std::uint32_t seed) {
  std::vector<token_id> tokens;
  for (std::uint32_t i = 0; i < prompt_tokens; ++i)
    tokens.push_back(static_cast<token_id>((seed + i * 7919U) % vocab));
  return tokens;
}

loaded_cuda_model load(const generated_model& generated, engine::kv_types types, engine::cache_source cache) {
  return {generated.path(), generated_context, {}, {}, 2, types, {}, std::move(cache)};
}

std::vector<float> whole(loaded_cuda_model& model, const std::vector<kv_page>& pages,
                         const std::vector<token_id>& tokens) {
  model.begin(0, pages, {});
  return model.run(0, tokens);
}

std::vector<float> rest(loaded_cuda_model& model, const std::vector<token_id>& tokens) {
  model.begin(1, continued, std::span(tokens).first(full_tokens));
  return model.run(1, std::span(tokens).subspan(full_tokens));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_shared_cache)

BOOST_DATA_TEST_CASE(another_engine_goes_on_with_the_same_bits, data::make(shape_names), name) {
  const generated_model generated(name);
  for (const auto type : {engine::kv_type::f16, engine::kv_type::q8_0}) {
    const auto before = gpu::counted_allocations().device_bytes;
    auto writer = load(generated, {type, type}, {.share = true});
    BOOST_REQUIRE(writer.exported_cache() != nullptr);
    const auto after = gpu::counted_allocations().device_bytes;
    const auto tokens = tokens_of(writer.vocab(), 5), others = tokens_of(writer.vocab(), 77);
    const auto expected = whole(writer, written, tokens);
    writer.release(0);
    // Loading it runs steps, which must not touch these pages: the first ones of slots.
    auto reader = load(generated, {type, type}, {.share = false, .imported = *writer.exported_cache()});
    const auto taken = gpu::counted_allocations().device_bytes - after;
    BOOST_TEST(taken + writer.exported_cache()->bytes == after - before);
    (void)whole(writer, elsewhere, others);
    BOOST_TEST((rest(reader, tokens) == expected));
  }
}

BOOST_AUTO_TEST_CASE(it_outlives_the_engine_that_made_it) {
  const generated_model generated("qwen2");
  auto writer = std::make_unique<loaded_cuda_model>(
      generated.path(), generated_context, engine::rope_overrides{}, gpu::cuda_backend_options{}, 2U,
      engine::kv_types{}, engine::weight_source{}, engine::cache_source{.share = true});
  const auto tokens = tokens_of(writer->vocab(), 5);
  auto reader = load(generated, {}, {.share = false, .imported = *writer->exported_cache()});
  const auto expected = whole(*writer, written, tokens);
  writer.reset();
  BOOST_TEST((rest(reader, tokens) == expected));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
