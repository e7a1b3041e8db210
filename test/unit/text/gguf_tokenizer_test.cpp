// GGUF vocabularies made in memory: the rules around them, and files that lie.
#include <boost/test/unit_test.hpp>
#include <limits>

#include "engine/text/tokenizer.hpp"
#include "test/support/gguf_writer.hpp"

using namespace orcd::engine;
using orcd::test::gguf_writer;

namespace {

// A byte-level vocabulary of ASCII letters, the space and two merges; ids are positions.
struct tiny {
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  std::vector<std::string> merges{"a b", "ab c"};
  gguf_writer writer;

  tiny() {
    for (char c = 'a'; c <= 'z'; ++c) add(std::string(1, c), 1);
    add("ab", 1);          // 26
    add("abc", 1);         // 27
    add("\xC4\xA0", 1);    // 28, the space
    add("<|im_end|>", 3);  // 29
    add("<tool>", 4);      // 30
    add("[PAD1]", 5);      // 31
  }
  void add(std::string text, std::int32_t type) {
    tokens.push_back(std::move(text));
    types.push_back(type);
  }
  gguf_writer& write(const std::string& model = "gpt2", const std::string& pre = "gpt-2") {
    writer.add("general.architecture", "llama").add("tokenizer.ggml.model", model);
    writer.add("tokenizer.ggml.pre", pre).add("tokenizer.ggml.tokens", tokens);
    if (!types.empty()) writer.add("tokenizer.ggml.token_type", types);
    if (!merges.empty()) writer.add("tokenizer.ggml.merges", merges);
    return writer;
  }
};

result<std::unique_ptr<tokenizer>> load(const gguf_writer& writer, std::string_view pre = {}) {
  const auto image = writer.build();
  const auto file = gguf_file::parse(image, "test.gguf");
  BOOST_TEST_REQUIRE(file.has_value(), (file.has_error() ? file.error().message : std::string()));
  return make_gguf_tokenizer(*file, pre);  // must not look at the image afterwards
}

std::unique_ptr<tokenizer> load_good(const gguf_writer& writer, std::string_view pre = {}) {
  auto made = load(writer, pre);
  BOOST_TEST_REQUIRE(made.has_value(), (made.has_error() ? made.error().message : std::string()));
  return std::move(*made);
}

void check_refused(const gguf_writer& writer, std::string_view why, std::string_view pre = {}) {
  const auto made = load(writer, pre);
  BOOST_TEST_REQUIRE(made.has_error());
  BOOST_TEST(made.error().message.find(why) != std::string::npos, made.error().message);
  BOOST_TEST((made.error().code == errc::model_load_failed));
}

using ids = std::vector<token_id>;

void check_ids(const ids& got, const ids& want) {
  BOOST_CHECK_EQUAL_COLLECTIONS(got.begin(), got.end(), want.begin(), want.end());
}

BOOST_AUTO_TEST_SUITE(gguf_bpe)

BOOST_AUTO_TEST_CASE(merges_in_order_and_keeps_special_tokens_whole) {
  tiny t;
  const auto tok = load_good(t.write());
  check_ids(tok->encode("abc"), {27});
  check_ids(tok->encode("cab"), {2, 26});
  check_ids(tok->encode("ab<|im_end|>c"), {26, 29, 2});
  BOOST_TEST(tok->kind() == "gguf-bpe/gpt-2");
  BOOST_TEST(tok->vocab_size() == 32u);
  BOOST_TEST(tok->piece(28) == "\xC4\xA0");
  BOOST_TEST(tok->piece(-1) == "");
  BOOST_TEST(tok->piece(32) == "");
}

BOOST_AUTO_TEST_CASE(parse_special_false_leaves_control_text_but_cuts_user_defined) {
  tiny t;
  const auto tok = load_good(t.write());
  const ids got = tok->encode("<|im_end|>a<tool>", {false, false});
  // '<', '|', '_' and '>' have no tokens in this vocabulary, the letters do.
  check_ids(got, {8, 12, 4, 13, 3, 0, 30});
}

BOOST_AUTO_TEST_CASE(control_tokens_lie_outside_of_plain_parts) {
  tiny t;
  const auto tok = load_good(t.write());
  const std::vector<text_range> plain{{10, 10}};
  check_ids(tok->encode("<|im_end|><|im_end|>a<|im_end|>", {false, true, plain}),
            {29, 8, 12, 4, 13, 3, 0, 29});
}

BOOST_AUTO_TEST_CASE(text_that_begins_with_the_bos_gets_no_second_one) {
  tiny t;
  t.write().add("tokenizer.ggml.bos_token_id", std::uint32_t{29}).add("tokenizer.ggml.add_bos_token", true);
  const auto tok = load_good(t.writer);
  check_ids(tok->encode("<|im_end|>ab"), {29, 26});
  check_ids(tok->encode("<|im_end|>"), {29});
  check_ids(tok->encode("<|im_end|><|im_end|>ab"), {29, 29, 26});  // the second one is the text's
  check_ids(tok->encode("a<|im_end|>"), {29, 0, 29});
  const std::vector<text_range> plain{{0, 10}};
  check_ids(tok->encode("<|im_end|>", {true, true, plain}), {29, 8, 12, 4, 13, 3});
}

BOOST_AUTO_TEST_CASE(control_and_unused_tokens_print_nothing) {
  tiny t;
  const auto tok = load_good(t.write());
  for (const token_id id : {29, 31, -1, 32, std::numeric_limits<token_id>::max()})
    BOOST_TEST(tok->is_control(id));
  for (const token_id id : {0, 27, 30}) BOOST_TEST(!tok->is_control(id));
  BOOST_TEST(tok->decode(ids{27, 28, 29, 30, 31, -1, 99}, false) == "abc <tool>");
  BOOST_TEST(tok->decode(ids{27, 28, 29}, true) == "abc <|im_end|>");
}

BOOST_AUTO_TEST_CASE(bos_and_eos_follow_the_file_and_the_defaults) {
  tiny t;
  auto tok = load_good(t.write());
  BOOST_TEST(tok->bos() == -1);  // the file names none, and 11 would be meaningless
  BOOST_TEST(tok->eos() == 29);  // the best guess
  check_ids(tok->encode("a"), {0});
  t.writer.add("tokenizer.ggml.bos_token_id", std::uint32_t{31}).add("tokenizer.ggml.add_bos_token", true);
  t.writer.add("tokenizer.ggml.eos_token_id", std::uint32_t{30}).add("tokenizer.ggml.add_eos_token", true);
  tok = load_good(t.writer);
  check_ids(tok->encode("a"), {31, 0, 30});
  check_ids(tok->encode("a", {false, true}), {0});
  check_ids(tok->encode(""), {31, 30});
  const auto ends = tok->end_of_generation();
  check_ids({ends.begin(), ends.end()}, {29, 30});
  BOOST_TEST(tok->is_end_of_generation(30));
  BOOST_TEST(!tok->is_end_of_generation(0));
}

// GLM-4-0414 and FunctionGemma go on with a result that they invent: their files name other ends.
BOOST_AUTO_TEST_CASE(what_begins_a_result_ends_an_answer_though_the_file_does_not_say_so) {
  tiny t;
  t.add("<|observation|>", 3);
  t.add("<start_function_response>", 4);
  t.add("<start_function_response>x", 1);
  t.write().add("tokenizer.ggml.eos_token_id", std::uint32_t{29});
  const auto tok = load_good(t.writer);
  BOOST_TEST(tok->eos() == 29);
  BOOST_TEST(tok->is_end_of_generation(32));
  BOOST_TEST(tok->is_end_of_generation(33));
  BOOST_TEST(!tok->is_end_of_generation(34));
}

BOOST_AUTO_TEST_CASE(llama_bpe_adds_bos_and_ignores_merges) {
  tiny t;
  t.add("zz", 1);
  t.write("gpt2", "llama-bpe").add("tokenizer.ggml.bos_token_id", std::uint32_t{29});
  check_ids(load_good(t.writer)->encode("zz"), {29, 32});
  tiny u;
  u.add("zz", 1);
  check_ids(load_good(u.write("gpt2", "qwen2"))->encode("zz"), {25, 25});  // no merge leads there
}

BOOST_AUTO_TEST_CASE(ids_outside_the_vocabulary_are_ignored) {
  tiny t;
  t.write().add("tokenizer.ggml.bos_token_id", std::uint32_t{32}).add("tokenizer.ggml.add_bos_token", true);
  t.writer.add("tokenizer.ggml.eot_token_id", std::int32_t{-1});
  t.writer.add("tokenizer.ggml.eom_token_id", std::uint64_t{1} << 63);
  const auto tok = load_good(t.writer);
  BOOST_TEST(tok->bos() == -1);
  check_ids(tok->encode("a"), {0});
  BOOST_TEST(tok->end_of_generation().size() == 1u);
}

BOOST_AUTO_TEST_CASE(harmony_keeps_the_end_of_a_message_out_of_the_end_of_generation) {
  tiny t;
  for (const char* text : {"<|end|>", "<|return|>", "<|call|>", "<|channel|>"}) t.add(text, 3);
  const auto tok = load_good(t.write("gpt2", "gpt-4o"));
  BOOST_TEST(!tok->is_end_of_generation(32));
  BOOST_TEST(tok->is_end_of_generation(33));
  BOOST_TEST(tok->is_end_of_generation(34));
  BOOST_TEST(!tok->is_control(35));  // visible to whoever parses the message
  check_ids(tok->encode("<|channel|>", {false, true}), {35});
  check_ids(tok->encode("<|channel|>", {false, false}), {2, 7, 0, 13, 13, 4, 11});  // but cannot be injected
}

BOOST_AUTO_TEST_CASE(an_ordinary_word_is_not_mistaken_for_an_end) {
  tiny t;
  t.add("</s>", 1);        // a normal token of Qwen's vocabulary
  t.add("<|eot_id|>", 1);  // a control token that a converter forgot to mark
  const auto tok = load_good(t.write());
  BOOST_TEST(!tok->is_end_of_generation(32));
  BOOST_TEST(tok->is_end_of_generation(33));
  BOOST_TEST(tok->is_control(33));
}

BOOST_AUTO_TEST_CASE(a_chosen_pre_counts_instead_of_the_files) {
  tiny t;
  t.add("zz", 1);
  t.write("gpt2", "no-such").add("tokenizer.ggml.bos_token_id", std::uint32_t{29});
  const auto tok = load_good(t.writer, "llama-bpe");
  BOOST_TEST(tok->kind() == "gguf-bpe/llama-bpe");
  check_ids(tok->encode("zz"), {29, 32});
  check_ids(load_good(t.writer, "gpt-2")->encode("zz"), {25, 25});
  check_refused(t.writer, "--tokenizer-pre is 'other', which is not known", "other");
}

BOOST_AUTO_TEST_CASE(ends_and_infill_tokens_of_other_families_are_known) {
  tiny t;
  for (const char* text : {"[EOT]", "[EOS]", "[e~[", "<turn|>"}) t.add(text, 3);  // 32..35
  t.add("[EOS] ", 1);                                                             // an ordinary word
  t.add("<\uFF5Cfim\u2581begin\uFF5C>", 3);                                       // 37..39
  t.add("<\uFF5Cfim\u2581hole\uFF5C>", 3);
  t.add("<\uFF5Cfim\u2581end\uFF5C>", 3);
  const auto tok = load_good(t.write("gpt2", "deepseek-coder"));
  for (const token_id id : {32, 33, 34, 35}) BOOST_TEST(tok->is_end_of_generation(id), id);
  BOOST_TEST(!tok->is_end_of_generation(36));
  BOOST_TEST(tok->infill().usable());
  BOOST_TEST(tok->infill().prefix == 37);
  BOOST_TEST(tok->infill().suffix == 38);
  BOOST_TEST(tok->infill().middle == 39);
}

// Converters of Gemma 4 give its marks one type or another, and files name one end or another.
BOOST_AUTO_TEST_CASE(ends_of_gemma4_are_known_by_their_texts) {
  for (const std::int32_t type : {1, 3, 4}) {
    tiny t;
    for (const char* text : {"<turn|>", "<eos>", "<|tool_response>", "</s>"}) t.add(text, type);  // 32..35
    t.writer.add("tokenizer.ggml.eos_token_id", std::uint32_t{35});
    t.writer.add("tokenizer.ggml.eot_token_id", std::uint32_t{32});
    const auto tok = load_good(t.write("gemma4"));
    for (const token_id id : {32, 33, 34}) {
      BOOST_TEST(tok->is_end_of_generation(id), id);
      BOOST_TEST(tok->is_control(id), id);
    }
    BOOST_TEST(!tok->is_end_of_generation(35));
    BOOST_TEST(!tok->is_control(35));
    BOOST_TEST(tok->eos() == 29);  // not the one that the file names
    BOOST_TEST(tok->decode(ids{0, 35, 32}, false) == "a</s>");
    check_ids(tok->encode("a<turn|>", {false, true}), {0, 32});
  }
}

// BPE over SentencePiece's spelling: U+2581 for a space, no words, bytes for what has no token.
BOOST_AUTO_TEST_CASE(gemma4_merges_whole_texts) {
  tiny t;
  t.tokens.clear();
  t.types.clear();
  const char* hex = "0123456789ABCDEF";
  // Converters give some byte tokens the kind of a word.
  for (int b = 0; b < 256; ++b) t.add({'<', '0', 'x', hex[b / 16], hex[b % 16], '>'}, b % 2 == 0 ? 6 : 1);
  for (const char* text : {"a", "b", "\u2581", "\u2581a", "\u2581a\u2581", "\n", "\n\n", "<bos>"}) {
    t.add(text, text == std::string_view("<bos>") ? 3 : 1);  // 256..263
  }
  t.merges = {"\u2581 a", "\u2581a \u2581", "\n \n"};
  t.writer.add("general.architecture", "llama").add("tokenizer.ggml.model", "gemma4");
  t.writer.add("tokenizer.ggml.tokens", t.tokens).add("tokenizer.ggml.token_type", t.types);
  t.writer.add("tokenizer.ggml.merges", t.merges).add("tokenizer.ggml.bos_token_id", std::uint32_t{263});
  const auto tok = load_good(t.writer);
  BOOST_TEST(tok->kind() == "gguf-bpe/gemma4");
  check_ids(tok->encode(" a b"), {263, 260, 257});  // a token across words
  check_ids(tok->encode("ab\n\n\n", {false, true}), {256, 257, 262, 261});
  check_ids(tok->encode("\u00e9", {false, true}), {0xC3, 0xA9});
  BOOST_TEST(tok->decode(tok->encode(" a b\xff\u00e9\n", {false, false}), true) == " a b\xff\u00e9\n");
}

BOOST_AUTO_TEST_CASE(duplicates_and_useless_merges_do_no_harm) {
  tiny t;
  t.add("ab", 1);
  t.add("<|im_end|>", 3);
  t.add("", 3);
  t.merges = {"q", "a b", "ab c", "a b", "no such"};
  t.merges.erase(t.merges.begin());
  const auto tok = load_good(t.write());
  check_ids(tok->encode("ab<|im_end|>abc"), {26, 29, 27});
}

BOOST_AUTO_TEST_CASE(lies_are_refused) {
  {
    tiny t;
    t.types.pop_back();
    check_refused(t.write(), "has 31 entries, tokenizer.ggml.tokens has 32");
  }
  {
    tiny t;
    t.types[3] = 9;
    check_refused(t.write(), "token_type[3] is 9");
  }
  {
    tiny t;
    t.types[3] = -1;
    check_refused(t.write(), "token_type[3] is -1");
  }
  {
    tiny t;
    t.merges.push_back("ab");
    check_refused(t.write(), "merges[2]");
  }
  {
    tiny t;
    t.merges.push_back(" ab");
    check_refused(t.write(), "merges[2]");
  }
  {
    tiny t;
    t.merges.push_back("ab ");
    check_refused(t.write(), "merges[2]");
  }
  {
    tiny t;
    t.merges.clear();
    check_refused(t.write(), "merges is absent");
  }
  {
    tiny t;
    t.add("<0x-1>", 6);
    check_refused(t.write(), "<0xHH>");
  }
  {
    tiny t;
    t.add(std::string(65'536, 'a'), 1);
    check_refused(t.write(), "65536 bytes");
  }
  {
    tiny t;
    check_refused(t.write("gpt2", "no-such"),
                  "pre is 'no-such', which is not known; --tokenizer-pre NAME chooses one of: default gpt-2");
  }
  {
    tiny t;
    check_refused(t.write("t5"), "supported are gpt2");
  }
  {
    tiny t;
    check_refused(t.write().add("tokenizer.ggml.bos_token_id", "one"), "is not an integer");
  }
  {
    gguf_writer w;
    check_refused(w.add("general.architecture", "llama"), "tokenizer.ggml.model");
  }
  {
    gguf_writer w;
    check_refused(w.add("tokenizer.ggml.model", "gpt2"), "tokens is absent");
  }
}

BOOST_AUTO_TEST_SUITE_END()

struct tiny_spm : tiny {
  std::vector<float> scores;

  tiny_spm() {
    tokens.clear();
    types.clear();
    merges.clear();
    add("<unk>", 2);
    add("<s>", 3);
    add("</s>", 3);
    const char* hex = "0123456789ABCDEF";
    for (int b = 0; b < 256; ++b) add({'<', '0', 'x', hex[b / 16], hex[b % 16], '>'}, 6);  // 3..258
    for (const char* text : {"\xE2\x96\x81", "a", "b", "ab",
                             "\xE2\x96\x81"
                             "ab",
                             "ba"})
      add(text, 1);      // 259..
    add("<|user|>", 3);  // 265
    scores.assign(tokens.size(), 0.0f);
    scores[262] = -1.0f;
    scores[263] = -2.0f;
    scores[264] = -1.0f;
  }
  gguf_writer& write_spm() { return write("llama").add("tokenizer.ggml.scores", scores); }
};

BOOST_AUTO_TEST_SUITE(gguf_spm)

BOOST_AUTO_TEST_CASE(merges_by_score_and_falls_back_to_bytes) {
  tiny_spm t;
  const auto tok = load_good(t.write_spm());
  BOOST_TEST(tok->kind() == "gguf-spm");
  BOOST_TEST(tok->bos() == 1);
  BOOST_TEST(tok->eos() == 2);
  check_ids(tok->encode("ab"), {1, 263});
  check_ids(tok->encode("", {false, true}), {});
  check_ids(tok->encode("bab", {false, true}), {259, 264, 261});  // equal scores: the leftmost pair first
  check_ids(tok->encode("\xC3\xA9", {false, true}), {259, 3 + 0xC3, 3 + 0xA9});
  check_ids(tok->encode("\xFF", {false, true}), {259, 3 + 0xFF});
  BOOST_TEST(tok->decode(ids{1, 263, 3 + 0xC3, 3 + 0xA9}, false) == "ab\xC3\xA9");
}

BOOST_AUTO_TEST_CASE(a_pre_is_refused_where_no_words_are_cut) {
  tiny_spm t;
  check_refused(t.write_spm(), "--tokenizer-pre is for BPE; tokenizer.ggml.model is 'llama'", "gpt-2");
}

BOOST_AUTO_TEST_CASE(only_a_whole_decode_drops_the_leading_space) {
  tiny_spm t;
  const auto tok = load_good(t.write_spm());
  std::string streamed;
  tok->append_bytes(263, streamed);
  BOOST_TEST(streamed == " ab");
  BOOST_TEST(tok->decode(ids{263, 263}, false) == "ab ab");
  BOOST_TEST(tok->decode(ids{1, 263}, true) == "<s>ab");
  t.writer.add("tokenizer.ggml.add_space_prefix", false);
  const auto bare = load_good(t.writer);
  check_ids(bare->encode("ab", {false, true}), {262});
  BOOST_TEST(bare->decode(ids{263}, false) == " ab");
}

BOOST_AUTO_TEST_CASE(phi3_swallows_the_whitespace_behind_its_special_tokens) {
  tiny_spm t;
  check_ids(load_good(t.write_spm())->encode("<|user|>\nab", {false, true}), {265, 259, 3 + '\n', 262});
  t.writer.add("general.name", "Phi-3 mini");
  check_ids(load_good(t.writer)->encode("<|user|>\n ab<s> ab", {false, true}), {265, 263, 1, 259, 263});
}

BOOST_AUTO_TEST_CASE(lies_are_refused) {
  {
    tiny_spm t;
    check_refused(t.write("llama"), "scores has 0 entries");
  }
  {
    tiny_spm t;
    t.scores.pop_back();
    check_refused(t.write_spm(), "scores has 265 entries");
  }
  {
    tiny_spm t;
    t.scores[9] = std::numeric_limits<float>::quiet_NaN();
    check_refused(t.write_spm(), "scores[9]");
  }
  {
    tiny_spm t;
    t.tokens[7] = "<0x-1>";
    check_refused(t.write_spm(), "token 7");
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
