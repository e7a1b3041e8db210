// Pages that were computed for one sequence and are taken over by another, bit for bit: whole ones,
// beginnings of them copied on the device, tables in any order; and that a cleared page shows nothing.
#include <algorithm>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <random>

#include "engine/gguf/gguf_file.hpp"
#include "engine/model/model_spec.hpp"
#include "engine/schedule/scheduler.hpp"
#include "gpu/cuda/cuda_backend.hpp"
#include "test/support/recording_sink.hpp"
#include "test/support/temporary_directory.hpp"
#include "test/support/tiny_model.hpp"

namespace orcd::test {
namespace {

using engine::kv_type;
using engine::token_id;
namespace data = boost::unit_test::data;

constexpr std::uint32_t context = 1280;

std::vector<token_id> tokens_of(std::size_t count, std::uint32_t vocab, unsigned seed) {
  std::minstd_rand random(seed);
  std::vector<token_id> out(count);
  for (auto& token : out) token = static_cast<token_id>(random() % vocab);
  return out;
}

/// A generated model on the GPU with the scheduler over it.
class served_model {
 public:
  served_model(const std::string& path, engine::kv_types kv, std::uint32_t pages, bool share,
               std::uint32_t slots)
      : file_(engine::gguf_file::open(path).value()), model_(engine::load_model(file_, context, {}).value()) {
    gpu::cuda_backend_options options;
    options.keep_logits = true;
    options.end = gpu::device_end::keep;
    options.chunk_tokens = 128;
    device_ = gpu::make_cuda_backend(options);
    engine::accelerator_config config;
    config.slots = slots;
    config.context_tokens = context;
    config.kv = kv;
    config.kv_pages = pages;
    const auto loaded = device_->load(model_, config, [](unsigned) {});
    BOOST_REQUIRE_MESSAGE(loaded.has_value(), (loaded ? "" : loaded.error().message));
    engine::scheduler_config schedule;
    schedule.slots = slots;
    schedule.cache = {.share = share, .tokens_min = 1};
    loop_ = std::make_unique<engine::scheduler>(*device_, schedule);
  }

  std::shared_ptr<recording_sink> submit(const std::string& id, std::vector<token_id> prompt) {
    engine::job_request job;
    job.job_id = id;
    job.prompt = std::move(prompt);
    job.max_tokens = 5;
    job.seed = 3;
    job.ignore_eos = true;
    job.sampling.temperature = 0.9F;
    job.sampling.repetition_penalty = 1.2F;
    job.sampling.repeat_last_n = 700;  // looks back into what was not computed
    auto sink = std::make_shared<recording_sink>();
    loop_->submit(std::move(job), sink);
    return sink;
  }
  void finish() {
    while (loop_->run_step()) {
    }
  }
  [[nodiscard]] std::vector<float> logits() const {
    const auto row = device_->logits(engine::slot_id{0});
    return {row.begin(), row.end()};
  }
  /// Of a sequence on one page that is said to hold some tokens, after more.
  std::vector<float> logits_after(std::span<const token_id> held, std::span<const token_id> tokens,
                                  engine::kv_page page) {
    const engine::interrupt_flag never{false};
    const engine::sampling_params greedy{.temperature = 0.0F};
    engine::sample_request request;
    request.params = &greedy;
    device_->begin({engine::slot_id{0}, {&page, 1}, held});
    const engine::sequence_step step{engine::slot_id{0}, static_cast<std::uint32_t>(held.size()), tokens,
                                     &request};
    std::vector<engine::sampled_token> sampled;
    BOOST_REQUIRE(device_->step({&step, 1}, never, sampled));
    auto out = logits();
    device_->release(engine::slot_id{0});
    return out;
  }
  void clear(engine::kv_page page) { device_->clear(0, {&page, 1}); }
  [[nodiscard]] std::uint32_t vocab() const noexcept { return model_.spec.vocab; }
  [[nodiscard]] engine::kv_cache_counts counts() const { return loop_->counts().cache; }

