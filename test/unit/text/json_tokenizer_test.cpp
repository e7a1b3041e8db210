// tokenizer.json: every feature on small files, and files that lie or ask for what we do not have.
#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>

#include "engine/text/tokenizer.hpp"

using namespace orcd::engine;
namespace json = boost::json;

namespace {

using ids = std::vector<token_id>;

// Byte-level, Qwen-like; ids: a 0, b 1, c 2, ab 3, the space 4, e 5, U+0301's bytes 6 and 7, e9's 8 and 9.
json::object byte_level() {
  return json::parse(R"({
    "added_tokens": [
      {"id": 20, "content": "<|im_end|>", "special": true, "normalized": false},
      {"id": 21, "content": "<think>", "special": false, "normalized": false},
      {"id": 22, "content": "\u00e9!", "special": false, "normalized": true}],
    "normalizer": {"type": "NFC"},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Split", "pattern": {"Regex": "\\p{N}"}, "behavior": "Isolated", "invert": false},
      {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}]},
    "post_processor": {"type": "ByteLevel", "add_prefix_space": true},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "\u0120": 4, "e": 5, "\u00cc": 6,
      "\u0123": 7, "\u00c3": 8, "\u00a9": 9, "abc": 10},
      "merges": [["a", "b"]], "ignore_merges": false, "byte_fallback": false, "unk_token": null}
  })")
      .as_object();
}

