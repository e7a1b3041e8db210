// Same bytes where layers with a window keep only what they read: hits at boundaries of every kind, prompts
// cut anyhow, jobs that are preempted and go on, and drafts give what a cache of all positions gives that
// shares nothing.
#include <boost/test/unit_test.hpp>
#include <memory>
#include <vector>

#include "gpu/host/host_backend.hpp"
#include "test/support/windowed_jobs.hpp"
#include "test/unit/gpu/tiny_backend.hpp"

using namespace orcd;
using test::windowed_setting;
using test::windowed_source;

namespace {

/// Those of every_tiny_model() that have windows, and some whose windows reach over pages.
std::vector<test::tiny_case> windowed_models() {
  std::vector<test::tiny_case> out;
  for (const std::uint32_t window : {8U, 257U, 300U}) {
    test::tiny_case c{.name = "gpt-oss, a window of " + std::to_string(window), .options = {}};
    c.options.family = "gpt-oss";
    c.options.window = window;
    c.options.context = test::windowed_context;
    out.push_back(c);
  }
  for (const char* file :
       {"gemma2", "gemma3", "cohere2", "olmo3", "exaone4-windows", "gemma4-inputs", "gemma4-odd"}) {
    test::tiny_case c{.name = file, .options = {}};
    c.options.file = file;
    out.push_back(c);
  }
  return out;
}

windowed_source source_of(const test::tiny_case& c) {
  const auto from = std::make_shared<test::tiny_backend>(c.options);
  return {c.name, from->model().spec.vocab,
          [from](std::uint32_t count, std::uint32_t seed) { return from->prompt(count, seed); },
          [from](const windowed_setting& s) {
            auto device =
                gpu::make_host_backend({.threads = 1, .chunk_tokens = s.chunk, .launch_depth = s.depth});
            (void)device->load(from->model(), s.config(), [](unsigned) {}).value();
            return device;
          }};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(window_bits)

BOOST_AUTO_TEST_CASE(a_hit_at_a_boundary_of_any_kind_changes_no_bit) {
  for (const test::tiny_case& c : windowed_models()) test::check_hits(source_of(c), 64);
}

BOOST_AUTO_TEST_CASE(however_prompts_are_cut) {
  for (const std::uint32_t chunk : {3U, 16U, 500U}) test::check_hits(source_of(windowed_models()[2]), chunk);
}

BOOST_AUTO_TEST_CASE(preempted_and_interrupted_jobs_and_drafts_change_none) {
  // Fewer pages of group 0 would be none of a window.
  test::check_long_jobs(source_of(windowed_models()[0]), 10);
  test::check_long_jobs(source_of(windowed_models()[2]), 12);
}

BOOST_AUTO_TEST_SUITE_END()
