// Every string of the golden file against the hashes of what the `tokenizers` package made of it
// (test/oracle/tokenizer_golden.py), and the way back.
#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <functional>

#include "engine/text/nfc.hpp"
#include "engine/text/split/pretokenizer.hpp"
#include "vocabulary_files.hpp"

using namespace orcd::engine;

namespace {

constexpr int shown_failures = 5;

struct golden_line {
  std::string text;
  std::vector<std::uint32_t> hashes;  // one per column
};

struct golden_file {
  std::vector<std::string> columns;
  std::vector<golden_line> lines;
};

const golden_file& golden() {
  static const golden_file file = [] {
    golden_file g;
    const std::string all = orcd::test::read_vocabulary_file("golden.jsonl");
    for (std::size_t at = 0; at < all.size();) {
      const std::size_t end = all.find('\n', at);
      const auto row = boost::json::parse(std::string_view(all).substr(at, end - at)).as_array();
      at = end + 1;
      if (g.columns.empty()) {
        for (const auto& name : row) g.columns.emplace_back(name.as_string());
        continue;
      }
      golden_line line{std::string(row[0].as_string()), {}};
      const std::string hashes(row[1].as_string());
      for (std::size_t i = 0; i + 8 <= hashes.size(); i += 8) {
        line.hashes.push_back(static_cast<std::uint32_t>(std::stoul(hashes.substr(i, 8), nullptr, 16)));
      }
      g.lines.push_back(std::move(line));
    }
    return g;
  }();
  return file;
}

// Runs `encode` over every line and compares with one column.
void compare(std::string_view column,
             const std::function<std::vector<token_id>(const std::string&)>& encode) {
  const golden_file& g = golden();
  BOOST_TEST_REQUIRE(g.lines.size() >= 10'000u);
  const auto at = std::find(g.columns.begin(), g.columns.end(), column);
  BOOST_TEST_REQUIRE((at != g.columns.end()), column);
  const auto index = static_cast<std::size_t>(at - g.columns.begin());
  int failures = 0;
  for (const golden_line& line : g.lines) {
    if (orcd::test::fnv(encode(line.text)) == line.hashes.at(index)) continue;
    if (++failures <= shown_failures) BOOST_TEST_MESSAGE(column << " differs for: " << line.text);
  }
  BOOST_TEST(failures == 0, column << ": " << failures << " of " << g.lines.size() << " strings differ");
}

void compare_vocabulary(const std::string& name) {
  const tokenizer& t = orcd::test::real_tokenizer(name);
  compare(name, [&](const std::string& text) { return t.encode(text, {false, true}); });
  compare(name + "/text", [&](const std::string& text) { return t.encode(text, {false, false}); });
}

void compare_words(const std::string& pre) {
  const auto preset = find_preset(pre);
  BOOST_TEST_REQUIRE(preset.has_value(), pre);
  const pretokenizer words(preset->stages);
  compare("words/" + pre, [&](const std::string& text) {
    std::vector<token_id> lengths;
    words.split(text, [&](std::string_view w) { lengths.push_back(static_cast<token_id>(w.size())); });
    return lengths;
  });
}

// Text -> ids -> text, where the tokenizer promises it.
void round_trip(const std::string& name, const std::function<bool(const std::string&)>& exact) {
  const tokenizer& t = orcd::test::real_tokenizer(name);
  int tried = 0;
  int failures = 0;
  for (const golden_line& line : golden().lines) {
    if (!exact(line.text)) continue;
    ++tried;
    if (t.decode(t.encode(line.text, {false, false}), true) != line.text) ++failures;
  }
  BOOST_TEST(tried > 9'000);
  BOOST_TEST(failures == 0, name << ": " << failures << " of " << tried << " strings come back changed");
}

BOOST_AUTO_TEST_SUITE(tokenizer_golden)

BOOST_AUTO_TEST_CASE(qwen3_ids) {
  compare_vocabulary("qwen3");
}
BOOST_AUTO_TEST_CASE(gpt_oss_ids) {
  compare_vocabulary("gpt-oss");
}
BOOST_AUTO_TEST_CASE(gpt_2_ids) {
  compare_vocabulary("gpt-2");
}
BOOST_AUTO_TEST_CASE(phi_3_ids) {
  compare_vocabulary("phi-3");
}

BOOST_AUTO_TEST_CASE(words_of_every_scanner) {
  for (const char* pre : {"gpt-2", "llama-bpe", "qwen2", "qwen35", "gpt-4o", "tekken", "smollm", "default"}) {
    compare_words(pre);
  }
}

BOOST_AUTO_TEST_CASE(round_trips) {
  const auto all = [](const std::string&) { return true; };
  round_trip("gpt-oss", all);
  round_trip("gpt-2", all);
  round_trip("qwen3", [](const std::string& text) { return to_nfc(text) == text; });
  // U+2581 is how SentencePiece writes a space.
  round_trip("phi-3", [](const std::string& text) { return text.find("\xE2\x96\x81") == std::string::npos; });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
