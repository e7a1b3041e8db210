// Adapters on disk: which kind lies at a path; the same adapter in three formats; real sizes.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "test/support/temporary_directory.hpp"
#include "test/unit/lora/helpers.hpp"

using namespace orcd;
using namespace orcd::test;
using engine::ggml_type;
using engine::lora_target;
using engine::read_adapter;
namespace fs = std::filesystem;

namespace {

const std::string data = std::string(ORCD_TEST_DATA) + "/";

bytes contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  BOOST_REQUIRE_MESSAGE(!text.empty(), "cannot read " << path);
  bytes out(text.size());
  std::memcpy(out.data(), text.data(), text.size());
  return out;
}

bytes trla_of(const bytes& gguf) {
  bytes out(256);
  std::memcpy(out.data(), "TRLA\1\0\0\0", 8);
  out.insert(out.end(), gguf.begin(), gguf.end());
  return out;
}

void write_text(const std::string& path, std::string_view text) {
  write_file(path, std::as_bytes(std::span(text)));
}

/// The BitNet model and the adapter that lie in the test data.
struct with_bitnet {
  with_bitnet()
      : file(engine::gguf_file::open(data + "ternary/tiny-i2_s.gguf").value()),
        model(engine::load_model(file).value()) {}
  engine::gguf_file file;
  engine::model model;
};

struct with_llama {
  temporary_directory temporary;
  std::unique_ptr<loaded> base = load(tiny("llama"));
  const engine::model& model = base->model;

