// What the C API is made of, on the host backend: loading, one inference at a time, texts that fit the
// caller's buffer, and every order of ending.
#include "gpu/capi/embedded_model.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <limits>
#include <string>

#include "gpu/host/host_backend.hpp"
#include "test/support/temporary_directory.hpp"
#include "test/support/tiny_model.hpp"
#include "test/support/watched_thread.hpp"

namespace orcd::test {
namespace {

using engine::errc;

std::unique_ptr<engine::accelerator> host(std::uint64_t kv_bytes_max = 0) {
  gpu::host_backend_options options;
  options.threads = 1;
  options.kv_bytes_max = kv_bytes_max;
  return gpu::make_host_backend(options);
}

struct tiny_file {
  tiny_file() {
    tiny_model_options options;
    options.context = 256;
    write_file(path, make_tiny_model(options));
  }
  temporary_directory folder;
  std::string path = folder.path() / "tiny.gguf";
};

struct loaded : tiny_file {
  std::shared_ptr<gpu::embedded_model> model =
      gpu::embedded_model::load(path, host(), std::numeric_limits<std::uint32_t>::max()).value();
};

gpu::inference_request ask(int max_tokens = 24, float temperature = 0, std::uint64_t seed = 1) {
  return {
      .prompt = "the quick brown fox", .max_tokens = max_tokens, .temperature = temperature, .seed = seed};
}

/// Everything an inference says, in pieces of at most `bytes_max`; checks what holds of every piece.
std::string read_all(gpu::inference& run, std::size_t bytes_max = 255) {
  std::string text;
  std::uint32_t index = 0;
  for (;;) {
    const auto piece = run.next(bytes_max);
    BOOST_REQUIRE_MESSAGE(piece, (piece ? "" : piece.error().message));
    if (!*piece) return text;
    BOOST_TEST_REQUIRE(!(*piece)->text.empty());
    BOOST_TEST_REQUIRE((*piece)->text.size() <= bytes_max);
    BOOST_TEST_REQUIRE((*piece)->index >= index);
    index = (*piece)->index;
    text += (*piece)->text;
  }
}

std::string answer(gpu::embedded_model& model, const gpu::inference_request& request,
                   std::size_t bytes_max = 255) {
  const auto run = model.start(request).value();
  auto text = read_all(*run, bytes_max);
  model.end(*run);
  return text;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(embedded_model)

BOOST_AUTO_TEST_CASE(a_model_that_makes_embeddings_is_refused) {
  tiny_model_options options;
  options.family = "bert";
  const temporary_directory folder;
  const std::string path = folder.path() / "bert.gguf";
  write_file(path, make_tiny_model(options));
  const auto model = gpu::embedded_model::load(path, host(), std::numeric_limits<std::uint32_t>::max());
  BOOST_TEST_REQUIRE(model.has_error());
  BOOST_TEST((model.error().code == errc::model_load_failed));
  BOOST_TEST(model.error().message.find("embeddings") != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(the_same_request_gives_the_same_text_in_any_pieces, loaded) {
  const auto text = answer(*model, ask());
  BOOST_TEST(!text.empty());
  BOOST_TEST(answer(*model, ask()) == text);
  BOOST_TEST(answer(*model, ask(), 4) == text);
  const auto drawn = answer(*model, ask(24, 1.5F, 7));
  BOOST_TEST(answer(*model, ask(24, 1.5F, 7)) == drawn);
  BOOST_TEST(answer(*model, ask(24, 1.5F, 8)) != drawn);
}

BOOST_AUTO_TEST_CASE(models_with_states_and_with_pictures_give_the_same_text_again) {
  for (const char* name : {"families/qwen35", "families/lfm2", "families/nemotron_h", "media/qwen3vl"}) {
    const auto model = gpu::embedded_model::load(std::string(ORCD_TEST_DATA "/") + name + ".gguf", host(),
                                                 std::numeric_limits<std::uint32_t>::max());
    BOOST_REQUIRE_MESSAGE(model, name << (model ? "" : ": " + model.error().message));
    const auto text = answer(**model, ask(12, 1.0F, 3));
    BOOST_TEST(answer(**model, ask(12, 1.0F, 3)) == text, name);
    BOOST_TEST(answer(**model, ask(12, 1.0F, 4)) != text, name);
  }
}

BOOST_FIXTURE_TEST_CASE(the_end_stays_the_end, loaded) {
  const auto run = model->start(ask(3)).value();
  read_all(*run);
  BOOST_TEST(!run->next(255).value().has_value());
  model->end(*run);
  BOOST_TEST(!run->next(255).value().has_value());
}

BOOST_FIXTURE_TEST_CASE(one_inference_at_a_time_until_it_is_freed, loaded) {
  const auto first = model->start(ask(200)).value();
  const auto second = model->start(ask());
  BOOST_REQUIRE(!second);
  BOOST_TEST(second.error().message.find("not freed") != std::string::npos);
  model->end(*first);  // in the middle
  BOOST_TEST(!answer(*model, ask()).empty());
}

BOOST_FIXTURE_TEST_CASE(bad_requests_are_refused_with_limit_and_value, loaded) {
  const auto refused = [&](gpu::inference_request request, const std::string& part) {
    const auto run = model->start(request);
    BOOST_REQUIRE(!run);
    BOOST_TEST(
        (run.error().code == errc::invalid_request || run.error().code == errc::context_length_exceeded));
    BOOST_TEST(run.error().message.find(part) != std::string::npos, run.error().message);
  };
  refused(ask(0), "max_tokens is 0");
  refused(ask(std::numeric_limits<int>::min()), "max_tokens is -2147483648");
  refused(ask(std::numeric_limits<int>::max()), "the context holds 256");
  refused(ask(1, -0.5F), "temperature");
  refused(ask(1, 2.01F), "temperature");
  refused(ask(1, std::numeric_limits<float>::quiet_NaN()), "temperature");
  refused(ask(1, std::numeric_limits<float>::infinity()), "temperature");
  auto request = ask();
  request.prompt = "";
  refused(request, "empty");
  request.prompt = "\xC3\x28";
  refused(request, "UTF-8");
  const std::string large((16 << 20) + 1, 'a');
  request.prompt = large;
  refused(request, "16777216");
  BOOST_TEST(!answer(*model, ask()).empty(), "a refusal leaves nothing behind");
}

BOOST_FIXTURE_TEST_CASE(unloading_ends_what_runs_and_the_caller_is_told, loaded) {
  const auto run = model->start(ask(200)).value();
  model->close();
  model.reset();
  // What was computed is there; then the end is an error, again and again.
  auto piece = run->next(255);
  while (piece && *piece) piece = run->next(255);
  if (!piece) BOOST_TEST(!run->next(255).has_value());
}

BOOST_FIXTURE_TEST_CASE(a_waiting_thread_is_woken_by_the_unloading, loaded) {
  const std::shared_ptr<gpu::inference> run = model->start(ask(230)).value();
  watched_thread reader([run] {
    for (auto piece = run->next(255); piece && *piece; piece = run->next(255)) {
    }
  });
  watched_thread unloader([m = model] { m->close(); });
  BOOST_TEST(unloader.ends_within(std::chrono::seconds(60)));
  BOOST_TEST(reader.ends_within(std::chrono::seconds(60)));
}

BOOST_FIXTURE_TEST_CASE(the_host_backend_is_not_resident_in_vram_and_says_nothing_else, loaded) {
  BOOST_TEST(model->vram_bytes() == 0U);
  BOOST_TEST(model->audit().empty());
}

BOOST_FIXTURE_TEST_CASE(the_context_is_the_smaller_of_the_models_and_the_limit, tiny_file) {
  const auto model = gpu::embedded_model::load(path, host(), 32).value();
  const auto run = model->start(ask(100));
  BOOST_REQUIRE(!run);
  BOOST_TEST(run.error().message.find("the context holds 32") != std::string::npos, run.error().message);
}

BOOST_FIXTURE_TEST_CASE(a_load_that_fails_is_an_error, tiny_file) {
  const auto nowhere = gpu::embedded_model::load(path + ".no", host(), 256);
  BOOST_REQUIRE(!nowhere);
  BOOST_TEST((nowhere.error().code == errc::model_load_failed));
  const auto no_memory = gpu::embedded_model::load(path, host(1), 256);
  BOOST_REQUIRE(!no_memory);
  BOOST_TEST((no_memory.error().code == errc::insufficient_vram), no_memory.error().message);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
