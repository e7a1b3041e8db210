#include <algorithm>
#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <sstream>

#include "app/inspect/inspect.hpp"
#include "app/inspect/odd_things.hpp"
#include "app/inspect/speed_guess.hpp"
#include "engine/gguf/gguf_file.hpp"
#include "engine/model/model_tensors.hpp"
#include "test/support/temporary_directory.hpp"
#include "test/support/tiny_model.hpp"

using namespace orcd;
using namespace orcd::test;

namespace {

struct fixture {
  temporary_directory directory;
  std::string path = directory.file("tiny.gguf");

  /// The doctor's JSON of a file, and its exit status.
  boost::json::value examine(const gguf_writer& w, int status, std::vector<std::string_view> more = {}) {
    write_file(path, w.build());
    std::vector<std::string_view> words{"doctor", path, "--json"};
    words.insert(words.end(), more.begin(), more.end());
    std::istringstream in;
    std::ostringstream out;
    std::ostringstream err;
    BOOST_TEST(app::run_inspect(words, in, out, err) == status);
    BOOST_TEST(err.str() == "");
    return boost::json::parse(out.str());
  }
};

bool tells(const boost::json::value& list, std::string_view part) {
  const auto& texts = list.as_array();
  return std::any_of(texts.begin(), texts.end(), [&](const boost::json::value& text) {
    return std::string_view(text.as_string()).find(part) != std::string_view::npos;
  });
}

engine::gguf_file parsed(const bytes& image) {
  auto file = engine::gguf_file::parse(image, "tiny.gguf");
  BOOST_REQUIRE(file.has_value());
  return std::move(*file);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(doctor, fixture)

BOOST_AUTO_TEST_CASE(a_healthy_file) {
  tiny_model_options o;
  o.matrix_type = engine::ggml_type::q8_0;
  const auto value = examine(make_tiny_writer(o), 0, {"--vram-mib", "4096", "--ctx", "256"});
  BOOST_TEST(value.at("loads").as_bool());
  BOOST_TEST(value.at("loads_with_cuda").as_bool());
  BOOST_TEST(value.at("problems").as_array().empty());
  BOOST_TEST(value.at("fits").as_bool());
  BOOST_TEST(std::string_view(value.at("one_sequence").as_string()).starts_with("one kernel"));
  BOOST_TEST(value.at("speeds").as_array().size() == 2U);
  const bytes image = make_tiny_model(o);
  const engine::gguf_file file = parsed(image);
  const auto model = engine::load_model(file);
  const engine::tensor_view& rows = model->weights.token_embd;
  BOOST_TEST(value.at("bytes_per_token").to_number<std::uint64_t>() ==
             engine::payload_bytes(model->weights) - rows.bytes);
}

BOOST_AUTO_TEST_CASE(the_page_for_people) {
  write_file(path, make_tiny_model({}));
  std::istringstream in;
  std::ostringstream out;
  std::ostringstream err;
  BOOST_TEST(app::run_inspect(std::vector<std::string_view>{"doctor", path}, in, out, err) == 0);
  const std::string page = out.str();
  for (const char* part : {"loads         yes, on both backends", "model         ", "tokenizer     gguf-bpe",
                           "one stream    one kernel", "memory        ", "speed         about "}) {
    BOOST_TEST((page.find(part) != std::string::npos), part);
  }
  BOOST_TEST(std::count(page.begin(), page.end(), '\n') < 60);
}

BOOST_AUTO_TEST_CASE(all_problems_at_once) {
  gguf_writer w = make_tiny_writer({});
  w.remove("tokenizer.ggml.pre");
  w.add("tokenizer.ggml.pre", "of-tomorrow");
  w.remove_tensor("blk.0.attn_q.weight");
  w.remove_tensor("blk.1.ffn_down.weight");
  w.remove("tokenizer.chat_template");
  w.add("tokenizer.chat_template", "{% if %}");
  const auto value = examine(w, 1);
  BOOST_TEST(!value.at("loads").as_bool());
  for (const char* part : {"of-tomorrow", "blk.0.attn_q.weight", "blk.1.ffn_down.weight", "chat template"})
    BOOST_TEST(tells(value.at("problems"), part), part);
}

BOOST_AUTO_TEST_CASE(what_cuda_does_not_take) {
  tiny_model_options o;
  o.embedding = 1152;
  o.head_dim = 576;
  o.heads = 2;
  o.layers = 1;
  const auto value = examine(make_tiny_writer(o), 0);
  BOOST_TEST(value.at("loads").as_bool());
  BOOST_TEST(!value.at("loads_with_cuda").as_bool());
  BOOST_TEST(tells(value.at("cuda_problems"), "heads of 576"));
  BOOST_TEST(value.at("speeds").as_array().empty());
}

BOOST_AUTO_TEST_CASE(a_gpu_that_is_too_small_is_told_by_the_status) {
  const auto value = examine(make_tiny_writer({}), 3, {"--vram-mib", "300"});
  BOOST_TEST(value.at("loads").as_bool());
  BOOST_TEST(!value.at("fits").as_bool());
}

BOOST_AUTO_TEST_CASE(files_that_are_no_models_are_named) {
  const auto told = [this](std::initializer_list<std::pair<const char*, const char*>> keys) {
    gguf_writer w;
    for (const auto& [key, text] : keys) w.add(key, text);
    w.add_tensor("blk.0.attn_q.weight.lora_a", {4}, engine::ggml_type::f32, bytes(16));
    const auto value = examine(w, 1);
    BOOST_TEST(!value.at("loads").as_bool());
    const auto& problems = value.at("problems").as_array();
    BOOST_TEST_REQUIRE(problems.size() == 1U);
    return std::string(problems.front().as_string());
  };
  const auto says = [](const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  };
  BOOST_TEST(
      says(told({{"general.architecture", "llama"}, {"general.type", "adapter"}, {"adapter.type", "lora"}}),
           "is a LoRA adapter, and no model; a worker takes it by --lora"));
  BOOST_TEST(says(told({{"general.architecture", "controlvector"}}), "is a control vector"));
  BOOST_TEST(says(told({{"general.architecture", "clip"}}), "is a projector of images or sound"));
  BOOST_TEST(says(told({{"general.type", "imatrix"}}), "is an importance matrix"));
}

BOOST_AUTO_TEST_CASE(odd_things) {
  tiny_model_options o;
  o.matrix_type = engine::ggml_type::q8_0;
  o.embedding_type = engine::ggml_type::f16;
  o.tied_output = true;
  o.vocab = 400;
  o.yarn = true;
  gguf_writer w = make_tiny_writer(o);
  w.alignment = 256;
  w.add("quantize.imatrix.file", "calibration.dat");
  w.remove("llama.attention.head_count_kv");
  w.add("llama.attention.head_count_kv", std::vector<std::int32_t>{2, 2});
  w.remove("tokenizer.ggml.token_type");
  write_file(directory.file("mmproj-tiny.gguf"), bytes(4));
  const auto odd = examine(w, 0).at("odd");
  for (const char* part : {"aligned to 256", "calibration.dat", "head_count_kv", "output head, too",
                           "have no types", "YaRN", "16 or 32 bits", "mmproj-tiny.gguf"}) {
    BOOST_TEST(tells(odd, part), part);
  }
  BOOST_TEST(examine(make_tiny_writer({}), 0).at("odd").as_array().size() ==
             1U);  // the projector is still there
}

BOOST_AUTO_TEST_CASE(a_scale_beside_a_matrix_is_used) {
  tiny_model_options o;
  o.family = "bitnet";
  o.embedding = 256;
  o.ffn = 256;
  o.matrix_type = engine::ggml_type::i2_s;
  o.weight_scales = true;
  BOOST_TEST(!tells(examine(make_tiny_writer(o), 0).at("odd"), "nothing uses"));
}

BOOST_AUTO_TEST_CASE(more_bytes_or_more_kernels_are_slower) {
  tiny_model_options o;
  const bytes f32 = make_tiny_model(o);
  o.matrix_type = engine::ggml_type::q8_0;
  const bytes q8 = make_tiny_model(o);
  const engine::gguf_file large = parsed(f32);
  const engine::gguf_file small = parsed(q8);
  const auto fast = app::guess_speeds(*engine::load_model(small), true);
  const auto slow = app::guess_speeds(*engine::load_model(large), true);
  const auto many = app::guess_speeds(*engine::load_model(small), false);
  for (std::size_t card = 0; card < fast.size(); ++card) {
    BOOST_TEST(fast[card].tokens_per_second > slow[card].tokens_per_second);
    BOOST_TEST(fast[card].tokens_per_second > many[card].tokens_per_second);
    BOOST_TEST((fast[card].share > 0.0 && fast[card].share < 1.0));
  }
}

BOOST_AUTO_TEST_CASE(slower_memory_makes_no_model_faster) {
  for (const char* const family : {"llama", "gpt-oss"}) {
    for (const bool one_kernel : {true, false}) {
      tiny_model_options o;
      o.family = family;
      const bytes image = make_tiny_model(o);
      const engine::gguf_file file = parsed(image);
      const auto speeds = app::guess_speeds(*engine::load_model(file), one_kernel);
      BOOST_TEST_REQUIRE(speeds.size() == 2U);
      BOOST_TEST(speeds[0].card == "H100 SXM");
      BOOST_TEST(speeds[1].card == "H200");
      BOOST_TEST(speeds[0].tokens_per_second <= speeds[1].tokens_per_second);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
