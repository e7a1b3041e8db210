// WordPiece against the `tokenizers` package (test/oracle/wordpiece_golden.py): an uncased and a cased
// vocabulary over all strings of golden.jsonl, and the rules around them.
#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <sstream>

#include "engine/text/tokenizer.hpp"
#include "test/support/gguf_writer.hpp"
#include "vocabulary_files.hpp"

using namespace orcd::engine;
namespace json = boost::json;

namespace {

constexpr std::string_view mark = "\xE2\x96\x81";

const json::value& golden() {
  static const json::value file = [] {
    std::ifstream in(ORCD_TEST_DATA "/tokenizers/wordpiece.json");
    std::ostringstream text;
    text << in.rdbuf();
    return json::parse(text.str());
  }();
  return file;
}

/// As GGUF spells a token of vocab.txt.
std::string gguf_spelling(std::string_view token, bool special) {
  if (special) return std::string(token);
  return token.starts_with("##") ? std::string(token.substr(2)) : std::string(mark).append(token);
}

orcd::test::gguf_writer write_vocabulary(const std::vector<std::string>& vocab_txt) {
  orcd::test::gguf_writer writer;
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  const auto id_of = [&](std::string_view name) {
    return static_cast<std::uint32_t>(std::find(vocab_txt.begin(), vocab_txt.end(), name) -
                                      vocab_txt.begin());
  };
  for (const std::string& token : vocab_txt) {
    const bool special = token.size() > 2 && token.front() == '[' && token.back() == ']';
    tokens.push_back(gguf_spelling(token, special));
    types.push_back(token == "[UNK]" ? 2 : special ? 3 : 1);
  }
  writer.add("general.architecture", "bert").add("tokenizer.ggml.model", "bert");
  writer.add("tokenizer.ggml.tokens", tokens).add("tokenizer.ggml.token_type", types);
  writer.add("tokenizer.ggml.bos_token_id", id_of("[CLS]"));
  writer.add("tokenizer.ggml.seperator_token_id", id_of("[SEP]"));
  writer.add("tokenizer.ggml.unknown_token_id", id_of("[UNK]"));
  return writer;
}

result<std::unique_ptr<tokenizer>> load(const orcd::test::gguf_writer& writer) {
  const auto image = writer.build();
  const auto file = gguf_file::parse(image, "test.gguf");
  BOOST_TEST_REQUIRE(file.has_value(), (file.has_error() ? file.error().message : std::string()));
  return make_gguf_tokenizer(*file);
}

std::unique_ptr<tokenizer> load_good(const orcd::test::gguf_writer& writer) {
  auto made = load(writer);
  BOOST_TEST_REQUIRE(made.has_value(), (made.has_error() ? made.error().message : std::string()));
  return std::move(*made);
}

std::vector<std::string> strings_of(const json::value& list) {
  std::vector<std::string> out;
  for (const auto& text : list.as_array()) out.emplace_back(text.as_string());
  return out;
}

std::vector<std::string> golden_strings() {
  const std::string all = orcd::test::read_vocabulary_file("golden.jsonl");
  std::vector<std::string> out;
  for (std::size_t at = all.find('\n') + 1; at < all.size();) {
    const std::size_t end = all.find('\n', at);
    out.emplace_back(json::parse(std::string_view(all).substr(at, end - at)).as_array()[0].as_string());
    at = end + 1;
  }
  return out;
}

const std::vector<std::string> small{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able",
                                     "a",     "##b",   ",",     "the",   "e",  "##e",   "\xE4\xB8\xAD"};

BOOST_AUTO_TEST_SUITE(wordpiece)

BOOST_AUTO_TEST_CASE(ids_are_those_of_the_tokenizers_package) {
  const auto texts = golden_strings();
  BOOST_TEST_REQUIRE(texts.size() >= 10'000u);
  const auto extra = strings_of(golden().at("extra"));
  for (const auto& vocabulary : golden().at("vocabularies").as_array()) {
    const std::string name(vocabulary.at("name").as_string());
    const auto t = load_good(write_vocabulary(strings_of(vocabulary.at("tokens"))));
    const std::string hashes(vocabulary.at("hashes").as_string());
    int failures = 0;
    int compared = 0;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (hashes[8 * i] == '-') continue;
      ++compared;
      const auto expected = std::stoul(hashes.substr(8 * i, 8), nullptr, 16);
      if (orcd::test::fnv(t->encode(texts[i])) == expected) continue;
      if (++failures <= 5) BOOST_TEST_MESSAGE(name << " differs for: " << texts[i]);
    }
    BOOST_TEST(compared > 11'000);
    BOOST_TEST(failures == 0, name << ": " << failures << " of " << compared << " strings differ");
    for (std::size_t i = 0; i < extra.size(); ++i) {
      std::vector<token_id> expected;
      for (const auto& id : vocabulary.at("extra").at(i).as_array())
        expected.push_back(id.to_number<token_id>());
      BOOST_TEST(t->encode(extra[i]) == expected, name << ": " << extra[i]);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_word_is_its_longest_tokens_or_unknown) {
  const auto t = load_good(write_vocabulary(small));
  const auto plain = [&](std::string_view text) { return t->encode(text, {false, true}); };
  using ids = std::vector<token_id>;
  BOOST_TEST(plain("Unaffable, ab") == (ids{4, 5, 6, 9, 7, 8}));
  BOOST_TEST(plain("unaffx the") == (ids{1, 10}));
  BOOST_TEST(plain("\xC3\xA9\xC3\x89") == (ids{11, 12}));  // accents and capitals
  BOOST_TEST(plain("a\xE4\xB8\xAD"
                   "a") == (ids{7, 13, 7}));  // an ideograph is a word
  // Canadian syllabics chi sign: a symbol, but punctuation in the package's table.
  BOOST_TEST(plain("a\u166Da") == (ids{7, 1, 7}));
  BOOST_TEST(plain("a\xFF"
                   "b\xC3") == (ids{7, 8}));  // bytes that are no text
  BOOST_TEST(plain("") == ids{});
  BOOST_TEST(t->encode("a") == (ids{2, 7, 3}));
  BOOST_TEST(t->encode("[SEP]a") == (ids{2, 3, 7, 3}));
  BOOST_TEST(t->encode("[SEP]", {false, false}) == (ids{1, 1, 1}));
  BOOST_TEST(t->decode(ids{4, 5, 6, 9, 7}) == "unaffable , a");
  BOOST_TEST(t->kind() == "gguf-wordpiece");
}

BOOST_AUTO_TEST_CASE(a_capital_in_the_vocabulary_makes_it_cased) {
  auto cased = small;
  cased.emplace_back("Un");
  const auto t = load_good(write_vocabulary(cased));
  BOOST_TEST(t->encode("Un un UN \xC3\xA9", {false, true}) == (std::vector<token_id>{14, 4, 1, 1}));
}

BOOST_AUTO_TEST_CASE(files_that_lie_are_refused) {
  auto writer = write_vocabulary(small);
  writer.remove("tokenizer.ggml.unknown_token_id");
  const auto none = load(writer);  // BERT's own 100 is not in this vocabulary
  BOOST_TEST_REQUIRE(none.has_error());
  BOOST_TEST(none.error().message.find("unknown_token_id") != std::string::npos);
  auto flags = write_vocabulary(small);
  flags.add("tokenizer.ggml.add_sep_token", std::uint32_t{1});
  BOOST_TEST(load(flags).has_error());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
