// Media on the CUDA backend: towers against the host's and transformers', texts behind media likewise, and
// that no bit of either depends on slices, chunks, slots, blocks or neighbours.
#include "gpu/cuda/media/cuda_media.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <map>
#include <memory>

#include "gpu/cuda/cuda_backend.hpp"
#include "gpu/host/host_backend.hpp"
#include "gpu/host/host_tower.hpp"
#include "gpu/plan/model_support.hpp"
#include "test/unit/media/golden_media.hpp"

namespace orcd::test {
namespace {

namespace data = boost::unit_test::data;

// Weights and activations enter the products as f16 (2^-11 each), layer after layer.
constexpr double rows_bound = 3e-3;
constexpr double logits_bound = 2e-3;

/// A golden's tower on the GPU by itself.
class cuda_encoder {
 public:
  explicit cuda_encoder(const golden_media& golden, bool pinned = true) : golden_(golden) {
    BOOST_REQUIRE_EQUAL(cudaSetDevice(0), cudaSuccess);
    stream_ = gpu::make_stream();
    gpu::cuda_extents extents;
    extents.context = 512;
    extents.chunk_tokens = 64;
    gpu::upload_options upload;
    upload.pinned = pinned;
    media_.emplace(golden.text.spec, room(), extents, 0, upload, stream_.get());
  }
  [[nodiscard]] engine::media_room room() const { return {&golden_.tower, 24}; }
  [[nodiscard]] gpu::cuda_media& media() noexcept { return *media_; }

  /// All rows of a medium, by blocks in this order.
  std::vector<float> encode(const engine::prepared_medium& medium, std::uint32_t rows,
                            const std::vector<std::uint32_t>& blocks) {
    media_->begin(medium, blocks);
    while (!media_->go_on()) {
    }
    BOOST_REQUIRE_EQUAL(cudaStreamSynchronize(stream_.get()), cudaSuccess);
    const auto& store = media_->given().store;
    std::vector<float> out;
    for (std::uint32_t row = 0; row < rows; ++row) {
      const std::size_t at =
          std::size_t{blocks[row / store.block_rows]} * store.block_rows + row % store.block_rows;
      out.resize(out.size() + store.row_width);
      BOOST_REQUIRE_EQUAL(
          cudaMemcpy(out.data() + std::size_t{row} * store.row_width, store.rows + at * store.row_width,
                     store.row_width * sizeof(float), cudaMemcpyDeviceToHost),
          cudaSuccess);
    }
    return out;
  }

 private:
  const golden_media& golden_;
  gpu::owned_stream stream_;
  std::optional<gpu::cuda_media> media_;
};

std::vector<float> encode_on_host(const golden_media& golden, const engine::prepared_medium& medium,
                                  std::uint32_t rows) {
  kernels::host::thread_pool pool(1);
  gpu::host_tower tower(golden.tower, pool);
  const std::size_t width = golden.tower.spec.row_width();
  std::vector<float> out(rows * width);
  tower.begin(medium, [&](std::uint32_t i) { return out.data() + i * width; });
  while (!tower.go_on()) {
  }
  return out;
}

/// So many blocks as a golden's rows may take, in an order of their own.
std::vector<std::uint32_t> blocks_from(std::uint32_t first) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < 12; ++i) out.push_back(first + (i * 5 + 3) % 12);
  return out;
}

engine::accelerator_config config_of(const golden_media& golden, std::uint32_t slots, std::uint32_t blocks) {
  engine::accelerator_config config;
  config.slots = slots;
  config.context_tokens = 512;
  config.window_groups = false;  // slots are used without begin()
  config.media = {&golden.tower, blocks};
  return config;
}

std::unique_ptr<engine::accelerator> load_cuda(const golden_media& golden, gpu::cuda_backend_options options,
                                               std::uint32_t slots) {
  options.keep_logits = true;
  options.end = gpu::device_end::keep;
  auto device = gpu::make_cuda_backend(options);
  const auto loaded =
      device->load(golden.text, config_of(golden, slots, slots * golden_sequence::blocks), [](unsigned) {});
  BOOST_REQUIRE_MESSAGE(loaded.has_value(), (loaded ? "" : loaded.error().message));
  BOOST_TEST(loaded->media_bytes > 0U);
  BOOST_TEST(device->audit().empty());
  return device;
}

std::vector<float> host_logits(const golden_media& golden, std::uint32_t position) {
  auto device = gpu::make_host_backend({.threads = 1, .chunk_tokens = 64});
  BOOST_REQUIRE(device->load(golden.text, config_of(golden, 1, golden_sequence::blocks), [](unsigned) {}));
  return golden_logits(*device, golden, position, 64);
}

