#include "app/pipe/arguments.hpp"

#include <boost/test/unit_test.hpp>

#include "app/pipe/settings.hpp"

using namespace orcd;
using namespace orcd::app;
using words = std::vector<std::string_view>;

namespace {

const words values{"--config", "1",        "0", "256", "384", "2", "4", "2", "300", "64", "512",
                   "1e-05",    "500000.0", "1", "0",   "1",   "1", "2", "2", "1",   "2"};

words call(std::initializer_list<std::string_view> before,
           std::initializer_list<std::string_view> after = {}) {
  words out{"model"};
  out.insert(out.end(), before);
  out.insert(out.end(), values.begin(), values.end());
  out.insert(out.end(), after);
  return out;
}

words changed(std::size_t value, std::string_view text) {
  words out = call({});
  out[1 + value] = text;
  return out;
}

std::string refusal(const words& given) {
  const auto parsed = parse_pipe_arguments(given);
  BOOST_REQUIRE_MESSAGE(!parsed, "accepted");
  BOOST_TEST((parsed.error().code == engine::errc::invalid_request));
  BOOST_TEST(parsed.error().message.find('\n') == std::string::npos);
  return parsed.error().message;
}

/// The last error, or empty where the block was taken.
std::string refused_block(std::initializer_list<std::string_view> lines) {
  config_block block;
  for (const std::string_view line : lines) {
    if (const auto taken = block.take(line); !taken) return taken.error().message;
  }
  return {};
}

std::vector<std::string> block_lines() {
  return {"arch_type=1",
          "activation=0",
          "hidden_dim=256",
          "intermediate_dim=384",
          "num_layers=2",
          "num_heads=4",
          "num_kv_heads=2",
          "vocab_size=300",
          "head_dim=64",
          "norm_eps=1e-05",
          "max_position_embeddings=512",
          "rope_theta=500000.0",
          "has_qkv_bias=0",
          "tie_word_embeddings=1",
          "has_attn_sub_norm=1",
          "has_ffn_sub_norm=1",
          "eos_tokens=1,2"};
}

/// What a block of these lines becomes.
engine::result<std::optional<sdk_config>> read_block(const std::vector<std::string>& lines,
                                                     config_block& block) {
  BOOST_REQUIRE(block.take(std::to_string(lines.size())));
  for (std::size_t i = 0;; ++i) {
    auto taken = block.take(lines[i]);
    if (!taken || i + 1 == lines.size()) return taken;
    BOOST_REQUIRE(!*taken);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pipe_arguments_of)

BOOST_AUTO_TEST_CASE(a_call_of_the_sdk) {
  const auto parsed = parse_pipe_arguments(call({}, {"--lora", "adapter"}));
  BOOST_REQUIRE_MESSAGE(parsed, (parsed ? "" : parsed.error().message));
  BOOST_TEST(parsed->model_dir == "model");
  BOOST_TEST(parsed->adapter.value() == "adapter");
  const sdk_config& c = parsed->config.value();
  BOOST_TEST(c.arch_type == 1U);
  BOOST_TEST(c.hidden_dim == 256U);
  BOOST_TEST(c.intermediate_dim == 384U);
  BOOST_TEST(c.vocab_size == 300U);
  BOOST_TEST(c.max_position_embeddings == 512U);
  BOOST_TEST(c.norm_eps == 1e-5);
  BOOST_TEST(c.rope_theta == 500000.0);
  BOOST_TEST(c.tie_word_embeddings == 1U);
  BOOST_TEST(c.has_qkv_bias == 0U);
  BOOST_TEST(c.num_threads == 2U);
  BOOST_TEST((c.eos == std::vector<engine::token_id>{1, 2}));
}

BOOST_AUTO_TEST_CASE(the_three_places_of_an_adapter) {
  BOOST_TEST(parse_pipe_arguments(call({"--lora", "there"}))->adapter.value() == "there");
  BOOST_TEST(parse_pipe_arguments(call({"--lora"}))->adapter.value() == "model");
  BOOST_TEST(parse_pipe_arguments(call({}, {"--lora"}))->adapter.value() == "model");
  BOOST_TEST(!parse_pipe_arguments(call({}))->adapter.has_value());
  BOOST_TEST(refusal(call({"--lora", "a"}, {"--lora", "b"})) == "--lora is given twice");
  BOOST_TEST(refusal(call({"--lora", ""})) == "--lora has 0 bytes; it must have 1 to 4096");
}

BOOST_AUTO_TEST_CASE(refusals_name_field_value_and_limit) {
  BOOST_TEST(refusal({}) == "model_dir is missing; --help says more");
  BOOST_TEST(refusal({"--config"}) == "the first argument is '--config'; it must be model_dir");
  BOOST_TEST(refusal({"model", "more"}) == "there is the unexpected argument 'more'");
  BOOST_TEST(refusal(call({}, {"3"})) == "there is the unexpected argument '3'");
  BOOST_TEST(refusal({"model", "--config", "1"}) == "--config has 1 values; it must have 18 and the EOS ids");
  BOOST_TEST(refusal(changed(1, "0")) == "arch_type is '0'; it must be a whole number from 1 to 7");
  BOOST_TEST(refusal(changed(3, "-256")) ==
             "hidden_dim is '-256'; it must be a whole number from 1 to 131072");
  BOOST_TEST(refusal(changed(8, "99999999999999999999")) ==
             "vocab_size is '99999999999999999999'; it must be a whole number from 1 to 1048576");
  BOOST_TEST(refusal(changed(11, "nan")) == "norm_eps is 'nan'; it must be a number from 0 to 1");
  BOOST_TEST(refusal(changed(12, "1,5")) == "rope_theta is '1,5'; it must be a number from 0 to 1e+12");
  BOOST_TEST(refusal(changed(13, "True")) ==
             "tie_word_embeddings is 'True'; it must be a whole number from 0 to 1");
  BOOST_TEST(refusal(changed(18, "0")) == "num_eos_tokens is '0'; it must be a whole number from 1 to 64");
  BOOST_TEST(refusal(changed(18, "3")) == "num_eos_tokens is 3, but 2 ids follow");
  BOOST_TEST(refusal(changed(20, "300")) == "eos_token_id is '300'; it must be a whole number from 0 to 299");
}

BOOST_AUTO_TEST_CASE(the_first_block) {
  config_block block;
  auto lines = block_lines();
  lines.insert(lines.end(), {"num_threads=3", "lora_dir=there", "lora_quant=q8", "later=x"});
  const auto config = read_block(lines, block);
  BOOST_REQUIRE_MESSAGE(config, (config ? "" : config.error().message));
  const sdk_config& c = config->value();
  BOOST_TEST(c.vocab_size == 300U);
  BOOST_TEST(c.num_threads == 3U);
  BOOST_TEST(c.lora_dir.value() == "there");
  BOOST_TEST((c.eos == std::vector<engine::token_id>{1, 2}));
}

BOOST_AUTO_TEST_CASE(a_first_block_that_is_wrong) {
  config_block none;
  BOOST_TEST(none.take("0").has_value());
  BOOST_TEST(none.quit());
  BOOST_TEST(refused_block({"x"}) == "the number of lines is 'x'; it must be a whole number from 0 to 256");
  BOOST_TEST(refused_block({"2", "arch_type"}) == "a line of a block is 'arch_type'; it must be KEY=VALUE");
  BOOST_TEST(refused_block({"1", "arch_type=9"}) ==
             "arch_type is '9'; it must be a whole number from 1 to 7");
  BOOST_TEST(refused_block({"2", "head_dim=8", "head_dim=8"}) ==
             "head_dim is there twice in the first block");
  BOOST_TEST(refused_block({"1", "head_dim=8"}) == "arch_type is missing in the first block");
  for (const auto& [eos, why] :
       {std::pair("eos_tokens=", "eos_tokens are 0; there must be 1 to 64"),
        std::pair("eos_tokens=1,300", "eos_tokens has 300; it must be below vocab_size, 300"),
        std::pair("eos_tokens=1,", "eos_tokens ends with a comma")}) {
    auto lines = block_lines();
    lines.back() = eos;
    config_block block;
    const auto config = read_block(lines, block);
    BOOST_REQUIRE(!config);
    BOOST_TEST(config.error().message == why);
  }
}

BOOST_AUTO_TEST_CASE(the_environment) {
  const auto plain = read_pipe_settings("model", {{"WORKER_ORCD_PORT", "7"}, {"PATH", "x"}});
  BOOST_REQUIRE_MESSAGE(plain, (plain ? "" : plain.error().message));
  BOOST_TEST((plain->opts.backend == backend_kind::host));
  BOOST_TEST(plain->opts.slots == 1U);
  BOOST_TEST(!plain->seed.has_value());
  BOOST_TEST((plain->limit == limit_style::end_token));
  const auto chosen = read_pipe_settings("model", {{"WORKER_ORCD_BACKEND", "cuda"},
                                                   {"WORKER_ORCD_SEED", "7"},
                                                   {"WORKER_ORCD_PIPE_LIMIT", "literal"},
                                                   {"WORKER_ORCD_CONTEXT", "64"},
                                                   {"WORKER_ORCD_SLOTS", "4"}});
  BOOST_REQUIRE(chosen);
  BOOST_TEST((chosen->opts.backend == backend_kind::cuda));
  BOOST_TEST(chosen->seed.value() == 7U);
  BOOST_TEST((chosen->limit == limit_style::literal));
  BOOST_TEST(chosen->opts.context == 64U);
  BOOST_TEST(chosen->opts.slots == 1U);
  BOOST_TEST(read_pipe_settings("m", {{"WORKER_ORCD_SEED", "-1"}}).error().message ==
             "WORKER_ORCD_SEED is '-1'; it must be a whole number from 0 to 18446744073709551615");
  BOOST_TEST(read_pipe_settings("m", {{"WORKER_ORCD_PIPE_LIMIT", "x"}}).error().message ==
             "WORKER_ORCD_PIPE_LIMIT is 'x'; it must be eos or literal");
  BOOST_TEST((read_pipe_settings("m", {{"WORKER_ORCD_BACKEND", "tpu"}}).error().code ==
              engine::errc::invalid_request));
}

BOOST_AUTO_TEST_SUITE_END()
