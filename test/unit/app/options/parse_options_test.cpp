// Options: every source, their order, every range, and the sentence a wrong value gets.
#include "app/options/parse_options.hpp"

#include <sys/stat.h>

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "app/options/option_table.hpp"
#include "test/support/temporary_directory.hpp"

namespace {

using namespace orcd;
using app::command;
using app::options;

engine::result<std::string> no_file(const std::string& path) {
  BOOST_ERROR("no file should be read, but " + path + " was");
  return engine::error{engine::errc::internal, "unexpected"};
}

/// Parses `args` with --model m.gguf in front.
engine::result<command> parse(std::vector<std::string> args, const app::environment& env = {},
                              const app::file_reader& read = no_file) {
  args.insert(args.begin(), {"--model", "m.gguf"});
  return app::parse_options(args, env, read);
}

options accepted(std::vector<std::string> args, const app::environment& env = {},
                 const app::file_reader& read = no_file) {
  const auto parsed = parse(std::move(args), env, read);
  BOOST_REQUIRE_MESSAGE(parsed.has_value(), (parsed ? "" : parsed.error().message));
  BOOST_REQUIRE(parsed->what == command::kind::run);
  return parsed->opts;
}

engine::error refused(std::vector<std::string> args, const app::environment& env = {},
                      const app::file_reader& read = no_file) {
  const auto parsed = parse(args, env, read);
  std::string joined;
  for (const auto& arg : args) joined += arg + " ";
  BOOST_REQUIRE_MESSAGE(!parsed.has_value(), "accepted: " + joined);
  BOOST_TEST((parsed.error().code == engine::errc::invalid_request));
  return parsed.error();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

app::file_reader file_with(std::string text) {
  return [text = std::move(text)](const std::string&) -> engine::result<std::string> { return text; };
}

}  // namespace

BOOST_AUTO_TEST_SUITE(option_sources)

BOOST_AUTO_TEST_CASE(a_missing_worker_id_is_generated_anew) {
  const auto first = accepted({}).worker_id;
  const auto second = accepted({}).worker_id;
  BOOST_TEST(app::parse_uuid(first).has_value());
  BOOST_TEST(first != second);
}

BOOST_AUTO_TEST_CASE(command_line_wins_over_environment_over_file_over_default) {
  const app::environment env{{"WORKER_ORCD_SLOTS", "3"}, {"WORKER_ORCD_MAX_QUEUE", "33"}};
  const auto file = file_with("slots = 4\nmax-queue = 44\nthreads = 4\n# a comment\n\n");
  const auto o = accepted({"--config", "/c", "--slots", "2"}, env, file);
  BOOST_TEST(o.slots == 2U);
  BOOST_TEST(o.max_queue == 33U);
  BOOST_TEST(o.threads == 4U);
  BOOST_TEST(o.max_tokens_out == 0U);
}

BOOST_AUTO_TEST_CASE(a_wrong_value_that_a_stronger_source_hides_is_not_an_error) {
  BOOST_TEST(accepted({"--slots", "2"}, {{"WORKER_ORCD_SLOTS", "none"}}).slots == 2U);
}

BOOST_AUTO_TEST_CASE(the_model_may_come_from_the_environment_or_the_file) {
  const std::vector<std::string> none;
  const auto env = app::parse_options(none, {{"WORKER_ORCD_MODEL", "/a.gguf"}}, no_file);
  BOOST_REQUIRE(env.has_value());
  BOOST_TEST(env->opts.model == "/a.gguf");
  const std::vector<std::string> args{"--config=/c"};
  const auto file = app::parse_options(args, {}, file_with("model=/b.gguf"));
  BOOST_REQUIRE(file.has_value());
  BOOST_TEST(file->opts.model == "/b.gguf");
}

BOOST_AUTO_TEST_CASE(no_model_is_refused_by_name) {
  const std::vector<std::string> none;
  const auto parsed = app::parse_options(none, {}, no_file);
  BOOST_REQUIRE(!parsed.has_value());
  BOOST_TEST(parsed.error().param == "model");
  BOOST_TEST(contains(parsed.error().message, "--model"));
}

BOOST_AUTO_TEST_CASE(the_config_file_is_read_only_when_named) {
  std::string read_path;
  const app::file_reader read = [&](const std::string& path) -> engine::result<std::string> {
    read_path = path;
    return std::string("slots = 5");
  };
  BOOST_TEST(accepted({}, {}, read).slots == 1U);
  BOOST_TEST(read_path == "");
  BOOST_TEST(accepted({}, {{"WORKER_ORCD_CONFIG", "/etc/worker-orcd/worker-orcd.conf"}}, read).slots == 5U);
  BOOST_TEST(read_path == "/etc/worker-orcd/worker-orcd.conf");
}

BOOST_AUTO_TEST_CASE(config_file_mistakes_are_refused) {
  const auto with = [](const std::string& text) { return refused({"--config", "/c"}, {}, file_with(text)); };
  BOOST_TEST(contains(with("slot = 2").message, "config file '/c': unknown key 'slot'"));
  BOOST_TEST(contains(with("[gpu]\nslots = 2").message, "unknown key 'gpu.slots'"));
  BOOST_TEST(contains(with("slots = 2\nslots = 3").message, "'slots' is given more than once"));
  BOOST_TEST(contains(with("slots").message, "config file '/c'"));
  BOOST_TEST(contains(with("help = true").message, "unknown key 'help'"));
  BOOST_TEST(contains(with("config = /d").message, "unknown key 'config'"));
  const auto value = with("slots = 0");
  BOOST_TEST(value.param == "slots");
  BOOST_TEST(value.message == "--slots must be an integer, 1 to 256, got '0' from config file '/c'");
}

BOOST_AUTO_TEST_CASE(an_unreadable_config_file_is_refused_by_name) {
  const auto failing = [](const std::string&) -> engine::result<std::string> {
    return engine::error{engine::errc::invalid_request, "cannot be opened for reading"};
  };
  const auto why = refused({"--config", "/no/such"}, {}, failing);
  BOOST_TEST(why.message == "config file '/no/such': cannot be opened for reading");
  BOOST_TEST(!app::read_config_file("/no/such/file").has_value());
}

BOOST_AUTO_TEST_CASE(a_config_file_that_is_a_pipe_holds_nobody) {
  const test::temporary_directory directory;
  const std::string pipe = directory.file("pipe");
  BOOST_TEST_REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const auto why = refused({"--config", pipe}, {}, app::read_config_file);
  BOOST_TEST(why.message == "config file '" + pipe + "': is a pipe; it must be a plain file");
}

BOOST_AUTO_TEST_CASE(a_wrong_environment_value_names_its_variable) {
  const auto why = refused({}, {{"WORKER_ORCD_PORT", "80"}});
  BOOST_TEST(why.param == "port");
  BOOST_TEST(why.message ==
             "--port must be an integer, 0 or 1024 to 65535, got '80' from environment variable "
             "WORKER_ORCD_PORT");
}

BOOST_AUTO_TEST_CASE(unknown_variables_of_ours_are_reported_and_others_left_alone) {
  const auto o = accepted({}, {{"WORKER_ORCD_SLOT", "2"}, {"PATH", "/bin"}, {"WORKER_ORC", "x"}});
  BOOST_REQUIRE_EQUAL(o.warnings.size(), 1U);
  BOOST_TEST(contains(o.warnings[0], "WORKER_ORCD_SLOT"));
}

BOOST_AUTO_TEST_CASE(kubernetes_service_links_are_not_options) {
  const auto o = accepted({}, {{"WORKER_ORCD_PORT", "tcp://10.0.0.7:8080"},
                               {"WORKER_ORCD_PORT_8080_TCP_ADDR", "10.0.0.7"},
                               {"WORKER_ORCD_SERVICE_HOST", "10.0.0.7"}});
  BOOST_TEST(o.port == 8080);
  BOOST_TEST(o.host == "127.0.0.1");
  BOOST_TEST(o.warnings.empty());
}

BOOST_AUTO_TEST_CASE(the_journal_is_taken_from_the_environment) {
  BOOST_TEST(accepted({}, {{"JOURNAL_STREAM", "8:1234"}}).journal_stream == "8:1234");
}

BOOST_AUTO_TEST_CASE(command_line_mistakes_are_refused) {
  BOOST_TEST(contains(refused({"--no-such"}).message, "no-such"));
  BOOST_TEST(contains(refused({"--slot", "2"}).message, "slot"));  // no abbreviations
  BOOST_TEST(contains(refused({"stray"}).message, "unexpected argument 'stray'"));
  BOOST_TEST(contains(refused({"--slots"}).message, "slots"));
  BOOST_TEST(contains(refused({"--slots="}).message, "slots"));
  BOOST_TEST(contains(refused({"--slots", "1", "--slots", "2"}).message, "--slots is given more than once"));
  BOOST_TEST(contains(refused({"--slots", "--threads"}).message, "slots"));
}

BOOST_AUTO_TEST_CASE(a_long_wrong_value_is_cut_in_the_message) {
  const auto why = refused({"--slots", std::string(5000, '9')});
  BOOST_TEST(why.message.size() < 200U);
  BOOST_TEST(contains(why.message, "999..."));
}

BOOST_AUTO_TEST_CASE(help_and_version_need_no_model) {
  for (const std::string flag : {"--help", "-h", "--version"}) {
    const std::vector<std::string> args{flag};
    const auto parsed = app::parse_options(args, {{"WORKER_ORCD_SLOTS", "bad"}}, no_file);
    BOOST_REQUIRE(parsed.has_value());
    BOOST_TEST((parsed->what == command::kind::print));
    BOOST_TEST(parsed->text == (flag == "--version" ? app::version_text() : app::help_text()));
  }
}

BOOST_AUTO_TEST_CASE(help_lists_every_option_with_its_default) {
  const auto help = app::help_text();
  std::set<std::string> names;
  for (const auto& row : app::option_table()) {
    BOOST_TEST(contains(help, "--" + row.name + " "), row.name);
    BOOST_TEST((contains(row.help, "default") || contains(row.help, "(required)")), row.name);
    BOOST_TEST(names.insert(row.name).second, row.name);
  }
  for (const auto* group : {"HTTP", "Requests", "Logging", "General", "--config"}) {
    BOOST_TEST(contains(help, group));
  }
  std::size_t start = 0;
  while (start < help.size()) {
    const auto end = help.find('\n', start);
    BOOST_TEST(end - start <= 100U, help.substr(start, end - start));
    start = end + 1;
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(option_values)

namespace {

struct integer_case {
  const char* name;
  std::uint64_t low;
  std::uint64_t high;
  bool zero;
  std::uint64_t (*get)(const options&);
};

std::ostream& operator<<(std::ostream& out, const integer_case& c) {
  return out << c.name;
}

const std::vector<integer_case> integers{
    {"port", 1024, 65535, true, [](const options& o) -> std::uint64_t { return o.port; }},
    {"threads", 1, 1024, true, [](const options& o) -> std::uint64_t { return o.threads; }},
    {"gpu-wait-sec", 1, 3'600, true, [](const options& o) -> std::uint64_t { return o.gpu_wait_sec; }},
    {"residency-check-sec", 1, 86'400, true,
     [](const options& o) -> std::uint64_t { return o.residency_check_sec; }},
    {"context", 16, 1048576, true, [](const options& o) -> std::uint64_t { return o.context; }},
    {"slots", 1, 256, false, [](const options& o) -> std::uint64_t { return o.slots; }},
    {"kv-cache-size-mb", 1, 16777216, true,
     [](const options& o) -> std::uint64_t { return o.kv_cache_size_mb; }},
    {"kv-tokens", 16, 268'435'456, true, [](const options& o) -> std::uint64_t { return o.kv_tokens; }},
    {"prefill-chunk", 64, 8'192, true, [](const options& o) -> std::uint64_t { return o.prefill_chunk; }},
    {"cache-min-tokens", 1, 1'048'576, false,
     [](const options& o) -> std::uint64_t { return o.cache_min_tokens; }},
    {"imc-sessions", 0, 4'096, true, [](const options& o) -> std::uint64_t { return o.imc_sessions; }},
    {"system-prompts", 0, 4'096, true, [](const options& o) -> std::uint64_t { return o.system_prompts; }},
    {"max-connections", 1, 65536, false, [](const options& o) -> std::uint64_t { return o.max_connections; }},
    {"max-body-bytes", 1024, 67108864, true,
     [](const options& o) -> std::uint64_t { return o.max_body_bytes; }},
    {"max-prompt-chars", 1, 16777216, true,
     [](const options& o) -> std::uint64_t { return o.max_prompt_chars; }},
    {"max-tokens-in", 1, 1048576, true, [](const options& o) -> std::uint64_t { return o.max_tokens_in; }},
    {"max-tokens-out", 1, 1048576, true, [](const options& o) -> std::uint64_t { return o.max_tokens_out; }},
    {"max-queue", 0, 4096, true, [](const options& o) -> std::uint64_t { return o.max_queue; }},
    {"inference-timeout-sec", 1, 86400, false,
     [](const options& o) -> std::uint64_t { return o.inference_timeout_sec; }},
    {"drain-timeout", 0, 3600, true, [](const options& o) -> std::uint64_t { return o.drain_timeout_sec; }},
    {"yarn-orig-ctx", 1, 1048576, false,
     [](const options& o) -> std::uint64_t { return o.rope.original_context.value_or(0); }},
};

}  // namespace

BOOST_DATA_TEST_CASE(integers_take_their_range_and_nothing_else, boost::unit_test::data::make(integers), c) {
  const std::string flag = std::string("--") + c.name;
  for (const auto good : {c.low, c.low + 1, c.high}) {
    BOOST_TEST(c.get(accepted({flag, std::to_string(good)})) == good);
  }
  std::vector<std::string> wrong{
      std::to_string(c.high + 1), "-1", "+1", " 1", "1 ", "1.0", "1e2", "0x10", "abc", "nine",
      "18446744073709551616"};
  if (c.low > 1) wrong.push_back(std::to_string(c.low - 1));
  if (c.zero) {
    BOOST_TEST(c.get(accepted({flag, "0"})) == 0U);
  } else {
    wrong.emplace_back("0");
  }
  for (const auto& text : wrong) {
    const auto why = refused({flag, text});
    BOOST_TEST(why.param == c.name);
    BOOST_TEST(contains(why.message, flag + " must be an integer, "), why.message);
    BOOST_TEST(contains(why.message, std::to_string(c.low) + " to " + std::to_string(c.high)), why.message);
    BOOST_TEST(contains(why.message, "'" + text + "'"), why.message);
  }
}

namespace {

struct real_case {
  const char* name;
  double high;
  bool zero;
  std::optional<double> engine::rope_overrides::*member;
};

std::ostream& operator<<(std::ostream& out, const real_case& c) {
  return out << c.name;
}

using rope = engine::rope_overrides;
const std::vector<real_case> reals{
    {"rope-freq-base", 1e12, false, &rope::freq_base}, {"rope-freq-scale", 16, false, &rope::freq_scale},
    {"yarn-ext-factor", 1, true, &rope::ext_factor},   {"yarn-attn-factor", 16, false, &rope::attn_factor},
    {"yarn-beta-fast", 1024, false, &rope::beta_fast}, {"yarn-beta-slow", 1024, false, &rope::beta_slow},
};

}  // namespace

BOOST_DATA_TEST_CASE(reals_take_their_range_and_nothing_else, boost::unit_test::data::make(reals), c) {
  const std::string flag = std::string("--") + c.name;
  BOOST_TEST((accepted({flag, "0.25"}).rope.*c.member == 0.25));
  BOOST_TEST((accepted({flag, std::to_string(c.high)}).rope.*c.member == c.high));
  BOOST_TEST((accepted({flag, "2.5e-1"}).rope.*c.member == 0.25));
  std::vector<std::string> wrong{
      std::to_string(c.high * 1.01 + 0.01), "-0.5", "nan", "inf", "1,5", "x", "0.5x"};
  if (c.zero) {
    BOOST_TEST((accepted({flag, "0"}).rope.*c.member == 0.0));
  } else {
    wrong.emplace_back("0");
  }
  for (const auto& text : wrong) {
    const auto why = refused({flag, text});
    BOOST_TEST(why.param == c.name);
    BOOST_TEST(contains(why.message, flag + " must be a number, "), why.message);
    BOOST_TEST(contains(why.message, "'" + text + "'"), why.message);
  }
}

BOOST_AUTO_TEST_CASE(words_are_taken_exactly) {
  BOOST_TEST((accepted({"--backend", "host"}).backend == app::backend_kind::host));
  BOOST_TEST((accepted({"--deadline-mode", "log"}).deadlines == net::deadline_mode::log));
  BOOST_TEST((accepted({"--log-format", "console"}).format == app::log_format::console));
  BOOST_TEST((accepted({"--log-level", "debug"}).log_level == engine::severity::debug));
  BOOST_TEST((accepted({"--log-level", "error"}).log_level == engine::severity::error));
  BOOST_TEST((accepted({"--rope-scaling", "none"}).rope.scaling == engine::rope_scaling::none));
  BOOST_TEST((accepted({"--rope-scaling", "linear"}).rope.scaling == engine::rope_scaling::linear));
  BOOST_TEST((accepted({"--rope-scaling", "yarn"}).rope.scaling == engine::rope_scaling::yarn));
  BOOST_TEST((accepted({"--yarn-round-dims", "true"}).rope.round_correction_dims == true));
  BOOST_TEST((accepted({"--yarn-round-dims", "false"}).rope.round_correction_dims == false));
  BOOST_TEST(
      (accepted({}).kv_type_k == engine::kv_type::f16 && accepted({}).kv_type_v == engine::kv_type::f16));
  BOOST_TEST((accepted({"--kv-type-k", "q8_0"}).kv_type_k == engine::kv_type::q8_0));
  BOOST_TEST((accepted({"--kv-type-k", "q8_0"}).kv_type_v == engine::kv_type::f16));
  BOOST_TEST((accepted({"--kv-type-v", "bf16"}).kv_type_v == engine::kv_type::bf16));
  BOOST_TEST((accepted({}).ffn_activation == std::nullopt));
  BOOST_TEST(
      (accepted({"--ffn-activation", "relu2"}).ffn_activation == engine::ffn_activation::relu_squared));
  BOOST_TEST((accepted({"--ffn-activation", "silu"}).ffn_activation == engine::ffn_activation::swiglu));
  const std::map<std::string, std::string> words{{"ffn-activation", "silu or relu2"},
                                                 {"speculate", "auto, off or an integer, 1 to 15"},
                                                 {"kv-type-k", "f16|bf16|q8_0"},
                                                 {"kv-type-v", "f16|bf16|q8_0"},
                                                 {"backend", "cuda|host"},
                                                 {"deadline-mode", "enforce|log"},
                                                 {"log-format", "json|console"},
                                                 {"log-level", "error"},
                                                 {"rope-scaling", "linear|yarn"},
                                                 {"yarn-round-dims", "true or false"}};
  for (const auto& [name, listed] : words) {
    for (const std::string wrong : {"Host", "hostx", "99", " "}) {
      const auto why = refused({"--" + name, wrong});
      BOOST_TEST(why.param == name);
      BOOST_TEST(contains(why.message, listed), why.message);
    }
  }
}

BOOST_AUTO_TEST_CASE(worker_ids_are_uuids) {
  BOOST_TEST(accepted({"--worker-id", "123E4567-E89B-12D3-A456-426614174000"}).worker_id ==
             "123e4567-e89b-12d3-a456-426614174000");
  for (const std::string wrong :
       {"worker-1", "123e4567e89b12d3a456426614174000", "{123e4567-e89b-12d3-a456-426614174000}",
        "123e4567-e89b-12d3-a456-42661417400g", "123e4567-e89b-12d3-a456-4266141740000"}) {
    BOOST_TEST(refused({"--worker-id", wrong}).param == "worker-id");
  }
}

BOOST_AUTO_TEST_CASE(gpus_are_named_by_index_or_uuid) {
  BOOST_TEST(accepted({"--gpu-device", "7"}).gpu.index == 7U);
  const auto o = accepted({"--gpu-device", "GPU-123E4567-e89b-12d3-a456-426614174000"});
  BOOST_TEST(o.gpu.uuid == "GPU-123e4567-e89b-12d3-a456-426614174000");
  for (const std::string wrong :
       {"-1", "1024", "cuda:0", "GPU-1", "gpu-123e4567-e89b-12d3-a456-426614174000"}) {
    BOOST_TEST(refused({"--gpu-device", wrong}).param == "gpu-device");
  }
}

BOOST_AUTO_TEST_CASE(hosts_are_addresses) {
  BOOST_TEST(accepted({"--host", "0.0.0.0"}).host == "0.0.0.0");
  BOOST_TEST(accepted({"--host", "::1"}).host == "::1");
  BOOST_TEST(accepted({"--host", "localhost"}).host == "127.0.0.1");
  for (const std::string wrong :
       {"example.org", "127.0.0", "1.2.3.4.5", "[::1]", "300.0.0.1", "127.0.0.1:80"}) {
    BOOST_TEST(refused({"--host", wrong}).param == "host");
  }
}

BOOST_AUTO_TEST_CASE(models_are_locations) {
  const auto model = [](const std::string& location) {
    const std::vector<std::string> args{"--model", location};
    return app::parse_options(args, {}, no_file);
  };
  for (const std::string good :
       {"/m/a.gguf", "a.gguf", "file:/m/a.gguf", "file:///m/a b.gguf", "shm:/weights"}) {
    const auto parsed = model(good);
    BOOST_REQUIRE(parsed.has_value());
    BOOST_TEST(parsed->opts.model == good);
  }
  for (const std::string& wrong :
       {std::string("shm:"), std::string("shm:/"), std::string("shm:x"), std::string("shm:/a/b"),
        "shm:/" + std::string(300, 'a'), std::string(5000, 'a'), std::string("a\0b", 3)}) {
    const auto parsed = model(wrong);
    BOOST_REQUIRE(!parsed.has_value());
    BOOST_TEST(parsed.error().param == "model");
  }
}

BOOST_AUTO_TEST_CASE(a_model_may_have_several_names) {
  using names = std::vector<std::string>;
  const auto per_element = boost::test_tools::per_element();
  BOOST_TEST(accepted({}).model_names == names(), per_element);
  BOOST_TEST(accepted({"--model-name", "a", "--model-name=*", "--model-name", "b, org/c"}).model_names ==
                 (names{"a", "*", "b", "org/c"}),
             per_element);
  BOOST_TEST(accepted({}, {{"WORKER_ORCD_MODEL_NAME", "a,b"}}).model_names == (names{"a", "b"}), per_element);
  const auto file = file_with("model-name = a\nmodel-name = b\n");
  BOOST_TEST(accepted({"--config", "/c"}, {}, file).model_names == (names{"a", "b"}), per_element);
  BOOST_TEST(accepted({"--config", "/c", "--model-name", "x"}, {}, file).model_names == names{"x"},
             per_element);
  for (const auto& bad : {std::string(), std::string("a,"), std::string("a,,b"), std::string("a,a"),
                          std::string("a\nb"), std::string("\xFF"), std::string(257, 'a')}) {
    BOOST_TEST(contains(refused({"--model-name", bad}).message, "--model-name must be up to 64 names"), bad);
  }
}

BOOST_AUTO_TEST_CASE(urls_are_checked_before_anything_starts) {
  BOOST_TEST(accepted({"--callback-url", "http://pool:9000"}).callback_url == "http://pool:9000");
  BOOST_TEST(accepted({"--public-uri", "https://w1.example:8443"}).public_uri == "https://w1.example:8443");
  for (const std::string wrong : {"ftp://pool", "pool:9000", "http://", ""}) {
    BOOST_TEST(!parse({"--callback-url=" + wrong}).has_value(), wrong);
    BOOST_TEST(!parse({"--public-uri=" + wrong}).has_value(), wrong);
  }
  BOOST_TEST(refused({"--public-uri", "http://a b"}).param == "public-uri");
  const auto secret = refused({"--callback-url", "http://user:secret@pool"}).message;
  BOOST_TEST(secret.find("secret") == std::string::npos, secret);
  BOOST_TEST(secret.find("@pool") != std::string::npos, secret);
  BOOST_TEST(refused({"--public-uri", "http://" + std::string(2100, 'a')}).param == "public-uri");
}

BOOST_AUTO_TEST_CASE(a_refused_url_never_shows_its_password) {
  for (const std::string name : {"callback-url", "public-uri"}) {
    const auto why = refused({"--" + name, "ftp://me:secret@pool"});
    BOOST_TEST(!contains(why.message, "secret"), why.message);
    BOOST_TEST(contains(why.message, "pool"), why.message);
  }
}

BOOST_AUTO_TEST_CASE(tokenizer_is_a_path) {
  BOOST_TEST(accepted({"--tokenizer", "/t/tokenizer.json"}).tokenizer == "/t/tokenizer.json");
  BOOST_TEST(refused({"--tokenizer", std::string(5000, 'a')}).param == "tokenizer");
}

BOOST_AUTO_TEST_CASE(the_yarn_range_must_not_be_turned_around) {
  accepted({"--yarn-beta-fast", "32", "--yarn-beta-slow", "1"});
  const auto why = refused({"--yarn-beta-fast", "1", "--yarn-beta-slow", "32"});
  BOOST_TEST(contains(why.message, "got 1 and 32"));
}

BOOST_AUTO_TEST_SUITE_END()
