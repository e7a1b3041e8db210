// Properties that need a real vocabulary: hostile sizes, threads, any bytes, streaming.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <random>
#include <thread>

#include "engine/text/nfc.hpp"
#include "engine/text/token_stream.hpp"
#include "vocabulary_files.hpp"

using namespace orcd::engine;
using orcd::test::real_tokenizer;

namespace {

std::string random_bytes(std::mt19937& rng, std::size_t size) {
  std::string out;
  for (std::size_t i = 0; i < size; ++i) out.push_back(static_cast<char>(rng()));
  return out;
}

BOOST_AUTO_TEST_SUITE(real_vocabularies)

BOOST_AUTO_TEST_CASE(any_bytes_come_back) {
  std::mt19937 rng(3);
  for (const char* name : {"gpt-oss", "gpt-2", "phi-3", "qwen3"}) {
    const tokenizer& t = real_tokenizer(name);
    for (int round = 0; round < 300; ++round) {
      const std::string bytes = random_bytes(rng, rng() % 60);
      if (name == std::string("qwen3") && to_nfc(bytes) != bytes) continue;
      BOOST_TEST((t.decode(t.encode(bytes, {false, false}), true) == bytes), name);
    }
  }
}

// One word of a megabyte: quadratic merging would take hours, here it is well under a second each.
BOOST_AUTO_TEST_CASE(one_huge_word_is_not_quadratic) {
  const std::size_t size = 1'000'000;
  std::mt19937 rng(5);
  std::string letters;
  std::string marks;
  for (std::size_t i = 0; i < size; ++i) letters.push_back(static_cast<char>('a' + rng() % 26));
  for (std::size_t i = 0; i < size / 2; ++i) marks += i % 2 ? "\xCC\x81" : "\xCC\xA3";  // U+0301, U+0323
  for (const char* name : {"gpt-oss", "qwen3", "phi-3"}) {
    const tokenizer& t = real_tokenizer(name);
    for (const std::string& text : {letters, std::string(size, 'a'), std::string(size, ' '), marks}) {
      const auto tokens = t.encode(text, {false, true});
      BOOST_TEST(tokens.size() > size / 1000);
      // Canonical ordering sorts the marks; everything else is unchanged.
      BOOST_TEST(t.decode(tokens, true).size() == text.size());
    }
  }
}

BOOST_AUTO_TEST_CASE(encoding_is_the_same_from_many_threads) {
  const auto fresh = make_json_tokenizer(orcd::test::read_vocabulary_file("qwen3.tokenizer.json"));
  BOOST_TEST_REQUIRE(fresh.has_value());
  std::string text;
  std::mt19937 rng(9);
  for (int i = 0; i < 3000; ++i) {
    for (std::size_t n = 1 + rng() % 8; n > 0; --n) text.push_back(static_cast<char>('a' + rng() % 26));
    text += i % 7 == 0 ? " the answer is " : " ";
  }
  // The first use of each word is the racy moment, so the tokenizer is one that nobody has used.
  std::vector<std::vector<token_id>> results(4);
  {
    std::vector<std::jthread> threads;
    for (auto& r : results) threads.emplace_back([&] { r = (*fresh)->encode(text); });
  }
  const auto want = real_tokenizer("qwen3").encode(text);
  for (const auto& r : results) BOOST_TEST((r == want));
}

BOOST_AUTO_TEST_CASE(a_stream_gives_whole_code_points_and_the_whole_text) {
  const tokenizer& t = real_tokenizer("gpt-oss");
  const std::string text =
      "Emoji \xF0\x9F\xA7\x91\xF0\x9F\x8F\xBF\xE2\x80\x8D\xF0\x9F\x9A\x80 and "
      "\xE0\xBD\x96\xE0\xBD\xBC\xE0\xBD\x91";
  token_stream stream(t, {});
  std::string out;
  bool held = false;
  for (const token_id id : t.encode(text, {false, true})) {
    const auto piece = stream.push(id);
    held |= piece.text.empty();
    utf8_buffer check;
    BOOST_TEST(check.push(piece.text) == piece.text);
    BOOST_TEST(check.empty());
    out += piece.text;
  }
  BOOST_TEST(held);  // some token ended inside a code point
  BOOST_TEST(out + stream.finish() == text);
}

BOOST_AUTO_TEST_CASE(a_stream_stops_before_a_stop_string_and_hides_control_tokens) {
  const tokenizer& t = real_tokenizer("qwen3");
  const auto tokens = t.encode("one two<|im_end|> three STOP four");
  token_stream stream(t, {"STOP"});
  std::string out;
  bool stopped = false;
  for (const token_id id : tokens) {
    const auto piece = stream.push(id);
    out += piece.text;
    stopped |= piece.stopped;
  }
  BOOST_TEST(stopped);
  BOOST_TEST(out == "one two three ");
  BOOST_TEST(stream.finish() == "");
  token_stream shown(t, {}, true);
  std::string all;
  for (const token_id id : tokens) all += shown.push(id).text;
  BOOST_TEST(all == "one two<|im_end|> three STOP four");
}

BOOST_AUTO_TEST_CASE(a_stream_shows_an_unfinished_code_point_at_its_end) {
  const tokenizer& t = real_tokenizer("gpt-2");
  const auto tokens = t.encode("\xF0\x9F\x9A");
  token_stream stream(t, {});
  for (const token_id id : tokens) BOOST_TEST(stream.push(id).text == "");
  BOOST_TEST(stream.finish() == "\xEF\xBF\xBD");
  BOOST_TEST(stream.finish() == "");
}

BOOST_AUTO_TEST_CASE(real_end_of_generation_sets) {
  const auto ends = [](std::string_view name) {
    std::string out;
    for (const token_id id : real_tokenizer(name).end_of_generation())
      out.append(real_tokenizer(name).piece(id)).append(" ");
    return out;
  };
  BOOST_TEST(ends("gpt-oss") == "<|endoftext|> <|return|> <|call|> ");
  BOOST_TEST(ends("qwen3") == "<|endoftext|> <|im_end|> <|fim_pad|> <|repo_name|> <|file_sep|> ");
  BOOST_TEST(ends("phi-3") == "</s> <|endoftext|> <|end|> ");
  BOOST_TEST(ends("gpt-2") == "<|endoftext|> ");
}

// Rows that only pad the vocabulary are nobody's text.
BOOST_AUTO_TEST_CASE(padding_rows_of_phi3_are_not_recognised) {
  const tokenizer& t = real_tokenizer("phi-3");
  BOOST_TEST(t.piece(32012) == "[PAD32012]");
  BOOST_TEST(t.is_control(32012));
  const auto tokens = t.encode("[PAD32012]", {false, true});
  BOOST_TEST((std::find(tokens.begin(), tokens.end(), 32012) == tokens.end()));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(nfc_suite)

BOOST_AUTO_TEST_CASE(composes_orders_and_keeps_what_is_not_text) {
  BOOST_TEST(!may_need_nfc("plain caf\xC3\xA9 \xE4\xB8\xAD\xFF"));
  BOOST_TEST(may_need_nfc("e\xCC\x81"));
  BOOST_TEST(to_nfc("e\xCC\x81x") == "\xC3\xA9x");
  BOOST_TEST(to_nfc("\xC3\xA9\xCC\xA3") == "\xE1\xBA\xB9\xCC\x81");              // the dot below goes first
  BOOST_TEST(to_nfc("\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB") == "\xED\x95\x9C");  // Hangul
  BOOST_TEST(to_nfc("\xE2\x84\xAB") == "\xC3\x85");                              // the Angstrom sign
  BOOST_TEST(to_nfc("a\xCD\xFF\xCC\x81") == "a\xCD\xFF\xCC\x81");                // invalid bytes stay
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