/// The positions of a golden that are compared.
std::vector<std::uint32_t> positions_of(const golden_media& golden) {
  std::vector<std::uint32_t> out;
  for (const auto& position : golden.facts.at("positions").as_array())
    out.push_back(position.to_number<std::uint32_t>());
  return out;
}

/// Models that this backend runs; others are the host's.
bool runs(const golden_media& golden) {
  if (const auto taken = gpu::check_cuda_support(golden.text.spec); taken) return true;
  BOOST_TEST_MESSAGE("the CUDA backend does not run " << golden.text.spec.architecture);
  return false;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_media)

BOOST_DATA_TEST_CASE(rows_are_those_of_the_host_and_of_transformers, data::make(golden_media_names()), name) {
  const golden_media golden(name);
  const auto expected = golden_floats(name + ".rows.f32");
  cuda_encoder encoder(golden);
  std::size_t at = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto medium = golden.medium(i);
    const auto all = encoder.encode(medium, golden.rows(i), blocks_from(0));
    const double of_host = relative_error(all, encode_on_host(golden, medium, golden.rows(i)));
    const auto kept = golden.kept_rows(all);
    const double of_golden = relative_error(kept, std::span(expected).subspan(at, kept.size()));
    std::printf("%s, medium %zu: relative error %.2e against the host, %.2e against transformers\n",
                name.c_str(), i, of_host, of_golden);
    BOOST_TEST(of_host < rows_bound, name << ", medium " << i << ": " << of_host << " of the host's");
    BOOST_TEST(of_golden < rows_bound, name << ", medium " << i << ": " << of_golden << " of transformers'");
    at += kept.size();
  }
}

BOOST_DATA_TEST_CASE(bits_do_not_depend_on_blocks_other_media_or_what_was_begun,
                     data::make(golden_media_names()), name) {
  const golden_media golden(name);
  cuda_encoder encoder(golden);
  const auto first = golden.medium(0), second = golden.medium(1);
  const auto alone = encoder.encode(first, golden.rows(0), blocks_from(0));
  static_cast<void>(encoder.encode(second, golden.rows(1), blocks_from(12)));
  // One that is given up amid its layers.
  const auto given_up = blocks_from(12);
  encoder.media().begin(second, given_up);
  for (int slice = 0; slice < 2; ++slice) BOOST_REQUIRE(!encoder.media().go_on());
  BOOST_TEST((encoder.encode(first, golden.rows(0), blocks_from(6)) == alone), name << ": after others");
  cuda_encoder pageable(golden, false);
  BOOST_TEST((pageable.encode(first, golden.rows(0), blocks_from(3)) == alone),
             name << ": without pinned memory");
}

BOOST_AUTO_TEST_CASE(a_window_may_be_larger_than_any_view) {
  golden_media golden("qwen25");
  const auto picture = golden.medium(0);
  golden.tower.spec.window = 64;
  cuda_encoder one(golden);
  const auto whole = one.encode(picture, golden.rows(0), blocks_from(0));
  golden.tower.spec.window = 65'536;  // whose square is more than 32 bits hold
  cuda_encoder other(golden);
  BOOST_TEST((other.encode(picture, golden.rows(0), blocks_from(0)) == whole));
}

BOOST_DATA_TEST_CASE(logits_behind_media_are_those_of_the_host_and_no_chunk_changes_a_bit,
                     data::make(golden_media_names()), name) {
  const golden_media golden(name);
  if (!runs(golden)) return;
  const auto expected = golden_floats(name + ".logits.f32");
  const std::uint32_t vocab = golden.text.spec.vocab;
  const auto positions = positions_of(golden);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (sees_behind(golden, positions[i])) continue;  // a step has all of them
    const auto device = load_cuda(golden, {.chunk_tokens = 64}, 1);
    const auto whole = golden_logits(*device, golden, positions[i], 64);
    const double of_host = relative_error(whole, host_logits(golden, positions[i]));
    const double of_golden = relative_error(whole, std::span(expected).subspan(i * vocab, vocab));
    std::printf("%s at %u: relative error %.2e against the host, %.2e against transformers\n", name.c_str(),
                positions[i], of_host, of_golden);
    // What stands at a row of a medium is the row, which may itself be off; no answer is read there.
    const double bound = prompt_behind(golden).tokens[positions[i]] < 0 ? rows_bound : logits_bound;
    BOOST_TEST(of_host < bound, name << " at " << positions[i] << ": " << of_host << " of the host's");
    BOOST_TEST(of_golden < bound, name << " at " << positions[i] << ": " << of_golden << " of transformers'");
    // A token at a time, which is a decode step where it is no row of a medium.
    for (const std::uint32_t chunk : {5U, 1U}) {
      device->release(engine::slot_id{0});
      BOOST_TEST((golden_logits(*device, golden, positions[i], chunk) == whole),
                 name << " at " << positions[i] << ": steps of " << chunk << " change the bits");
    }
  }
}