 private:
  engine::gguf_file file_;
  engine::model model_;
  std::unique_ptr<engine::accelerator> device_;
  std::unique_ptr<engine::scheduler> loop_;
};

struct model_file {
  explicit model_file(const std::string& family) {
    tiny_model_options options;
    options.family = family;
    options.embedding = 256;
    options.heads = 4;
    options.head_dim = 64;
    options.ffn = 512;
    options.context = context;
    if (family == "gpt-oss") options.window = 300;
    const bytes image = make_tiny_model(options);
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(image.data()), static_cast<std::streamsize>(image.size()));
    out.close();
    BOOST_REQUIRE(out.good());
  }
  temporary_directory folder;
  std::string path = folder.file("model.gguf");
};

const std::vector<std::string> families{"llama", "gpt-oss"};
const std::vector<std::string> types{"f16", "bf16", "q8_0"};

kv_type type_of(const std::string& name) {
  for (const kv_type type : {kv_type::f16, kv_type::bf16}) {
    if (name == engine::to_string(type)) return type;
  }
  return kv_type::q8_0;
}

std::vector<token_id> branch(std::uint32_t length, std::uint32_t rest, std::uint32_t vocab) {
  auto out = tokens_of(900, vocab, 1);
  out.resize(length);
  const auto tail = tokens_of(rest, vocab, length + 2);
  out.insert(out.end(), tail.begin(), tail.end());
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_pages)

BOOST_DATA_TEST_CASE(a_hit_changes_no_bit, data::make(families) * data::make(types), family, name) {
  const model_file file(family);
  const kv_type type = type_of(name);
  const kv_type other = type == kv_type::q8_0 ? kv_type::f16 : type;
  served_model cold(file.path, {type, other}, 0, false, 1);
  served_model warm(file.path, {type, other}, 6, true, 1);
  std::uint32_t hits = 0;
  for (const std::uint32_t length :
       {900U, 900U, 899U, 1U, 255U, 256U, 257U, 511U, 512U, 513U, 700U, 40U, 900U}) {
    for (const std::uint32_t rest : {0U, 9U, 200U}) {
      const auto prompt = branch(length, rest, cold.vocab());
      const auto want = cold.submit("cold", prompt);
      cold.finish();
      const auto got = warm.submit("warm", prompt);
      warm.finish();
      BOOST_REQUIRE(want->end() && got->end());
      hits += got->stats().tokens_cached > 0 ? 1 : 0;
      BOOST_TEST(got->tokens() == want->tokens(), boost::test_tools::per_element());
      BOOST_TEST((warm.logits() == cold.logits()),
                 family << ": " << length << " + " << rest << ", cached " << got->stats().tokens_cached);
    }
  }
  BOOST_TEST(hits > 20U);
  BOOST_TEST(warm.counts().evictions > 5U);
}

// More jobs than slots and memory for two of them: tables change while steps run ahead.
BOOST_AUTO_TEST_CASE(neighbours_with_shared_pages_change_no_bit) {
  const model_file file("llama");
  served_model cold(file.path, {}, 0, false, 1);
  served_model warm(file.path, {}, 10, true, 4);
  std::vector<std::shared_ptr<recording_sink>> want, got;
  for (std::uint32_t i = 0; i < 40; ++i) {
    const auto prompt = branch(1 + i * 131 % 900, i % 7, cold.vocab());
    want.push_back(cold.submit("cold" + std::to_string(i), prompt));
    got.push_back(warm.submit("warm" + std::to_string(i), prompt));
  }
  cold.finish();
  warm.finish();
  for (std::size_t i = 0; i < want.size(); ++i) {
    BOOST_REQUIRE(want[i]->end() && got[i]->end());
    BOOST_TEST(got[i]->tokens() == want[i]->tokens(), boost::test_tools::per_element());
  }
  BOOST_TEST(warm.counts().hits > 10U);
  BOOST_TEST(warm.counts().pages_free + warm.counts().pages_cached == 10U);
}

BOOST_DATA_TEST_CASE(a_cleared_page_shows_nothing, data::make(types), name) {
  const model_file file("llama");
  const kv_type type = type_of(name);
  served_model model(file.path, {type, type}, 5, false, 1);
  const auto secret = tokens_of(100, model.vocab(), 9);
  const std::vector<token_id> last{5};
  (void)model.logits_after({}, secret, 2);
  const auto from_secret = model.logits_after(secret, last, 2);
  model.clear(2);
  const auto from_cleared = model.logits_after(secret, last, 2);
  const auto from_fresh = model.logits_after(secret, last, 3);
  BOOST_TEST((from_cleared == from_fresh));
  BOOST_TEST((from_cleared != from_secret));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
