// Weights in VRAM that engines share: hashed on the device as on the host, the same bits for whoever imports
// them, and refused where they are not the model's.
#include <unistd.h>

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "gpu/cuda/cuda_weights.hpp"
#include "gpu/memory/allocation_counter.hpp"
#include "gpu/memory/arena_hash.hpp"
#include "test/gpu/cuda/generated_cuda_model.hpp"
#include "test/support/some_bytes.hpp"

namespace orcd::test {
namespace {

using engine::token_id;
namespace data = boost::unit_test::data;

int current_device() {
  int device = -1;
  BOOST_REQUIRE_EQUAL(cudaGetDevice(&device), cudaSuccess);
  return device;
}

void put(const gpu::vram_arena& arena, const std::vector<std::byte>& bytes) {
  BOOST_REQUIRE_EQUAL(cudaMemcpy(arena.at<std::byte>(0), bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
                      cudaSuccess);
}

std::vector<std::byte> read(const gpu::vram_arena& arena, std::size_t count) {
  std::vector<std::byte> out(count);
  BOOST_REQUIRE_EQUAL(cudaMemcpy(out.data(), arena.at<std::byte>(0), count, cudaMemcpyDeviceToHost),
                      cudaSuccess);
  return out;
}

std::vector<float> answer(loaded_cuda_model& model) {
  std::vector<token_id> tokens;
  for (std::uint32_t i = 0; i < 300; ++i) tokens.push_back(static_cast<token_id>(i * 7919U % model.vocab()));
  return model.run(0, tokens);
}

loaded_cuda_model load(const generated_model& generated, engine::weight_source weights) {
  return {generated.path(), generated_context, {}, {}, 1, {}, std::move(weights)};
}

engine::result<engine::memory_plan> try_import(const std::string& shape, const engine::shared_weights& from) {
  const generated_model generated(shape);
  const auto file = engine::gguf_file::open(generated.path()).value();
  const auto model = engine::load_model(file, generated_context).value();
  engine::accelerator_config config;
  config.context_tokens = generated_context;
  config.weights.imported = from;
  return gpu::make_cuda_backend({.end = gpu::device_end::keep})->load(model, config, [](unsigned) {});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_shared_weights)

BOOST_AUTO_TEST_CASE(the_device_hashes_as_the_host_does) {
  constexpr std::size_t tile = gpu::hash_tile_bytes;
  for (const std::size_t count : {std::size_t{64}, tile - 64, tile, tile + 64, 3 * tile + 256, 40 * tile}) {
    const gpu::vram_arena arena(current_device(), count);
    auto bytes = some_bytes(count);
    put(arena, bytes);
    BOOST_TEST(gpu::device_content_hash(arena, count) == gpu::content_hash(bytes));
    bytes[count / 2] ^= std::byte{1};
    put(arena, bytes);
    BOOST_TEST(gpu::device_content_hash(arena, count) == gpu::content_hash(bytes));
  }
}

BOOST_AUTO_TEST_CASE(a_frozen_arena_is_read_by_whoever_imports_it) {
  const auto bytes = some_bytes(3 << 20);
  const auto before = gpu::counted_allocations().device_bytes;
  gpu::vram_arena arena(current_device(), bytes.size());
  put(arena, bytes);
  arena.freeze();
  const auto descriptor = arena.export_fd();
  const gpu::vram_arena imported(current_device(), descriptor.get(), bytes.size());
  BOOST_TEST(gpu::counted_allocations().device_bytes == before + arena.bytes());
  BOOST_TEST((imported.at<std::byte>(0) != arena.at<std::byte>(0)));
  arena = gpu::vram_arena();
  BOOST_TEST((read(imported, bytes.size()) == bytes));
}

BOOST_AUTO_TEST_CASE(a_descriptor_of_something_else_is_refused) {
  const engine::file_descriptor pipe_end(::dup(STDERR_FILENO));
  try {
    const gpu::vram_arena arena(current_device(), pipe_end.get(), 4096);
    BOOST_ERROR("was accepted");
  } catch (const engine::accelerator_failure& refused) {
    BOOST_TEST_MESSAGE("refused: " << refused.what());
    BOOST_TEST((refused.code == engine::errc::stale_weights || refused.code == engine::errc::cuda_error));
  }
}

BOOST_AUTO_TEST_CASE(memory_that_is_shorter_than_the_plan_is_refused) {
  gpu::vram_arena arena(current_device(), 1 << 20);
  arena.freeze();
  const auto descriptor = arena.export_fd();
  try {
    const gpu::vram_arena longer(current_device(), descriptor.get(), 4 * arena.bytes());
    BOOST_ERROR("was accepted");
  } catch (const engine::accelerator_failure& refused) {
    BOOST_TEST((refused.code == engine::errc::stale_weights), refused.what());
  }
}

BOOST_AUTO_TEST_CASE(the_device_has_a_name_before_anything_is_loaded) {
  const auto uuid = gpu::find_gpu_uuid({});
  BOOST_REQUIRE(uuid);
  BOOST_TEST(uuid->size() == 40U);
  BOOST_TEST(gpu::find_gpu_uuid({.gpu = {0, uuid->substr(0, 12)}}).value() == *uuid);
}

/// As an engine does that does not map what it shares while it waits.
BOOST_AUTO_TEST_CASE(weights_that_were_unmapped_are_mapped_again_at_the_same_place) {
  const generated_model generated("phi3");
  auto writer = load(generated, {.share = true});
  auto reader = load(generated, {.share = false, .imported = *writer.exported()});
  const auto expected = answer(reader);
  reader.release(0);
  const auto before = gpu::counted_allocations();
  reader.device().unmap_weights();
  BOOST_TEST(reader.device().audit().empty());
  auto wrong = *writer.exported();
  wrong.content_hash.back() = wrong.content_hash.back() == '0' ? '1' : '0';
  BOOST_TEST((reader.device().map_weights(wrong).error().code == engine::errc::stale_weights));
  reader.device().unmap_weights();
  BOOST_REQUIRE(reader.device().map_weights(*writer.exported()).has_value());
  BOOST_TEST((answer(reader) == expected));
  BOOST_TEST(reader.device().audit().empty());
  // Whoever has loaded them can do the same, while others have the memory.
  const engine::file_descriptor kept(::dup(writer.exported()->descriptor));
  auto from = *writer.exported();
  from.descriptor = kept.get();
  writer.device().unmap_weights();
  BOOST_TEST(gpu::counted_allocations().device_bytes < before.device_bytes);
  BOOST_REQUIRE(writer.device().map_weights(from).has_value());
  BOOST_TEST((answer(writer) == expected));
}

BOOST_DATA_TEST_CASE(every_family_gives_the_same_bits_from_shared_weights, data::make(all_shape_names),
                     name) {
  const generated_model generated(name);
  auto alone = load(generated, {});
  BOOST_TEST(alone.exported() == nullptr);
  auto writer = load(generated, {.share = true});
  BOOST_REQUIRE(writer.exported() != nullptr);
  auto reader = load(generated, {.share = false, .imported = *writer.exported()});
  const auto expected = answer(alone);
  BOOST_TEST((answer(writer) == expected));
  BOOST_TEST((answer(reader) == expected));
}

BOOST_AUTO_TEST_CASE(weights_that_are_not_the_models_are_refused) {
  const generated_model generated("phi3");
  const auto writer = load(generated, {.share = true});
  auto weights = *writer.exported();
  BOOST_TEST(try_import("phi3", weights).has_value());
  const auto other = try_import("qwen2", weights);
  BOOST_REQUIRE(!other);
  BOOST_TEST((other.error().code == engine::errc::stale_weights));
  weights.content_hash.back() = weights.content_hash.back() == '0' ? '1' : '0';
  const auto damaged = try_import("phi3", weights);
  BOOST_REQUIRE(!damaged);
  BOOST_TEST((damaged.error().code == engine::errc::stale_weights));
}

BOOST_AUTO_TEST_CASE(a_load_after_an_import_that_failed_reads_the_file) {
  const generated_model generated("phi3");
  auto writer = load(generated, {.share = true});
  const auto expected = answer(writer);
  const auto file = engine::gguf_file::open(generated.path()).value();
  const auto model = engine::load_model(file, generated_context).value();
  engine::accelerator_config config;
  config.context_tokens = generated_context;
  config.weights.imported = *writer.exported();
  config.weights.imported->content_hash.assign(64, '0');
  const auto device = gpu::make_cuda_backend({.end = gpu::device_end::keep});
  const auto before = gpu::counted_allocations().device_bytes;
  BOOST_TEST((device->load(model, config, [](unsigned) {}).error().code == engine::errc::stale_weights));
  BOOST_TEST(gpu::counted_allocations().device_bytes == before);
  config.weights = {.share = true};
  BOOST_REQUIRE(device->load(model, config, [](unsigned) {}).has_value());
  BOOST_TEST(device->exported_weights()->content_hash == writer.exported()->content_hash);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
