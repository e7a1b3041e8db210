// How a query and a document become the tokens of a ranking model.
#include "engine/served/pair_format.hpp"

#include <boost/test/unit_test.hpp>

#include "engine/served/served_model.hpp"
#include "test/support/temporary_directory.hpp"
#include "test/support/tiny_model.hpp"
#include "test/unit/net/completion/letter_tokenizer.hpp"

namespace orcd::net {
namespace {

/// Of a tiny model, after `change` to its file.
engine::result<engine::pair_format> format_of(
    const std::string& family,
    const std::function<void(orcd::test::gguf_writer&)>& change = [](orcd::test::gguf_writer&) {}) {
  orcd::test::tiny_model_options o;
  o.family = family;
  o.pooling = 4;
  auto writer = orcd::test::make_tiny_writer(o);
  change(writer);
  const auto image = writer.build();
  const auto file = engine::gguf_file::parse(image, "tiny.gguf").value();
  return engine::pair_format::make(file, engine::load_model(file).value().spec);
}

std::string text_of(const engine::pooled_input& input) {
  return std::string(input.tokens.begin(), input.tokens.end());
}

const test::letter_tokenizer letters;

BOOST_AUTO_TEST_SUITE(pair_formats)

BOOST_AUTO_TEST_CASE(a_template_is_filled_in_in_one_pass) {
  const auto format = format_of("qwen3").value();
  const auto pair = format.encode("{document}", "{query}{", letters);
  BOOST_TEST(text_of(pair) == "Does it fit?\n{document}\n{query}{\n");
  BOOST_TEST(pair.second_segment == 0U);
  const auto odd = format_of("qwen3", [](orcd::test::gguf_writer& writer) {
    writer.remove("tokenizer.chat_template.rerank");
    writer.add("tokenizer.chat_template.rerank", "{{query}}{ {document}{query}{doc");
  });
  BOOST_TEST(text_of(odd.value().encode("Q", "D", letters)) == "{Q}{ DQ{doc");
}

BOOST_AUTO_TEST_CASE(a_decoder_without_a_template_cannot_rank) {
  for (const char* text : {"", "{query} alone", "{document} alone"}) {
    const auto format = format_of("qwen3", [&](orcd::test::gguf_writer& writer) {
      writer.remove("tokenizer.chat_template.rerank");
      if (*text != '\0') writer.add("tokenizer.chat_template.rerank", text);
    });
    BOOST_TEST_REQUIRE(format.has_error());
    BOOST_TEST(format.error().message.find("tokenizer.chat_template.rerank") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(an_encoder_gets_two_segments_that_end_alike) {
  orcd::test::temporary_directory folder;
  orcd::test::tiny_model_options o;
  o.family = "bert";
  o.pooling = 4;
  const std::string path = folder.path() / "tiny.gguf";
  orcd::test::write_file(path, orcd::test::make_tiny_model(o));
  const auto model = engine::open_served_model({.location = path, .tokenizer = {}}).value();
  BOOST_TEST_REQUIRE(model.pairs.has_value());
  const auto& words = *model.tokenizer;
  const auto pair = model.pairs->encode("the a", "a the a", words);
  auto expected = words.encode("the a");  // [CLS] ... [SEP]
  BOOST_TEST(pair.second_segment == expected.size());
  const auto second = words.encode("a the a", {false, true});
  expected.insert(expected.end(), second.begin(), second.end());
  expected.push_back(words.eos());
  BOOST_TEST(pair.tokens == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_document_is_cut_to_the_room_that_there_is) {
  const auto format = format_of("qwen3", [](orcd::test::gguf_writer& writer) {
    writer.remove("tokenizer.chat_template.rerank");
    writer.add("tokenizer.chat_template.rerank", "<{query}|{document}>");
  });
  const auto cut = [&](const engine::pair_room& room) {
    return text_of(format.value().encode("qq", "abcdef", letters, room));
  };
  BOOST_TEST(cut({}) == "<qq|abcdef>");
  BOOST_TEST(cut({.document = 3}) == "<qq|abc>");
  BOOST_TEST(cut({.document = 3, .keeps_last = true}) == "<qq|def>");
  BOOST_TEST(cut({.pair = 9}) == "<qq|abcd>");
  BOOST_TEST(cut({.document = 3, .pair = 7}) == "<qq|ab>");
  BOOST_TEST(cut({.pair = 3}) == "<qq|a>");  // a document keeps one token
  const auto two = format_of("bert").value();
  const auto segments = [&](const engine::pair_room& room) {
    return two.encode("qq", "abcdef", letters, room);
  };
  BOOST_TEST(text_of(segments({})) == "qqabcdef");
  BOOST_TEST(text_of(segments({.pair = 5})) == "qqabc");
  BOOST_TEST(text_of(segments({.document = 2, .keeps_last = true})) == "qqef");
  BOOST_TEST(text_of(segments({.pair = 1})) == "qqa");
  BOOST_TEST(segments({.pair = 5}).second_segment == 2U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