// Phi-3-like; ids: <unk> 0, <s> 1, <0x0A> 2, U+2581 3, a 4, b 5, U+2581a 6.
json::object byte_fallback() {
  return json::parse(R"({
    "added_tokens": [
      {"id": 0, "content": "<unk>", "special": true},
      {"id": 1, "content": "<s>", "special": true},
      {"id": 7, "content": "<|end|>", "special": true, "rstrip": true, "normalized": false}],
    "normalizer": {"type": "Sequence", "normalizers": [
      {"type": "Prepend", "prepend": "\u2581"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
    "pre_tokenizer": null,
    "post_processor": {"type": "TemplateProcessing", "single": [
      {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]},
    "decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
      {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "byte_fallback": true, "fuse_unk": true, "unk_token": "<unk>",
      "vocab": {"<unk>": 0, "<s>": 1, "<0x0A>": 2, "\u2581": 3, "a": 4, "b": 5, "\u2581a": 6},
      "merges": ["\u2581 a"]}
  })")
      .as_object();
}

result<std::unique_ptr<tokenizer>> load(const json::object& root) {
  return make_json_tokenizer(std::string(json::serialize(root)));
}

std::unique_ptr<tokenizer> load_good(const json::object& root) {
  auto made = load(root);
  BOOST_TEST_REQUIRE(made.has_value(), (made.has_error() ? made.error().message : std::string()));
  return std::move(*made);
}

void check_ids(const ids& got, const ids& want) {
  BOOST_CHECK_EQUAL_COLLECTIONS(got.begin(), got.end(), want.begin(), want.end());
}

void check_refused(const result<std::unique_ptr<tokenizer>>& made, std::string_view why) {
  BOOST_TEST_REQUIRE(made.has_error(), why);
  BOOST_TEST(made.error().message.find(why) != std::string::npos, made.error().message);
  BOOST_TEST(made.error().message.starts_with("tokenizer.json: "));
}

BOOST_AUTO_TEST_SUITE(json_tokenizer)

BOOST_AUTO_TEST_CASE(byte_level_merges_and_added_tokens) {
  const auto tok = load_good(byte_level());
  BOOST_TEST(tok->kind() == "tokenizer.json/gpt-2");
  BOOST_TEST(tok->vocab_size() == 23u);
  check_ids(tok->encode("abc ab<|im_end|><think>"), {3, 2, 4, 3, 20, 21});
  check_ids(tok->encode("a<think>", {true, false}), {0, 21});
  BOOST_TEST(tok->decode(ids{3, 20, 21}, false) == "ab<think>");
  BOOST_TEST(tok->is_control(15));  // a hole between the ids
  BOOST_TEST(tok->is_end_of_generation(20));
  BOOST_TEST(tok->eos() == 20);
}

BOOST_AUTO_TEST_CASE(normalizes_before_it_looks_for_normalized_tokens) {
  const auto tok = load_good(byte_level());
  check_ids(tok->encode("e\xCC\x81"), {8, 9});
  check_ids(tok->encode("ae\xCC\x81!"), {0, 22});
  // Invalid bytes survive normalization in their place.
  check_ids(tok->encode("e\xCC\x81\xC3"), {8, 9, 8});
}

BOOST_AUTO_TEST_CASE(ignore_merges_takes_the_whole_word) {
  auto root = byte_level();
  root["model"].as_object()["ignore_merges"] = true;
  check_ids(load_good(root)->encode("abc"), {10});
}

BOOST_AUTO_TEST_CASE(byte_fallback_with_template) {
  const auto tok = load_good(byte_fallback());
  BOOST_TEST(tok->kind() == "tokenizer.json/byte-fallback");
  check_ids(tok->encode("a b\n"), {1, 6, 3, 5, 2});
  check_ids(tok->encode("zzz<|end|> \n a", {false, true}), {3, 0, 7, 6});  // unknown characters fuse
  check_ids(tok->encode("", {true, true}), {1});
  BOOST_TEST(tok->bos() == 1);
  BOOST_TEST(tok->decode(ids{1, 6, 3, 5, 2}, false) == "a b\n");
}

BOOST_AUTO_TEST_CASE(metaspace_prefixes_only_where_its_scheme_says) {
  auto root = byte_fallback();
  root["normalizer"] = nullptr;
  const auto with = [&](std::string_view scheme) {
    root["pre_tokenizer"] = {
        {"type", "Metaspace"}, {"replacement", "\xE2\x96\x81"}, {"prepend_scheme", scheme}, {"split", false}};
    return load_good(root)->encode("a<|end|>a", {false, true});
  };
  check_ids(with("always"), {6, 7, 6});
  check_ids(with("first"), {6, 7, 4});
  check_ids(with("never"), {4, 7, 4});
}

BOOST_AUTO_TEST_CASE(an_added_token_takes_the_id_that_the_vocabulary_gives_it) {
  auto root = byte_level();
  root["model"].as_object()["vocab"].as_object()["<think>"] = 11;
  check_ids(load_good(root)->encode("<think>"), {11});
}

BOOST_AUTO_TEST_CASE(text_that_is_no_tokenizer_is_refused) {
  check_refused(make_json_tokenizer(""), "not valid JSON");
  check_refused(make_json_tokenizer("{\"a\": \"\xFF\"}"), "not valid JSON");
  check_refused(make_json_tokenizer("[]"), "not an object");
  check_refused(make_json_tokenizer("{}"), "no object 'model'");
  check_refused(make_json_tokenizer(std::string(70, '[') + std::string(70, ']')), "64 levels");
  check_refused(make_json_tokenizer(std::string((64u << 20) + 1, ' ')), "the limit is 67108864");
}

// Changes one value, by JSON pointer, and expects a refusal.
void with(json::object root, std::string_view pointer, json::value value, std::string_view why) {
  json::value v = std::move(root);
  boost::system::error_code ec;
  const std::size_t slash = pointer.rfind('/');
  json::value* const parent = v.find_pointer(pointer.substr(0, slash), ec);
  BOOST_TEST_REQUIRE((parent != nullptr), pointer);
  if (parent->is_array()) {
    *v.find_pointer(pointer, ec) = std::move(value);
  } else {
    parent->as_object()[pointer.substr(slash + 1)] = std::move(value);
  }
  check_refused(load(v.as_object()), why);
}

BOOST_AUTO_TEST_CASE(what_is_not_implemented_is_refused_by_name) {
  with(byte_level(), "/model/type", "WordPiece", "'WordPiece' is not supported");
  with(byte_level(), "/model/dropout", 0.1, "dropout");
  with(byte_level(), "/model/end_of_word_suffix", "</w>", "end_of_word_suffix");
  with(byte_level(), "/model/byte_fallback", "yes", "not a boolean");
  with(byte_level(), "/normalizer/type", "Lowercase", "normalizer 'Lowercase'");
  with(byte_level(), "/pre_tokenizer/pretokenizers/0/pattern/Regex", "\\w+", "\\w+");
  with(byte_level(), "/pre_tokenizer/pretokenizers/0/behavior", "Removed", "behavior 'Removed'");
  with(byte_level(), "/pre_tokenizer/pretokenizers/1/add_prefix_space", true, "add_prefix_space");
  with(byte_level(), "/pre_tokenizer", {{"type", "Whitespace"}}, "pre_tokenizer 'Whitespace'");
  with(byte_level(), "/post_processor", {{"type", "BertProcessing"}}, "post_processor 'BertProcessing'");
  with(byte_level(), "/decoder", {{"type", "WordPiece"}}, "decoder 'WordPiece'");
  with(byte_fallback(), "/normalizer", nullptr, "neither ByteLevel");
}

BOOST_AUTO_TEST_CASE(lies_are_refused) {
  with(byte_level(), "/model/vocab/a", -1, "vocab has an id");
  with(byte_level(), "/model/vocab/a", 1'048'576, "vocab has an id");
  with(byte_level(), "/model/vocab/a", 1.5, "vocab has an id");
  with(byte_level(), "/model/vocab/a", 1, "two tokens of vocab have the id 1");
  with(byte_level(), "/model/vocab", json::array{}, "no object 'model.vocab'");
  with(byte_level(), "/model/merges", nullptr, "no list 'model.merges'");
  with(byte_level(), "/model/merges/0", "ab", "merges[0] is not two tokens");
  with(byte_level(), "/model/merges/0", {"a", "b", "c"}, "merges[0] is not two tokens");
  with(byte_level(), "/model/merges/0", {"a", "q"}, "merges[0] names a token");
  with(byte_level(), "/model/merges/0", "b a", "merges[0] names a token");
  with(byte_level(), "/added_tokens/0/id", 3, "id 3 of another token");
  with(byte_level(), "/added_tokens/0/content", "", "without content");
  with(byte_level(), "/added_tokens/0/special", 1, "'special' is not a boolean");
  with(byte_level(), "/added_tokens/0", 7, "without id");
  with(byte_level(), "/added_tokens", 7, "not a list");
  with(byte_fallback(), "/post_processor/single/0/SpecialToken/id", "<x>", "not in added_tokens");
  with(byte_fallback(), "/post_processor/single", json::array{}, "no place for the text");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
