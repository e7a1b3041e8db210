#include "vocabulary_files.hpp"

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <map>
#include <sstream>

namespace orcd::test {

namespace {

std::unique_ptr<engine::tokenizer> load(std::string_view name) {
  if (name == "qwen3" || name == "gpt-oss") {
    auto made = engine::make_json_tokenizer(read_vocabulary_file(std::string(name) + ".tokenizer.json"));
    BOOST_TEST_REQUIRE(made.has_value(), (made.has_error() ? made.error().message : std::string()));
    return std::move(*made);
  }
  const auto file = engine::gguf_file::open(ORCD_VOCABULARIES "/ggml-vocab-" + std::string(name) + ".gguf");
  BOOST_TEST_REQUIRE(file.has_value(), (file.has_error() ? file.error().message : std::string()));
  auto made = engine::make_gguf_tokenizer(*file);
  BOOST_TEST_REQUIRE(made.has_value(), (made.has_error() ? made.error().message : std::string()));
  return std::move(*made);
}

}  // namespace

std::string read_vocabulary_file(std::string_view name) {
  const std::string path = ORCD_VOCABULARIES "/" + std::string(name);
  std::ifstream in(path, std::ios::binary);
  BOOST_TEST_REQUIRE(in.is_open(), path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::uint32_t fnv(const std::vector<engine::token_id>& values) {
  std::uint32_t h = 0x811C9DC5;
  for (const engine::token_id v : values) {
    for (int shift = 0; shift < 32; shift += 8) {
      h = (h ^ (static_cast<std::uint32_t>(v) >> shift & 0xFF)) * 0x01000193;
    }
  }
  return h;
}

const engine::tokenizer& real_tokenizer(std::string_view name) {
  static std::map<std::string, std::unique_ptr<engine::tokenizer>, std::less<>> loaded;
  const auto at = loaded.find(name);
  if (at != loaded.end()) return *at->second;
  return *loaded.emplace(name, load(name)).first->second;
}

}  // namespace orcd::test