/// The same prompt in three slots at different paces, and as many kernels, graphs or one.
BOOST_DATA_TEST_CASE(neighbours_slots_and_graphs_change_no_bit, data::make(golden_media_names()), name) {
  const golden_media golden(name);
  if (!runs(golden)) return;
  const std::uint32_t last = positions_of(golden).back();
  const auto alone = load_cuda(golden, {.chunk_tokens = 64, .graphs = false, .one_kernel = 0}, 1);
  const auto expected = golden_logits(*alone, golden, last, 1);
  const auto device = load_cuda(golden, {.chunk_tokens = 64}, 3);
  const engine::interrupt_flag interrupt{false};
  std::vector<engine::sampled_token> sampled;
  std::vector<std::unique_ptr<golden_sequence>> sequences;
  for (std::uint32_t slot = 0; slot < 3; ++slot) {
    sequences.push_back(std::make_unique<golden_sequence>(golden, slot, slot * golden_sequence::blocks));
    sequences.back()->encode(*device);
  }
  constexpr std::uint32_t paces[] = {1, 7, 30};
  const auto goes_on = [&](std::uint32_t slot) { return sequences[slot]->position() <= last; };
  while (goes_on(0) || goes_on(1) || goes_on(2)) {
    std::vector<engine::sequence_step> steps;
    for (std::uint32_t slot = 0; slot < 3; ++slot)
      if (goes_on(slot)) steps.push_back(sequences[slot]->next(last, paces[slot]));
    BOOST_REQUIRE(device->step(steps, interrupt, sampled));
    for (std::uint32_t slot = 0; slot < 3; ++slot) {
      const auto logits = device->logits(engine::slot_id{slot});
      if (std::none_of(steps.begin(), steps.end(), [&](const engine::sequence_step& step) {
            return step.slot == engine::slot_id{slot} && step.sample != nullptr;
          }))
        continue;
      BOOST_TEST(std::ranges::equal(logits, expected), name << ": slot " << slot << " has other bits");
    }
  }
}

/// What is fed back on the device behind a medium is turned as what the host sends.
BOOST_DATA_TEST_CASE(tokens_that_are_fed_back_go_on_behind_media,
                     data::make({"qwen2", "qwen3", "gemma3", "pixtral"}), name) {
  const golden_media golden(name);
  if (!runs(golden)) return;
  const std::uint32_t last = positions_of(golden).back();
  engine::sequence_media media;
  media.set(prompt_behind(golden).media);
  const std::uint32_t shift = media.rotary_shift(last + 1);
  const engine::sampling_params greedy{.temperature = 0.0F};
  const engine::sample_request ask{.params = &greedy, .remaining = 100};
  const engine::interrupt_flag interrupt{false};
  constexpr std::uint32_t more = 6;
  std::map<bool, std::vector<engine::token_id>> tokens;
  std::map<bool, std::vector<float>> logits;
  for (const bool fed_back : {true, false}) {
    const auto device = load_cuda(golden, {.chunk_tokens = 64}, 1);
    static_cast<void>(golden_logits(*device, golden, last - 1, 64));
    std::vector<engine::token_id> next{prompt_behind(golden).tokens[last]};
    for (std::uint32_t i = 0; i <= more; ++i) {
      engine::sequence_step step{engine::slot_id{0}, last + i, {}, &ask};
      if (!fed_back || i == 0) step.tokens = std::span(next).last(1);
      step.rotary_shift = shift;
      std::vector<engine::sampled_token> sampled;
      BOOST_REQUIRE(device->step({&step, 1}, interrupt, sampled));
      next.push_back(sampled.at(0).token);
    }
    tokens[fed_back] = next;
    const auto row = device->logits(engine::slot_id{0});
    logits[fed_back].assign(row.begin(), row.end());
  }
  BOOST_TEST(tokens[true] == tokens[false], boost::test_tools::per_element());
  BOOST_TEST((logits[true] == logits[false]), name);
}

BOOST_AUTO_TEST_CASE(what_is_planned_is_what_is_allocated_and_watched) {
  const golden_media golden("qwen3");
  const auto device = load_cuda(golden, {.chunk_tokens = 64}, 2);
  BOOST_TEST(device->media_blocks() == 2 * golden_sequence::blocks);
  const auto failures = device->audit();
  BOOST_TEST(failures.empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
