// Every kind of pre-tokenizer against the hashes of what the `tokenizers` package made of the golden texts
// and of random ones (test/oracle/pretokenizer_golden.py, which also shows where a block differs).
#include <algorithm>
#include <boost/crc.hpp>
#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <ctime>
#include <map>
#include <set>

#include "engine/text/nfc.hpp"
#include "engine/text/split/pretokenizer.hpp"
#include "test/support/gguf_writer.hpp"
#include "vocabulary_files.hpp"

using namespace orcd::engine;

namespace {

constexpr std::size_t block_size = 100;

struct golden_blocks {
  std::vector<std::string> texts;
  std::map<std::string, std::vector<std::uint32_t>, std::less<>> columns;  // a hash per block of texts
};

std::vector<std::string> golden_texts() {
  std::vector<std::string> texts;
  const std::string all = orcd::test::read_vocabulary_file("golden.jsonl");
  for (std::size_t at = all.find('\n') + 1; at < all.size();) {  // behind the names of its columns
    const std::size_t end = all.find('\n', at);
    const auto row = boost::json::parse(std::string_view(all).substr(at, end - at)).as_array();
    texts.emplace_back(row[0].as_string());
    at = end + 1;
  }
  return texts;
}

const golden_blocks& golden() {
  static const golden_blocks blocks = [] {
    golden_blocks g{golden_texts(), {}};
    const auto file = boost::json::parse(orcd::test::read_vocabulary_file("pretokenizers.json")).as_object();
    for (const auto& text : file.at("random").as_array()) g.texts.emplace_back(text.as_string());
    for (const auto& [name, value] : file.at("columns").as_object()) {
      const std::string hashes(value.as_string());
      auto& column = g.columns[name];
      for (std::size_t i = 0; i + 8 <= hashes.size(); i += 8) {
        column.push_back(static_cast<std::uint32_t>(std::stoul(hashes.substr(i, 8), nullptr, 16)));
      }
    }
    return g;
  }();
  return blocks;
}

void hash_values(boost::crc_32_type& crc, const std::vector<token_id>& values) {
  for (const token_id value : values) {
    for (int shift = 0; shift < 32; shift += 8) {
      crc.process_byte(static_cast<unsigned char>(static_cast<std::uint32_t>(value) >> shift & 0xFF));
    }
  }
}

std::vector<token_id> word_sizes(const pretokenizer_preset& preset, const std::string& text) {
  std::vector<token_id> sizes;
  const pretokenizer words(preset.stages);
  const std::string normal = preset.nfc ? to_nfc(text) : text;
  // SentencePiece's spelling of a space is longer by two bytes.
  std::size_t longer = 0;
  if (preset.metaspace) longer = 2 * static_cast<std::size_t>(std::count(text.begin(), text.end(), ' '));
  words.split(normal,
              [&](std::string_view word) { sizes.push_back(static_cast<token_id>(word.size() + longer)); });
  return sizes;
}

// How many blocks differ of those that the column has.
std::size_t blocks_that_differ(const std::string& name, const tokenizer& t) {
  const golden_blocks& g = golden();
  const auto preset = find_preset(name);
  BOOST_TEST_REQUIRE(preset.has_value(), name);
  const auto& column = g.columns.at(name);
  BOOST_TEST_REQUIRE(column.size() == (g.texts.size() + block_size - 1) / block_size);
  std::size_t differ = 0;
  for (std::size_t block = 0; block < column.size(); ++block) {
    boost::crc_32_type crc;
    for (std::size_t i = block * block_size; i < std::min((block + 1) * block_size, g.texts.size()); ++i) {
      const auto ids = t.encode(g.texts[i], {false, false});
      hash_values(crc, {static_cast<token_id>(ids.size())});
      hash_values(crc, ids);
      hash_values(crc, word_sizes(*preset, g.texts[i]));
    }
    if (crc.checksum() == column[block]) continue;
    if (differ++ < 3) BOOST_TEST_MESSAGE("pretokenizer_golden.py " << name << " " << block);
  }
  return differ;
}

std::unique_ptr<tokenizer> load(const gguf_file& file, std::string_view pre) {
  auto made = make_gguf_tokenizer(file, pre);
  BOOST_TEST_REQUIRE(made.has_value(), (made.has_error() ? made.error().message : std::string()));
  return std::move(*made);
}

// A file of Gemma 4's kind with Phi-3's pieces: a merge for every two pieces that make one, best score first.
std::unique_ptr<tokenizer> load_gemma4() {
  const auto phi3 = gguf_file::open(ORCD_VOCABULARIES "/ggml-vocab-phi-3.gguf").value();
  const auto pieces = phi3.get_strings("tokenizer.ggml.tokens").value();
  const auto types = phi3.get_integers("tokenizer.ggml.token_type").value();
  const auto scores = phi3.get_floats("tokenizer.ggml.scores").value();
  std::set<std::string_view> usable;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (types[i] != 1 && types[i] != 6) continue;
    usable.insert(pieces[i]);
    order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  std::vector<std::string> merges;
  for (const std::size_t i : order) {
    const std::string_view piece = pieces[i];
    for (std::size_t cut = piece.size() - 1; cut > 0; --cut) {
      const auto left = piece.substr(0, cut);
      const auto right = piece.substr(cut);
      if (usable.count(left) != 0 && usable.count(right) != 0) {
        merges.push_back(std::string(left).append(" ").append(right));
      }
    }
  }
  orcd::test::gguf_writer writer;
  writer.add("general.architecture", "llama").add("tokenizer.ggml.model", "gemma4");
  writer.add("tokenizer.ggml.tokens", std::vector<std::string>(pieces.begin(), pieces.end()));
  writer.add("tokenizer.ggml.token_type", std::vector<std::int32_t>(types.begin(), types.end()));
  writer.add("tokenizer.ggml.merges", merges).add("tokenizer.ggml.unknown_token_id", std::uint32_t{0});
  const auto image = writer.build();
  return load(gguf_file::parse(image, "gemma4").value(), {});
}

BOOST_AUTO_TEST_SUITE(pretokenizer_golden)

BOOST_AUTO_TEST_CASE(ids_and_words_of_every_kind) {
  BOOST_TEST(golden().texts.size() > 14'000u);
  BOOST_TEST(golden().columns.size() > 30u);
  const auto file = gguf_file::open(ORCD_VOCABULARIES "/ggml-vocab-gpt-2.gguf").value();
  for (const auto& [name, column] : golden().columns) {
    if (name == "gemma4") continue;
    BOOST_TEST(blocks_that_differ(name, *load(file, name)) == 0u, name);
  }
  BOOST_TEST(blocks_that_differ("gemma4", *load_gemma4()) == 0u);
}

// One-sided texts: repeated, each would make a scanner that looks ahead or back too often quadratic.
const char* const units[] = {"1",
                             "12a",
                             "\xD9\xA3",
                             "a",
                             "A",
                             "Aa",
                             "aA",
                             " ",
                             "\n",
                             "\r\n",
                             " \n",
                             "\t",
                             "'",
                             "a'",
                             "a ",
                             " a",
                             "(",
                             "\xE4\xB8\xAD",
                             "\xEA\xB0\x80",
                             "\xCC\x81",
                             "\xE3\x80\x80",
                             "\xFF",
                             ". ",
                             "<sentinel:",
                             "<sentinel:1",
                             "IMGIMGA"};

double seconds_to_split(const pretokenizer& words, const std::string& text) {
  double best = 1e9;
  for (int round = 0; round < 3; ++round) {
    std::size_t size = 0;
    const std::clock_t start = std::clock();
    words.split(text, [&size](std::string_view word) { size += word.size(); });
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    BOOST_TEST(size == text.size());
  }
  return best;
}

std::string repeated(std::string_view unit, std::size_t size) {
  std::string text;
  while (text.size() < size) text += unit;
  return text;
}

BOOST_AUTO_TEST_CASE(the_time_is_linear_in_the_length) {
  constexpr std::size_t size = 25'000;
  constexpr int times = 8;
  for (const auto& [name, column] : golden().columns) {
    const pretokenizer words(find_preset(name)->stages);
    for (const char* unit : units) {
      const double once = seconds_to_split(words, repeated(unit, size));
      const double more = seconds_to_split(words, repeated(unit, times * size));
      // A quadratic scanner takes 64 times as long.
      BOOST_TEST(more < 3 * times * once + 0.02,
                 name << " " << unit << ": " << once << " s, " << more << " s");
    }
  }
}

// Names that share a row of the table share its golden; no other rules are left without one.
BOOST_AUTO_TEST_CASE(every_name_has_the_rules_of_a_column) {
  std::string names(preset_names());
  std::set<std::vector<split_rule>> covered;
  for (const auto& [name, column] : golden().columns) covered.insert(find_preset(name)->stages);
  std::size_t count = 0;
  for (std::size_t at = 0; at < names.size(); ++count) {
    const std::size_t end = std::min(names.find(' ', at), names.size());
    const auto preset = find_preset(std::string_view(names).substr(at, end - at));
    BOOST_TEST_REQUIRE(preset.has_value());
    BOOST_TEST(covered.count(preset->stages) == 1u, names.substr(at, end - at));
    at = end + 1;
  }
  BOOST_TEST(count >= 85u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
