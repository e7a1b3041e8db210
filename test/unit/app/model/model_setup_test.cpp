// What is decided about a model before its weights are loaded, and the digest of its file.
#include "app/model/model_setup.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <span>
#include <string>
#include <vector>

#include "app/identity/model_digest.hpp"
#include "engine/base/sha256.hpp"
#include "test/support/gguf_writer.hpp"
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

BOOST_AUTO_TEST_CASE(what_a_file_suppresses_is_banned_but_for_ends) {
  test::gguf_writer writer;
  writer.add("tokenizer.ggml.suppress_tokens", std::vector<std::int32_t>{1, 4, 6, -1, 7});
  const auto image = writer.build();
  const auto file = engine::gguf_file::parse(image, "test.gguf").value();
  const listed_tokenizer tokenizer({"a", "<image|>", "b", "c", "<|end|>"});
  std::vector<std::int64_t> types{1, 1, 5};
  BOOST_REQUIRE(engine::add_suppressed_tokens(file, 7, types).has_value());
  BOOST_TEST(engine::banned_tokens(tokenizer, 7, types) == (std::vector<token_id>{1, 2, 5, 6}),
             boost::test_tools::per_element());
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
  const auto header = app::header_digest(file);
  app::options opts;
  const auto first = app::system_fingerprint(opts, header, {"1", "2"});
  opts.tokenizer = "/somewhere/else/tokenizer.json";
  opts.chat_template = "/somewhere/else/template.jinja";
  BOOST_TEST(app::system_fingerprint(opts, header, {"1", "2"}) == first);
  BOOST_TEST(app::system_fingerprint(opts, header, {"3", "2"}) != first);
  BOOST_TEST(app::system_fingerprint(opts, header, {"1", "3"}) != first);
  BOOST_TEST(app::system_fingerprint(opts, header, {"12", ""}) != first);
  // A copy of the projector's file is the same one: which file it is does not count.
  const auto seeing = app::system_fingerprint(opts, header, {"1", "2", "", "one file", "the header"});
  BOOST_TEST(seeing != first);
  BOOST_TEST(app::system_fingerprint(opts, header, {"1", "2", "", "a copy", "the header"}) == seeing);
}

// Nothing of the version is in it: engines of different ones share weights.
BOOST_AUTO_TEST_CASE(versions_of_one_contract_have_the_same_numerics) {
  const app::options opts;
  const std::string arithmetic =
      "answers " + std::to_string(app::answers_contract) + "\ncuda\n-1\n\n\n\n\n\n\n\n\nf16 f16\n";
  BOOST_TEST(app::numerics_id(opts) == engine::sha256_of(arithmetic));
}

BOOST_AUTO_TEST_CASE(a_header_is_all_that_stands_before_the_first_weight) {
  auto image = test::make_tiny_model({});
  const auto header_of = [](const auto& bytes) {
    return app::header_digest(engine::gguf_file::parse(bytes, "tiny").value());
  };
  const auto usual = header_of(image);
  auto other = image;
  other.back() ^= std::byte{1};  // a weight
  BOOST_TEST(header_of(other) == usual);
}

BOOST_AUTO_TEST_SUITE_END()
