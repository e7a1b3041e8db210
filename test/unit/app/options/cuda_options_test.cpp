// What the options say about the CUDA backend: whether it was built, and the one flag without a value.
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "app/options/parse_options.hpp"

namespace {

using namespace orcd;

engine::result<app::command> parse(std::vector<std::string> args, const app::environment& env,
                                   const std::string& file) {
  args.insert(args.begin(), {"--model", "m.gguf"});
  return app::parse_options(args, env,
                            [&](const std::string&) -> engine::result<std::string> { return file; });
}

app::options accepted(std::vector<std::string> args, const app::environment& env = {},
                      const std::string& file = {}) {
  const auto parsed = parse(std::move(args), env, file);
  BOOST_REQUIRE_MESSAGE(parsed.has_value(), (parsed ? "" : parsed.error().message));
  return parsed->opts;
}

std::string why_not(std::vector<std::string> args, const app::environment& env = {}) {
  const auto parsed = parse(std::move(args), env, {});
  return parsed ? "accepted" : parsed.error().message;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_options)

BOOST_AUTO_TEST_CASE(the_version_says_which_backends_were_built) {
  const auto text = app::version_text();
#ifdef ORCD_HAS_CUDA
  BOOST_TEST(contains(text, "\nbackends: cuda, host\n"), text);
#else
  BOOST_TEST(contains(text, "\nbackends: host\n"), text);
#endif
}

BOOST_AUTO_TEST_CASE(no_pinned_needs_no_value_on_the_command_line) {
  BOOST_TEST(!accepted({}).no_pinned);
  BOOST_TEST(accepted({"--no-pinned"}).no_pinned);
  BOOST_TEST(accepted({"--no-pinned", "--slots", "2"}).slots == 2U);
  BOOST_TEST(accepted({"--no-pinned=true"}).no_pinned);
  BOOST_TEST(!accepted({"--no-pinned=false"}, {{"WORKER_ORCD_NO_PINNED", "true"}}).no_pinned);
  BOOST_TEST(accepted({}, {{"WORKER_ORCD_NO_PINNED", "true"}}).no_pinned);
  BOOST_TEST(accepted({"--config", "/c"}, {}, "no-pinned = true").no_pinned);
  BOOST_TEST(contains(why_not({"--no-pinned=yes"}), "true or false"));
  BOOST_TEST(contains(why_not({}, {{"WORKER_ORCD_NO_PINNED", ""}}), "true or false"));
}

// The requirements write both.
BOOST_AUTO_TEST_CASE(gpu_is_a_second_name_of_gpu_device_wherever_options_are_read) {
  BOOST_TEST(accepted({"--gpu", "3"}).gpu.index == 3U);
  BOOST_TEST(accepted({"--gpu=3"}).gpu.index == 3U);
  BOOST_TEST(accepted({}, {{"WORKER_ORCD_GPU", "4"}}).gpu.index == 4U);
  BOOST_TEST(accepted({"--config", "/c"}, {}, "gpu = 5").gpu.index == 5U);
  BOOST_TEST(
      accepted({"--gpu", "3", "--config", "/c"}, {{"WORKER_ORCD_GPU_DEVICE", "4"}}, "gpu = 5").gpu.index ==
      3U);
  BOOST_TEST(accepted({"--config", "/c"}, {{"WORKER_ORCD_GPU_DEVICE", "4"}}, "gpu = 5").gpu.index == 4U);
  BOOST_TEST(contains(why_not({"--gpu", "3", "--gpu-device", "3"}), "--gpu-device is given more than once"));
  BOOST_TEST(contains(why_not({"--gpu", "first"}), "--gpu-device must be"));
  BOOST_TEST(contains(app::help_text(), "also --gpu"));
}

BOOST_AUTO_TEST_CASE(two_names_of_one_option_in_a_file_or_the_environment_are_not_taken_for_two_options) {
  const auto twice = parse({"--config", "/c"}, {}, "gpu = 1\ngpu-device = 2");
  BOOST_REQUIRE(!twice);
  BOOST_TEST(contains(twice.error().message, "'gpu-device' is given more than once"));
  const auto both = accepted({}, {{"WORKER_ORCD_GPU", "1"}, {"WORKER_ORCD_GPU_DEVICE", "2"}});
  BOOST_TEST(both.gpu.index == 1U);
  BOOST_REQUIRE(both.warnings.size() == 1U);
  BOOST_TEST(contains(both.warnings.front(), "WORKER_ORCD_GPU_DEVICE"));
}

BOOST_AUTO_TEST_CASE(a_start_does_not_wait_for_a_gpu_unless_it_is_told_to) {
  BOOST_TEST(accepted({}).gpu_wait_sec == 0U);
  BOOST_TEST(accepted({}, {{"WORKER_ORCD_GPU_WAIT_SEC", "30"}}).gpu_wait_sec == 30U);
}

BOOST_AUTO_TEST_CASE(verify_is_off_unless_it_is_given) {
  BOOST_TEST(!accepted({}).verify);
  BOOST_TEST(accepted({"--verify"}).verify);
  BOOST_TEST(accepted({"--config", "/c"}, {}, "verify = true").verify);
  BOOST_TEST(!accepted({"--verify=false"}, {{"WORKER_ORCD_VERIFY", "true"}}).verify);
  BOOST_TEST(contains(why_not({"--verify=1"}), "true or false"));
}

BOOST_AUTO_TEST_SUITE_END()
