// What is decided about serving by the options alone: names, limits, lengths.
#include "app/options/serving_config.hpp"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <map>
#include <string>

using namespace orcd;

BOOST_AUTO_TEST_SUITE(serving_config)

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
  const auto model = app::model_limits(opts, 100'000, {});
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
  for (const auto& limits : {app::execute_limits(opts, 100), app::model_limits(opts, 100, {})}) {
    BOOST_TEST(limits.prompt_chars_max == 7U);
    BOOST_TEST(limits.tokens_out_max == 8U);
    BOOST_TEST(limits.tokens_in_max == 9U);
  }
}

BOOST_AUTO_TEST_CASE(a_file_recommends_to_all_but_execute_and_an_operator_to_all) {
  app::options opts;
  opts.sampling.top_k = 9;
  opts.seed = 5;
  engine::sampling_values file;
  file.temperature = 0.5F;
  file.top_k = 7;
  const auto settled = engine::settle_sampling(file, opts.sampling);
  const auto execute = app::execute_limits(opts, 100);
  BOOST_TEST(execute.sampling.temperature == 1.0F);
  BOOST_TEST(execute.sampling.top_k == 9U);
  const auto model = app::model_limits(opts, 100, settled);
  BOOST_TEST(model.sampling.temperature == 0.5F);
  BOOST_TEST(model.sampling.top_k == 9U);
  BOOST_TEST(model.seed.value() == 5U);
  BOOST_TEST(execute.seed.value() == 5U);
}

BOOST_AUTO_TEST_CASE(reasoning_is_told_to_templates_by_both_its_names) {
  app::options opts;
  BOOST_TEST(app::template_defaults(opts).empty());
  opts.reasoning = false;
  BOOST_TEST(app::template_defaults(opts).at("enable_thinking").as_bool() == false);
  BOOST_TEST(app::template_defaults(opts).at("thinking").as_bool() == false);
  opts.template_kwargs = R"({"enable_thinking":true,"tone":"dry"})";
  BOOST_TEST(app::template_defaults(opts).at("enable_thinking").as_bool() == true);
  BOOST_TEST(app::template_defaults(opts).at("tone").as_string() == "dry");
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

BOOST_AUTO_TEST_SUITE_END()