  bytes gguf(ggml_type type = ggml_type::f32) const {
    gguf_writer w = empty_adapter();
    add_pair(w, "blk.1.ffn_down.weight", 128, 64, 4, 3, type);
    return w.build();
  }
  void write_peft(const std::string& directory) const {
    fs::create_directory(directory);
    safetensors_writer w;
    w.add_pair("model.layers.1.mlp.down_proj", 128, 64, 4, 3);
    write_text(directory + "/adapter_config.json", plain_config);
    write_file(directory + "/adapter_model.safetensors", w.build());
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(adapters_of_bitnet, with_bitnet)

BOOST_AUTO_TEST_CASE(peft_directory) {
  const auto adapter = accepted(read_adapter(data + "lora", model));
  BOOST_REQUIRE(adapter.pairs.size() == 6U);
  using enum lora_target;
  for (std::size_t i = 0; i < 6; ++i) {
    BOOST_TEST(adapter.pairs[i].layer == i / 3);
    BOOST_TEST(adapter.pairs[i].rank == 8U);
    BOOST_TEST(adapter.pairs[i].scale == 2.0F);
  }
  BOOST_TEST((adapter.pairs[0].target == attn_q && adapter.pairs[1].target == attn_v));
  BOOST_TEST((adapter.pairs[5].target == ffn_down));
  BOOST_TEST(adapter.pairs[1].out == 128U);
  // BitNet's converters leave the rows of Q and K where they are, and so do the readers: all values are the
  // file's, one after another.
  const bytes file = contents(data + "lora/adapter_model.safetensors");
  BOOST_REQUIRE(file.size() > adapter.values.size() * sizeof(float));
  const std::size_t begin = file.size() - adapter.values.size() * sizeof(float);
  BOOST_TEST(std::memcmp(file.data() + begin, adapter.values.data(), file.size() - begin) == 0);
}

BOOST_AUTO_TEST_CASE(one_digest_for_three_formats) {
  const auto peft = accepted(read_adapter(data + "lora", model));
  const auto gguf = accepted(read_adapter(data + "lora/adapter.gguf", model));
  BOOST_TEST(gguf.digest == peft.digest);
  const temporary_directory temporary;
  write_file(temporary.file("qmodel.lora"), trla_of(contents(data + "lora/adapter.gguf")));
  BOOST_TEST(accepted(read_adapter(temporary.file("qmodel.lora"), model)).digest == peft.digest);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(adapters_on_disk, with_llama)

BOOST_AUTO_TEST_CASE(kinds) {
  write_file(temporary.file("a.gguf"), gguf());
  write_file(temporary.file("b.lora"), trla_of(gguf(ggml_type::bf16)));
  write_peft(temporary.file("dir"));
  const std::string digest = accepted(read_adapter(temporary.file("a.gguf"), model)).digest;
  BOOST_TEST(accepted(read_adapter(temporary.file("b.lora"), model)).digest == digest);
  BOOST_TEST(accepted(read_adapter(temporary.file("dir"), model)).digest == digest);
  BOOST_TEST(accepted(read_adapter(temporary.file("dir/"), model)).digest == digest);
}

BOOST_AUTO_TEST_CASE(nothing_there) {
  expect_refusal(read_adapter(temporary.file("none"), model), {"/none: there is no such file"},
                 engine::errc::not_found);
  expect_refusal(read_adapter(temporary.file("none/below"), model), {"there is no such file"},
                 engine::errc::not_found);
}

BOOST_AUTO_TEST_CASE(directories) {
  const std::string directory = temporary.file("dir");
  fs::create_directory(directory);
  expect_refusal(read_adapter(directory, model), {"is a directory without adapter_config.json"});
  write_text(directory + "/adapter_config.json", plain_config);
  expect_refusal(read_adapter(directory, model), {"adapter_model.safetensors", "open"});
  write_text(directory + "/adapter_model.bin", "pickle");
  expect_refusal(read_adapter(directory, model), {"adapter_model.bin", "pickle", "not supported"});
  write_text(directory + "/adapter_model.safetensors", "");
  expect_refusal(read_adapter(directory, model), {"adapter_model.safetensors: is empty"});
  write_peft(directory);
  write_text(directory + "/adapter_config.json", R"({"r": 4})");
  expect_refusal(read_adapter(directory, model), {"adapter_config.json: 'lora_alpha' is missing"});
  engine::adapter_limits small;
  small.json_bytes = 7;
  expect_refusal(read_adapter(directory, model, small), {"adapter_config.json: has 8 bytes; the limit is 7"});
}

BOOST_AUTO_TEST_CASE(paths) {
  expect_refusal(read_adapter("", model), {"must have 1 to 4096 bytes"});
  expect_refusal(read_adapter(std::string(4097, 'x'), model), {"1 to 4096 bytes"});
  expect_refusal(read_adapter(std::string("a\0b", 3), model), {R"('a\x00b')"});
  expect_refusal(read_adapter("a\nb", model), {R"('a\x0ab')"});
  BOOST_REQUIRE(mkfifo(temporary.file("pipe").c_str(), 0600) == 0);
  expect_refusal(read_adapter(temporary.file("pipe"), model), {"is a pipe"});
  write_text(temporary.file("text"), "GGUT");
  expect_refusal(read_adapter(temporary.file("text"), model), {"neither GGUF nor TRLA"});
  write_file(temporary.file("large"), gguf());
  engine::adapter_limits small;
  small.file_bytes = 100;
  expect_refusal(read_adapter(temporary.file("large"), model, small), {"the limit is 100"});
}

BOOST_AUTO_TEST_CASE(what_may_not_be_read_is_not_looked_at) {
  write_file(temporary.file("a.gguf"), gguf());
  write_peft(temporary.file("dir"));
  std::size_t asked = 0;
  engine::adapter_access access{.name = "x/y"};
  access.allowed = [&](int descriptor) -> engine::result<void> {
    BOOST_TEST(descriptor >= 0);
    if (++asked == 1) return {};
    return engine::error(engine::errc::forbidden, "no");
  };
  (void)accepted(read_adapter(temporary.file("a.gguf"), model, {}, access));
  expect_refusal(read_adapter(temporary.file("a.gguf"), model, {}, access), {"no"}, engine::errc::forbidden);
  asked = 0;  // the directory's second file
  expect_refusal(read_adapter(temporary.file("dir"), model, {}, access), {"no"}, engine::errc::forbidden);
  BOOST_TEST(asked == 2U);
}

/// A client is told of what it has named.
BOOST_AUTO_TEST_CASE(messages_have_the_name_that_was_given) {
  const engine::adapter_access access{.name = "mine"};
  write_text(temporary.file("text"), "GGUT");
  const auto message = [&](const std::string& file) {
    const auto read = read_adapter(temporary.file(file), model, {}, access);
    BOOST_REQUIRE(!read);
    BOOST_TEST(read.error().message.find(temporary.path()) == std::string::npos, read.error().message);
    return read.error().message;
  };
  BOOST_TEST(message("text").starts_with("mine: is no adapter"));
  BOOST_TEST(message("none").starts_with("mine: there is no such"));
  write_peft(temporary.file("dir"));
  write_text(temporary.file("dir") + "/adapter_model.safetensors", "");
  BOOST_TEST(message("dir").starts_with("mine/adapter_model.safetensors: is empty"));
  write_text(temporary.file("dir") + "/adapter_config.json", "{");
  write_text(temporary.file("dir") + "/adapter_model.safetensors", "x");
  BOOST_TEST(message("dir").starts_with("mine/adapter_config.json: is not valid JSON"));
}

BOOST_AUTO_TEST_CASE(a_file_that_is_written_to_meanwhile_is_refused) {
  write_file(temporary.file("a.gguf"), gguf());
  engine::adapter_access access;
  access.allowed = [&](int) -> engine::result<void> {
    write_file(temporary.file("a.gguf"), gguf(ggml_type::bf16));
    return {};
  };
  expect_refusal(read_adapter(temporary.file("a.gguf"), model, {}, access), {"changed or truncated"});
}

BOOST_AUTO_TEST_CASE(nobody_waits_for_it_any_more) {
  write_peft(temporary.file("dir"));
  std::stop_source stop;
  engine::adapter_access access{.stop = stop.get_token()};
  (void)accepted(read_adapter(temporary.file("dir"), model, {}, access));
  stop.request_stop();
  expect_refusal(read_adapter(temporary.file("dir"), model, {}, access), {}, engine::errc::cancelled);
}

BOOST_AUTO_TEST_CASE(trla_headers) {
  const bytes good = trla_of(gguf());
  const auto read = [&](const bytes& image) { return engine::read_adapter_image(image, "t", model); };
  BOOST_TEST(accepted(read(good)).pairs.size() == 1U);
  for (const std::size_t at : {8U, 11U, 12U, 255U}) {
    bytes used = good;
    used[at] = std::byte{7};
    expect_refusal(read(used), {"reserved bytes at offset " + std::to_string(at), "is 7"});
  }
  bytes later = good;
  later[4] = std::byte{2};
  expect_refusal(read(later), {"version at offset 4: is 2; supported is 1"});
  bytes foreign = good;
  foreign[256] = std::byte{0};
  expect_refusal(read(foreign), {"no GGUF image behind its header", "another program"});
  for (std::size_t size = 4; size < good.size(); size += size < 700 ? 3 : 97) {
    BOOST_TEST(!read(bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size))));
  }
  expect_refusal(read(trla_of(gguf(ggml_type::f16))),
                 {"has type F16; in a TRLA file it must be F32 or BF16"});
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(adapters_of_real_size)

/// Every matrix of 30 layers at rank 16, in F16 and in PEFT's names: 420 tensors.
BOOST_AUTO_TEST_CASE(thirty_layers) {
  tiny_model_options o;
  o.layers = 30;
  o.embedding = 576;
  o.heads = 9;
  o.kv_heads = 3;
  o.ffn = 1536;
  o.matrix_type = ggml_type::q4_0;
  const auto base = load(make_tiny_writer(o));
  safetensors_writer w;
  const auto add = [&](std::uint32_t layer, const char* module, std::uint64_t in, std::uint64_t out) {
    w.add_pair("base_model.model.model.layers." + std::to_string(layer) + "." + module, in, out, 16,
               layer * 10, ggml_type::f16);
  };
  for (std::uint32_t layer = 0; layer < 30; ++layer) {
    add(layer, "self_attn.q_proj", 576, 576);
    add(layer, "self_attn.k_proj", 576, 192);
    add(layer, "self_attn.v_proj", 576, 192);
    add(layer, "self_attn.o_proj", 576, 576);
    add(layer, "mlp.gate_proj", 576, 1536);
    add(layer, "mlp.up_proj", 576, 1536);
    add(layer, "mlp.down_proj", 1536, 576);
  }
  const auto adapter = accepted(read_peft(w, base->model, R"({"r": 16, "lora_alpha": 32})"));
  BOOST_TEST(adapter.pairs.size() == 210U);
  BOOST_TEST(adapter.rank_max == 16U);
  BOOST_TEST(adapter.values.size() == 30U * 16U * (2 * 1152 + 2 * 768 + 3 * 2112));
  BOOST_TEST(adapter.pairs.back().layer == 29U);
  const engine::lora_pair& last = adapter.pairs.back();
  const matrix b = some_matrix(576, 16, 291);
  BOOST_TEST(std::equal(b.values.begin(), b.values.end(), adapter.b(last)));
}

BOOST_AUTO_TEST_SUITE_END()
