// Which of several places the tokenizer comes from.
#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "engine/text/tokenizer.hpp"
#include "test/support/gguf_writer.hpp"
#include "test/support/tiny_vocabulary.hpp"

using namespace orcd::engine;
namespace fs = std::filesystem;

namespace {

constexpr std::string_view small_json = R"({
  "added_tokens": [{"id": 2, "content": "<end>", "special": true},
    {"id": 3, "content": "<|im_end|>", "special": true}],
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}})";

// A directory with a model in it, removed at the end.
struct place {
  fs::path dir = fs::temp_directory_path() / ("orcd-make-tokenizer-" + std::to_string(::getpid()));
  orcd::test::gguf_writer writer;

  place() {
    fs::create_directories(dir / "other");
    writer.add("general.architecture", "llama");
  }
  ~place() { fs::remove_all(dir); }
  void put(const fs::path& name, std::string_view text) {
    std::ofstream(dir / name, std::ios::binary) << text;
  }
  result<std::unique_ptr<tokenizer>> make(const std::string& path = {}, std::string location = {},
                                          std::string_view pre = {}) {
    const auto image = writer.build();
    const auto file = gguf_file::parse(image, "model");
    BOOST_TEST_REQUIRE(file.has_value());
    const auto beside =
        find_tokenizer_file(*file, location.empty() ? (dir / "model.gguf").string() : location, path);
    if (!beside) return beside.error();
    return make_tokenizer(*file, *beside, pre);
  }
};

std::string kind_of(const result<std::unique_ptr<tokenizer>>& made) {
  return made ? std::string((*made)->kind()) : made.error().message;
}

bool mentions(const result<std::unique_ptr<tokenizer>>& made, std::string_view what) {
  return made.has_error() && made.error().message.find(what) != std::string::npos;
}

BOOST_AUTO_TEST_SUITE(make_tokenizer_suite)

BOOST_AUTO_TEST_CASE(the_gguf_comes_before_the_file_beside_it_and_a_path_before_both) {
  place p;
  p.put("tokenizer.json", small_json);
  p.put("other/tokenizer.json", small_json);
  BOOST_TEST(kind_of(p.make()) == "tokenizer.json/gpt-2");
  BOOST_TEST(kind_of(p.make("", "file://" + (p.dir / "model.gguf").string())) == "tokenizer.json/gpt-2");
  orcd::test::add_vocabulary(p.writer, orcd::test::make_bpe_vocabulary(), "gpt-2");
  BOOST_TEST(kind_of(p.make()) == "gguf-bpe/gpt-2");
  BOOST_TEST(kind_of(p.make((p.dir / "other").string())) == "tokenizer.json/gpt-2");
  BOOST_TEST(kind_of(p.make((p.dir / "other/tokenizer.json").string())) == "tokenizer.json/gpt-2");
}

BOOST_AUTO_TEST_CASE(a_chosen_pre_is_for_the_tokenizer_of_the_gguf) {
  place p;
  p.put("tokenizer.json", small_json);
  BOOST_TEST(mentions(p.make("", "", "qwen2"), "--tokenizer-pre is for the tokenizer of a GGUF"));
  orcd::test::add_vocabulary(p.writer, orcd::test::make_bpe_vocabulary(), "gpt-2");
  BOOST_TEST(kind_of(p.make("", "", "qwen2")) == "gguf-bpe/qwen2");
  place q;
  q.writer.add("tokenizer.huggingface.json", small_json);
  BOOST_TEST(mentions(q.make("", "", "qwen2"), "--tokenizer-pre is for the tokenizer of a GGUF"));
}

BOOST_AUTO_TEST_CASE(the_gguf_names_eos_for_a_tokenizer_json) {
  place p;
  p.writer.add("tokenizer.ggml.eos_token_id", std::uint32_t{2});
  p.put("tokenizer.json", small_json);
  const auto made = p.make();
  BOOST_TEST_REQUIRE(made.has_value());
  BOOST_TEST((*made)->eos() == 2);
  BOOST_TEST((*made)->is_end_of_generation(2));
  BOOST_TEST((*made)->is_end_of_generation(3));
  BOOST_TEST(!(*made)->is_end_of_generation(0));
}

BOOST_AUTO_TEST_CASE(a_json_inside_the_gguf_is_used) {
  place p;
  p.writer.add("tokenizer.huggingface.json", small_json);
  BOOST_TEST(kind_of(p.make()) == "tokenizer.json/gpt-2");
}

BOOST_AUTO_TEST_CASE(every_way_to_have_none_says_so) {
  place p;
  BOOST_TEST(mentions(p.make(), "--tokenizer"));
  BOOST_TEST(mentions(p.make("", "shm:/model"), "--tokenizer"));
  BOOST_TEST(
      mentions(p.make((p.dir / "absent.json").string()), "absent.json cannot be opened: No such file"));
  p.put("tokenizer.json", "{}");
  BOOST_TEST(mentions(p.make(), "no object 'model'"));
  fs::remove(p.dir / "tokenizer.json");
  BOOST_TEST_REQUIRE(::mkfifo((p.dir / "tokenizer.json").c_str(), 0600) == 0);
  BOOST_TEST(mentions(p.make(), "tokenizer.json is a pipe; it must be a plain file"));
  p.writer.add("tokenizer.ggml.model", "t5");
  BOOST_TEST(mentions(p.make(), "t5"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
