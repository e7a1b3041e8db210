// Layers with a window that keep only what they read, on the GPU: the same bytes as from a cache of all
// positions, and no page left behind.
#include <boost/test/unit_test.hpp>
#include <memory>
#include <vector>

#include "gpu/cuda/cuda_backend.hpp"
#include "test/gpu/cuda/generated_cuda_model.hpp"
#include "test/support/windowed_jobs.hpp"
#include "test/unit/gpu/tiny_backend.hpp"

namespace orcd::test {
namespace {

/// gpt-oss with a window shorter than a page and longer than one, and files of families with windows.
std::vector<tiny_case> windowed_models() {
  std::vector<tiny_case> out;
  for (const std::uint32_t window : {128U, 257U, 300U}) {
    tiny_case c{.name = "gpt-oss, a window of " + std::to_string(window),
                .options = generated_shapes().at("gpt-oss")};
    c.options.window = window;
    c.options.context = windowed_context;
    out.push_back(c);
  }
  for (const char* file : {"gemma2", "gemma3", "cohere2", "gemma4-inputs"}) {
    tiny_case c{.name = file, .options = {}};
    c.options.file = file;
    out.push_back(c);
  }
  return out;
}

windowed_source source_of(const tiny_case& c) {
  const auto from = std::make_shared<tiny_backend>(c.options);
  return {c.name, from->model().spec.vocab,
          [from](std::uint32_t count, std::uint32_t seed) { return from->prompt(count, seed); },
          [from](const windowed_setting& s) {
            gpu::cuda_backend_options options;
            options.end = gpu::device_end::keep;
            options.chunk_tokens = s.chunk;
            options.keep_logits = s.slots == 1;
            auto device = gpu::make_cuda_backend(options);
            const auto loaded = device->load(from->model(), s.config(), [](unsigned) {});
            BOOST_REQUIRE_MESSAGE(loaded.has_value(), (loaded ? "" : loaded.error().message));
            return device;
          }};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_windows)

BOOST_AUTO_TEST_CASE(a_hit_at_a_boundary_of_any_kind_changes_no_bit) {
  for (const tiny_case& c : windowed_models()) check_hits(source_of(c), 64);
}

BOOST_AUTO_TEST_CASE(however_prompts_are_cut) {
  for (const std::uint32_t chunk : {3U, 200U}) check_hits(source_of(windowed_models()[2]), chunk);
}

BOOST_AUTO_TEST_CASE(preempted_and_interrupted_jobs_and_drafts_change_none) {
  // Fewer pages of group 0 would be none of a window.
  check_long_jobs(source_of(windowed_models()[0]), 10);
  check_long_jobs(source_of(windowed_models()[2]), 12);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
