// What is decided about a model before its weights are loaded, and the digest of its file.
#include "app/model_setup.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "app/model_digest.hpp"
#include "engine/sha256.hpp"
#include "test/support/tiny_model.hpp"

namespace {

using namespace orcd;
using engine::token_id;

/// A vocabulary of given pieces; the last id is end-of-generation.
class listed_tokenizer final : public engine::tokenizer {
 public:
  explicit listed_tokenizer(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {
    ends_.push_back(static_cast<token_id>(pieces_.size() - 1));
  }
  std::vector<token_id> encode(std::string_view, const engine::encode_options&) const override { return {}; }
  void append_bytes(token_id, std::string&, bool) const override {}
  std::string decode(std::span<const token_id>, bool) const override { return {}; }
  std::uint32_t vocab_size() const noexcept override { return static_cast<std::uint32_t>(pieces_.size()); }
  std::string_view piece(token_id token) const noexcept override {
    return static_cast<std::size_t>(token) < pieces_.size() ? std::string_view(pieces_[token]) : "";
  }
  bool is_end_of_generation(token_id token) const noexcept override { return token == ends_[0]; }
  bool is_control(token_id) const noexcept override { return true; }
  std::span<const token_id> end_of_generation() const noexcept override { return ends_; }
  token_id bos() const noexcept override { return -1; }
  token_id eos() const noexcept override { return ends_[0]; }
  std::string_view kind() const noexcept override { return "gguf-test"; }

 private:
  std::vector<std::string> pieces_;
  std::vector<token_id> ends_;
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(model_setup)

BOOST_AUTO_TEST_CASE(unused_absent_and_surplus_rows_are_banned_and_no_others) {
  const listed_tokenizer tokenizer({"a", "<|im_start|>", "[PAD]", "", "<|end|>"});
  // normal, control, unused, normal but empty, end-of-generation marked unused
  const std::vector<std::int64_t> types{1, 3, 5, 1, 5};
  BOOST_TEST(engine::banned_tokens(tokenizer, 7, types) == (std::vector<token_id>{2, 3, 5, 6}),
             boost::test_tools::per_element());
  BOOST_TEST(engine::banned_tokens(tokenizer, 5, {}) == (std::vector<token_id>{3}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(file_names_come_from_locations) {
  const std::map<std::string, std::string> cases{
      {"/models/Qwen2.5-0.5B-Instruct-Q4_K_M.gguf", "Qwen2.5-0.5B-Instruct-Q4_K_M"},
      {"file:///models/Phi-3.GGUF", "Phi-3"},
      {"file:/models/My%20Model%2B.gguf", "My Model+"},
      {"/models/llama3:8b.gguf", "llama3:8b"},
      {"shm:/weights", "weights"},
      {"shm:/weights:2", "weights:2"},
      {"big-00001-of-00003.gguf", "big"},
      {"big-0001-of-00003.gguf", "big-0001-of-00003"},
      {"-00001-of-00003.gguf", "-00001-of-00003"},
      {"/models/\xFF.gguf", "\xEF\xBF\xBD"},
      {".gguf", ".gguf"},
      {"plain", "plain"}};
  for (const auto& [location, name] : cases) BOOST_TEST(app::model_file_of(location) == name, location);
}

BOOST_AUTO_TEST_CASE(a_folder_s_own_name_is_found) {
  const auto here = std::filesystem::current_path();
  BOOST_TEST(app::model_file_of(".") == here.filename().string());
  BOOST_TEST(app::model_file_of("./") == here.filename().string());
  BOOST_TEST(app::model_file_of("/usr/lib/..") == "usr");
  BOOST_TEST(app::model_file_of("/none/such/..") == "..");
}

BOOST_AUTO_TEST_CASE(the_requirements_lengths_are_those_of_execute_alone) {
  app::options opts;
  const auto execute = app::execute_limits(opts, 100'000);
  BOOST_TEST(execute.prompt_chars_max == 32'768U);
  BOOST_TEST(execute.tokens_out_max == 2'048U);
  BOOST_TEST(!execute.tokens_out_is_bound);
  const auto model = app::model_limits(opts, 100'000);
  BOOST_TEST(model.prompt_chars_max > 16'777'216U);
  BOOST_TEST(model.tokens_out_max == 100'000U);
  BOOST_TEST(model.context_tokens == 100'000U);
  BOOST_TEST(model.tokens_out_is_bound);
}

BOOST_AUTO_TEST_CASE(lengths_that_an_operator_sets_are_those_of_all) {
  app::options opts;
  opts.max_prompt_chars = 7;
  opts.max_tokens_out = 8;
  opts.max_tokens_in = 9;
  for (const auto& limits : {app::execute_limits(opts, 100), app::model_limits(opts, 100)}) {
    BOOST_TEST(limits.prompt_chars_max == 7U);
    BOOST_TEST(limits.tokens_out_max == 8U);
    BOOST_TEST(limits.tokens_in_max == 9U);
  }
}

BOOST_AUTO_TEST_CASE(bodies_may_be_as_long_as_the_context_asks_for) {
  app::options opts;
  BOOST_TEST(app::body_bytes_max(opts, 2'048) == 1'048'576U);
  BOOST_TEST(app::body_bytes_max(opts, 131'072) == 4'194'304U);
  BOOST_TEST(app::body_bytes_max(opts, 1'048'576) == 33'554'432U);
  BOOST_TEST(app::body_bytes_max(opts, 4'000'000'000U) == 67'108'864U);
  opts.max_body_bytes = 5'000;
  BOOST_TEST(app::body_bytes_max(opts, 131'072) == 5'000U);
}

BOOST_AUTO_TEST_CASE(the_first_name_is_the_one_that_is_shown) {
  app::options opts;
  opts.model = "/models/Phi-3.gguf";
  BOOST_TEST(app::model_name_of(opts) == "phi-3");
  opts.model_names = {"*"};
  BOOST_TEST(app::model_name_of(opts) == "phi-3");
  opts.model_names = {"*", "Mine", "gpt-4o"};
  BOOST_TEST(app::model_name_of(opts) == "Mine");
}

BOOST_AUTO_TEST_CASE(the_public_uri_is_one_that_others_can_reach) {
  app::options opts;
  BOOST_TEST(app::public_uri(opts, 8081, "node7") == "http://127.0.0.1:8081");
  opts.host = "0.0.0.0";
  BOOST_TEST(app::public_uri(opts, 8081, "node7") == "http://node7:8081");
  opts.host = "::";
  BOOST_TEST(app::public_uri(opts, 8081, "node7") == "http://node7:8081");
  opts.host = "fd00::7";
  BOOST_TEST(app::public_uri(opts, 8081, "node7") == "http://[fd00::7]:8081");
  opts.public_uri = "https://w.example";
  BOOST_TEST(app::public_uri(opts, 8081, "node7") == "https://w.example");
}

BOOST_AUTO_TEST_CASE(a_plan_over_the_limit_is_refused_with_both_numbers) {
  app::options opts;
  engine::memory_plan plan;
  plan.weights_bytes = 1ULL << 40U;  // mapped, so it need not fit
  plan.kv_bytes = 3 << 20;
  BOOST_TEST(!app::check_plan(plan, opts, 8 << 20).has_value());
  opts.kv_cache_size_mb = 3;
  BOOST_TEST(!app::check_plan(plan, opts, 8 << 20).has_value());
  opts.kv_cache_size_mb = 2;
  const auto over = app::check_plan(plan, opts, 8 << 20);
  BOOST_REQUIRE(over.has_value());
  BOOST_TEST((over->why.code == engine::errc::insufficient_vram));
  BOOST_TEST(over->why.message.find("3145728") != std::string::npos);
  BOOST_TEST(over->why.message.find("2097152") != std::string::npos);
  BOOST_TEST(over->required_bytes.value() == 3145728U);
  BOOST_TEST(over->available_bytes.value() == 2097152U);
}

BOOST_AUTO_TEST_CASE(a_plan_over_the_machine_is_refused_with_both_numbers) {
  const app::options opts;
  engine::memory_plan plan;
  plan.kv_bytes = 1000;
  plan.workspace_bytes = 20;
  plan.logits_bytes = 3;
  BOOST_TEST(!app::check_plan(plan, opts, 1023).has_value());
  const auto over = app::check_plan(plan, opts, 1022);
  BOOST_REQUIRE(over.has_value());
  BOOST_TEST(over->required_bytes.value() == 1023U);
  BOOST_TEST(over->available_bytes.value() == 1022U);
  BOOST_TEST(app::physical_memory_bytes() > (64U << 20U));
}

BOOST_AUTO_TEST_CASE(cuda_is_made_where_it_was_built_and_else_refused_with_the_way_out) {
  app::options opts;
  const auto cuda = app::make_accelerator(opts);
#ifdef ORCD_HAS_CUDA
  // Nothing is asked of a GPU before load().
  BOOST_REQUIRE(cuda.has_value());
  BOOST_TEST(std::string((*cuda)->name()) == "cuda");
  BOOST_TEST(!(*cuda)->resident());
#else
  BOOST_REQUIRE(!cuda.has_value());
  BOOST_TEST((cuda.error().code == engine::errc::worker_start_failed));
  BOOST_TEST(cuda.error().message == "this build has no CUDA backend; use --backend host");
#endif
  opts.backend = app::backend_kind::host;
  const auto host = app::make_accelerator(opts);
  BOOST_REQUIRE(host.has_value());
  BOOST_TEST(std::string((*host)->name()) == "host");
}

BOOST_AUTO_TEST_CASE(a_missing_model_is_an_error_that_names_it) {
  app::options opts;
  opts.model = "/no/such/model.gguf";
  const auto opened = app::open_model(opts);
  BOOST_REQUIRE(!opened.has_value());
  BOOST_TEST((opened.error().code == engine::errc::model_load_failed));
  BOOST_TEST(opened.error().message.find("/no/such/model.gguf") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(digest)

BOOST_AUTO_TEST_CASE(it_is_what_sha256sum_prints) {
  // FIPS 180-2's example, whole and in parts.
  const std::string expected = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  const std::vector<std::span<const std::byte>> whole{bytes_of("abc")};
  const std::vector<std::span<const std::byte>> parts{bytes_of("a"), {}, bytes_of("bc")};
  BOOST_TEST(app::model_digest(whole, {}).value() == expected);
  BOOST_TEST(app::model_digest(parts, {}).value() == expected);
}

BOOST_AUTO_TEST_CASE(pieces_do_not_show) {
  const std::string megabytes(9'000'001, 'a');
  const std::vector<std::span<const std::byte>> whole{bytes_of(megabytes)};
  const std::string_view view(megabytes);
  const std::vector<std::span<const std::byte>> parts{bytes_of(view.substr(0, 4'194'305)),
                                                      bytes_of(view.substr(4'194'305))};
  BOOST_TEST(app::model_digest(whole, {}).value() == app::model_digest(parts, {}).value());
}

BOOST_AUTO_TEST_CASE(it_stops_when_told) {
  std::stop_source stop;
  stop.request_stop();
  const std::vector<std::span<const std::byte>> whole{bytes_of("abc")};
  BOOST_TEST(!app::model_digest(whole, stop.get_token()).has_value());
}

// Where the files lie does not matter.
BOOST_AUTO_TEST_CASE(a_fingerprint_changes_with_the_content_of_tokenizer_and_template_alone) {
  const auto image = test::make_tiny_model({});
  const auto file = engine::gguf_file::parse(image, "tiny").value();
  app::options opts;
  const auto first = app::system_fingerprint(opts, file, {"1", "2"});
  opts.tokenizer = "/somewhere/else/tokenizer.json";
  opts.chat_template = "/somewhere/else/template.jinja";
  BOOST_TEST(app::system_fingerprint(opts, file, {"1", "2"}) == first);
  BOOST_TEST(app::system_fingerprint(opts, file, {"3", "2"}) != first);
  BOOST_TEST(app::system_fingerprint(opts, file, {"1", "3"}) != first);
  BOOST_TEST(app::system_fingerprint(opts, file, {"12", ""}) != first);
  const auto maker = app::answers_maker(opts, file, {"1", "2"});
  BOOST_TEST(maker != first);
  BOOST_TEST(app::answers_maker(opts, file, {"1", "3"}) != maker);
  opts.kv_type_k = engine::kv_type::q8_0;
  BOOST_TEST(app::answers_maker(opts, file, {"1", "2"}) != maker);
}

// Nothing of the version is in these: engines of different ones share weights and go on with one another's
// streams.
BOOST_AUTO_TEST_CASE(versions_of_one_contract_have_the_same_numerics_and_make_the_same_answers) {
  const app::options opts;
  const std::string arithmetic =
      "answers " + std::to_string(app::answers_contract) + "\ncuda\n-1\n\n\n\n\n\n\n\n\nf16 f16\n";
  BOOST_TEST(app::numerics_id(opts) == engine::sha256_of(arithmetic));
  const auto image = test::make_tiny_model({});
  const auto file = engine::gguf_file::parse(image, "tiny").value();
  std::uint64_t header = image.size();
  for (const auto& tensor : file.tensors()) header = std::min(header, tensor.file_offset);
  engine::sha256 hash;
  hash.update(arithmetic + "1\n2\n" + std::to_string(image.size()) + "\n");
  hash.update(std::span(image).first(header));
  BOOST_TEST(app::answers_maker(opts, file, {"1", "2"}) == "fp_" + hash.finish().substr(0, 16));
}

BOOST_AUTO_TEST_CASE(a_fingerprint_changes_with_what_decides_the_answers) {
  const auto of = [](const test::bytes& image, const app::options& opts) {
    return app::system_fingerprint(opts, engine::gguf_file::parse(image, "tiny").value(), {});
  };
  const auto image = test::make_tiny_model({});
  app::options opts;
  const auto first = of(image, opts);
  BOOST_TEST(first.size() == 19U);
  BOOST_TEST(first.starts_with("fp_"));
  BOOST_TEST(of(image, opts) == first);
  // The weights are what the digest is for.
  auto weights = image;
  weights.back() ^= std::byte{1};
  BOOST_TEST(of(weights, opts) == first);
  opts.port = 9000;
  opts.slots = 4;
  BOOST_TEST(of(image, opts) == first);

  test::tiny_model_options other;
  other.context = 128;
  BOOST_TEST(of(test::make_tiny_model(other), opts) != first);
  opts.rope.freq_base = 5e5;
  const auto roped = of(image, opts);
  BOOST_TEST(roped != first);
  opts.rope.freq_base.reset();
  opts.rope.freq_scale = 5e5;
  BOOST_TEST(of(image, opts) != roped);
  opts.rope.freq_scale.reset();
  opts.kv_type_k = engine::kv_type::q8_0;
  const auto keys = of(image, opts);
  BOOST_TEST(keys != first);
  std::swap(opts.kv_type_k, opts.kv_type_v);
  BOOST_TEST(of(image, opts) != first);
  BOOST_TEST(of(image, opts) != keys);
  opts.kv_type_v = engine::kv_type::f16;
  BOOST_TEST(of(image, opts) == first);
  opts.backend = app::backend_kind::host;
  BOOST_TEST(of(image, opts) != first);
}

BOOST_AUTO_TEST_SUITE_END()
