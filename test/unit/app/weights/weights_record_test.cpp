// What engines tell each other of their weights, and when they may use another one's.
#include "app/weights/weights_record.hpp"

#include <boost/test/unit_test.hpp>
#include <string>

#include "app/identity/model_digest.hpp"
#include "app/process/exit_code.hpp"
#include "engine/base/permanent.hpp"

namespace orcd::test {
namespace {

using app::difference;
using app::weights_record;

const weights_record theirs{"numerics", "GPU-1", "1:2:3:4", "sha256:aa"};

std::optional<std::string> not_asked() {
  BOOST_ERROR("the digest was asked for");
  return std::nullopt;
}

bool contains(const std::optional<std::string>& text, const std::string& part) {
  return text && text->find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(weights_records)

BOOST_AUTO_TEST_CASE(a_record_comes_back_from_its_text) {
  for (const auto& one : {theirs, weights_record{}, weights_record{"n", "", "1:2:3:4 5:6:7:8", ""}}) {
    const auto back = app::weights_record_of(to_text(one));
    BOOST_REQUIRE(back);
    BOOST_TEST((*back == one));
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_record_is_none) {
  const std::string good = to_text(theirs);
  for (std::size_t length = 0; length < good.size(); ++length) {
    BOOST_TEST(!app::weights_record_of(good.substr(0, length)));
  }
  BOOST_TEST(!app::weights_record_of(good + "more\n"));
  BOOST_TEST(!app::weights_record_of("worker-orcd weights 3" + good.substr(21)));
  BOOST_TEST(!app::weights_record_of(std::string(1'000'000, 'x')));
}

BOOST_AUTO_TEST_CASE(the_very_same_files_need_no_digest) {
  BOOST_TEST(!difference({"numerics", "", "1:2:3:4", ""}, theirs, not_asked));
  BOOST_TEST(!difference({"numerics", "GPU-1", "1:2:3:4", ""}, theirs, not_asked));
}

BOOST_AUTO_TEST_CASE(other_files_must_have_the_same_digest) {
  const weights_record own{"numerics", "", "1:9:3:4", ""};
  BOOST_TEST(!difference(own, theirs, [] { return std::optional<std::string>("sha256:aa"); }));
  BOOST_TEST(contains(difference(own, theirs, [] { return std::optional<std::string>("sha256:bb"); }),
                      "another model"));
  BOOST_TEST(contains(difference(own, theirs, [] { return std::optional<std::string>(); }), "none yet"));
  auto silent = theirs;
  silent.digest.clear();
  BOOST_TEST(contains(difference(own, silent, not_asked), "not known"));
  // Images in memory are not the same file.
  silent.files.clear();
  BOOST_TEST(contains(difference({"numerics", "", "", ""}, silent, not_asked), "not known"));
}

BOOST_AUTO_TEST_CASE(another_build_or_device_is_told_before_any_file_is_read) {
  BOOST_TEST(contains(difference({"other", "", "1:9:3:4", ""}, theirs, not_asked), "other options"));
  BOOST_TEST(contains(difference({"numerics", "GPU-2", "1:9:3:4", ""}, theirs, not_asked), "GPU-1"));
}

BOOST_AUTO_TEST_CASE(the_numerics_follow_what_changes_the_bits) {
  app::options opts;
  const auto usual = app::numerics_id(opts);
  BOOST_TEST(usual.size() == 64U);
  opts.port = 1;
  opts.slots = 7;
  BOOST_TEST(app::numerics_id(opts) == usual);
  auto other = opts;
  other.kv_type_k = engine::kv_type::q8_0;
  BOOST_TEST(app::numerics_id(other) != usual);
  other = opts;
  other.rope.freq_base = 5'000.0;
  BOOST_TEST(app::numerics_id(other) != usual);
  other = opts;
  other.backend = app::backend_kind::host;
  BOOST_TEST(app::numerics_id(other) != usual);
  other = opts;
  other.ffn_activation = engine::ffn_activation::relu_squared;
  BOOST_TEST(app::numerics_id(other) != usual);
}

BOOST_AUTO_TEST_CASE(a_start_that_fails_for_the_weights_has_its_own_codes) {
  using app::exit_code;
  using engine::errc;
  const auto code_of = [](errc code) { return app::start_exit_code(engine::error(code, "")); };
  BOOST_TEST((code_of(errc::stale_weights) == exit_code::stale_weights));
  BOOST_TEST((code_of(errc::weights_lost) == exit_code::weights_lost));
  BOOST_TEST((code_of(errc::model_load_failed) == exit_code::failure));
}

/// A service manager does not try these for ever.
BOOST_AUTO_TEST_CASE(a_start_that_only_other_options_cure_is_wrong_usage) {
  using engine::errc;
  for (const errc code : {errc::worker_start_failed, errc::model_load_failed, errc::insufficient_vram}) {
    BOOST_TEST((app::start_exit_code(engine::made_permanent({code, ""})) == app::exit_code::usage));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
