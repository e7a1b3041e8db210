#include "app/inspect/arguments.hpp"

#include <boost/test/unit_test.hpp>
#include <initializer_list>

using namespace orcd::app;

namespace {

auto parse(std::initializer_list<std::string_view> words) {
  return parse_inspect_arguments(std::span<const std::string_view>(words.begin(), words.size()));
}

std::string refusal(std::initializer_list<std::string_view> words) {
  const auto arguments = parse(words);
  BOOST_REQUIRE_MESSAGE(!arguments, "was accepted");
  return arguments.error().message;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(arguments)

BOOST_AUTO_TEST_CASE(commands_and_options) {
  const auto info = parse({"info", "m.gguf", "--json"});
  BOOST_REQUIRE(info.has_value());
  BOOST_TEST((info->action == inspect_action::info));
  BOOST_TEST(info->model == "m.gguf");
  BOOST_TEST(info->json);

  const auto tokenize = parse({"tokenize", "m.gguf", "--text", "--json", "--no-special"});
  BOOST_REQUIRE(tokenize.has_value());
  BOOST_TEST(*tokenize->text == "--json");  // a value, not an option
  BOOST_TEST(!tokenize->json);
  BOOST_TEST(!tokenize->special);

  for (const std::string_view action : {"tokenize", "detokenize"}) {
    const auto chosen = parse({action, "m.gguf", "--tokenizer-pre", "falcon"});
    BOOST_REQUIRE(chosen.has_value());
    BOOST_TEST(chosen->tokenizer_pre == "falcon");
  }

  const auto empty = parse({"tokenize", "m.gguf", "--text="});
  BOOST_REQUIRE(empty.has_value());
  BOOST_TEST(empty->text->empty());

  const auto plan = parse({"plan", "--ctx=4096", "m.gguf", "--slots", "8"});
  BOOST_REQUIRE(plan.has_value());
  BOOST_TEST(plan->context == 4096U);
  BOOST_TEST(plan->slots == 8U);
  BOOST_TEST((plan->kv == orcd::engine::kv_types{}));
  const auto typed = parse({"plan", "m.gguf", "--kv-type-k=q8_0", "--kv-type-v", "bf16"});
  BOOST_REQUIRE(typed.has_value());
  BOOST_TEST((typed->kv == orcd::engine::kv_types{orcd::engine::kv_type::q8_0, orcd::engine::kv_type::bf16}));

  const auto chat =
      parse({"chat", "m.gguf", "--messages=m.json", "--tools", "t.json", "--no-generation-prompt"});
  BOOST_REQUIRE(chat.has_value());
  BOOST_TEST((chat->action == inspect_action::chat));
  BOOST_TEST(*chat->messages == "m.json");
  BOOST_TEST(*chat->tools == "t.json");
  BOOST_TEST(!*chat->generation_prompt);
  BOOST_TEST(*parse({"chat", "m", "--add-generation-prompt"})->generation_prompt);
  BOOST_TEST(!parse({"chat", "m"})->generation_prompt.has_value());

  const auto detokenize = parse({"detokenize", "t.json", "1", "2,3"});
  BOOST_REQUIRE(detokenize.has_value());
  BOOST_TEST(detokenize->ids.size() == 2U);
  BOOST_TEST(parse({"info", "--", "--odd-name"})->model == "--odd-name");
}

BOOST_AUTO_TEST_CASE(help_and_version_need_nothing_else) {
  BOOST_TEST((parse({"--help"})->action == inspect_action::help));
  BOOST_TEST((parse({"info", "-h"})->action == inspect_action::help));
  BOOST_TEST((parse({"--version"})->action == inspect_action::version));
}

BOOST_AUTO_TEST_CASE(wrong_usage) {
  BOOST_TEST(refusal({}) == "a command is missing");
  BOOST_TEST(refusal({"frob", "m"}) == "unknown command 'frob'");
  BOOST_TEST(refusal({"info"}) == "the FILE argument is missing");
  BOOST_TEST(refusal({"info", ""}) == "the FILE argument is missing");
  BOOST_TEST(refusal({"info", "a", "b"}) == "unexpected argument 'b'");
  BOOST_TEST(refusal({"info", "a", "--frob"}) == "unknown option '--frob'");
  BOOST_TEST(refusal({"info", "a", "--json=1"}) == "--json takes no value");
  BOOST_TEST(refusal({"tokenize", "a", "--text"}) == "--text needs a value");
  BOOST_TEST(refusal({"info", "a", "--text", "x"}) == "--text does not belong to this command");
  BOOST_TEST(refusal({"info", "a", "--no-special"}) == "--no-special does not belong to this command");
  BOOST_TEST(refusal({"info", "a", "--tokenizer-pre", "x"}) ==
             "--tokenizer-pre does not belong to this command");
  BOOST_TEST(refusal({"info", "a", "--tools", "x"}) == "--tools does not belong to this command");
  BOOST_TEST(refusal({"plan", "a", "--no-generation-prompt"}) ==
             "--no-generation-prompt does not belong to this command");
  BOOST_TEST(refusal({"chat", "a", "--text", "x"}) == "--text does not belong to this command");
  BOOST_TEST(refusal({"tokenize", "a", "--ctx", "5"}) == "--ctx does not belong to this command");
  BOOST_TEST(refusal({"tokenize", "a", "--text", "x", "--file", "y"}).find("exclude") != std::string::npos);
  for (const std::string_view bad : {"0", "-1", "16777217", "4k", "", "99999999999999999999"}) {
    BOOST_TEST(refusal({"plan", "a", "--ctx", bad}).find("from 1 to 16777216") != std::string::npos);
  }
  BOOST_TEST(refusal({"plan", "a", "--kv-type-v", "q4_0"}) ==
             "--kv-type-v is 'q4_0'; it must be one of f16, bf16, q8_0, f32");
  BOOST_TEST(refusal({"info", "a", "--kv-type-k", "f16"}) == "--kv-type-k does not belong to this command");
  BOOST_TEST(refusal({"plan", "a", "--slots", "1025"}).find("from 1 to 1024") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(token_ids) {
  const auto ids = parse_token_ids(" 1 2,3\n\t400 ");
  BOOST_REQUIRE(ids.has_value());
  BOOST_TEST(*ids == (std::vector<orcd::engine::token_id>{1, 2, 3, 400}), boost::test_tools::per_element());
  BOOST_TEST(parse_token_ids("")->empty());
  for (const std::string_view bad : {"1 x", "1 -2", "1 2147483648", "1 2.5"}) {
    const auto refused = parse_token_ids(bad);
    BOOST_REQUIRE(!refused);
    BOOST_TEST(refused.error().message.find("token id 2 is") != std::string::npos);
  }
}

BOOST_AUTO_TEST_SUITE_END()
