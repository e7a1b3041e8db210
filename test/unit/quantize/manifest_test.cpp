// Manifests as the SDKs write them, and every way in which one is refused.
#include "app/quantize/manifest.hpp"

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>

#include "test/support/temporary_directory.hpp"

using namespace orcd;
using namespace orcd::app;

namespace {

std::string stored(const std::string& name) {
  std::ifstream in(std::string(ORCD_TEST_DATA) + "/quantize/" + name, std::ios::binary);
  std::string out(std::istreambuf_iterator<char>(in), {});
  BOOST_REQUIRE(!out.empty());
  return out;
}

engine::result<manifest> parse(const std::string& image) {
  return parse_manifest(std::as_bytes(std::span(image)), "m");
}

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// A manifest of one bf16 vector of 4, with fields to spoil.
struct written {
  std::uint16_t shards = 1;
  std::string path = "a";
  std::uint32_t tensors = 1;
  std::uint8_t action = 0, dtype = 2;
  std::uint32_t rows = 4, cols = 1, padded_rows = 4, padded_cols = 1;
  std::uint16_t shard = 0;
  std::uint64_t offset = 100, bytes = 8;
  std::uint8_t has_scale = 0;
  std::uint16_t scale_shard = 0;
  std::uint64_t scale_offset = 0, scale_bytes = 0;
  std::string tail;

  [[nodiscard]] std::string image() const {
    std::string out;
    put(out, shards);
    put(out, static_cast<std::uint16_t>(path.size()));
    out += path;
    put(out, tensors);
    put(out, action);
    put(out, dtype);
    for (const auto extent : {rows, cols, padded_rows, padded_cols}) put(out, extent);
    put(out, shard);
    put(out, offset);
    put(out, bytes);
    put(out, has_scale);
    put(out, scale_shard);
    put(out, scale_offset);
    put(out, scale_bytes);
    return out + tail;
  }
};

void refuses(const std::function<void(written&)>& spoil, const std::string& message) {
  written w;
  spoil(w);
  const auto read = parse(w.image());
  BOOST_REQUIRE_MESSAGE(!read, "read, and should say: " << message);
  BOOST_TEST(read.error().message.find(message) != std::string::npos, read.error().message);
}

std::string lora_tail(std::uint32_t layers, std::uint32_t each, double scale) {
  std::string out;
  put(out, layers);
  put(out, each);
  put(out, scale);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(manifests)

BOOST_AUTO_TEST_CASE(the_first_layout_with_model_and_adapter) {
  const auto read = parse(stored("manifest_v1_model_lora.bin"));
  BOOST_REQUIRE_MESSAGE(read, (read ? "" : read.error().message));
  BOOST_TEST(read->shards.size() == 2U);
  BOOST_TEST(read->shards[0] == "tiny/model.safetensors");
  BOOST_REQUIRE_EQUAL(read->tensors.size(), 24U);
  const manifest_tensor& embedding = read->tensors[0];
  BOOST_TEST((embedding.action == tensor_action::embedding && embedding.type == source_type::bf16));
  BOOST_TEST(embedding.data.offset == 3928U);
  const manifest_tensor& k = read->tensors[4];
  BOOST_TEST((k.action == tensor_action::repack && k.type == source_type::u8));
  BOOST_TEST(k.rows == 32U);
  BOOST_TEST(k.data.offset == 88'410U);
  BOOST_REQUIRE(k.scale);
  BOOST_TEST(k.scale->offset == 96'602U);
  BOOST_REQUIRE(read->lora);
  BOOST_TEST(read->lora->layers == 2U);
  BOOST_TEST(read->lora->scale == 2.0);
  BOOST_REQUIRE_EQUAL(read->lora->targets.size(), 14U);
  BOOST_TEST(!read->lora->targets[0]);
  BOOST_REQUIRE(read->lora->targets[1]);
  BOOST_TEST(read->lora->targets[1]->b.rows == 128U);
  BOOST_TEST(read->lora->targets[1]->b.data.offset == 26'080U);
}

BOOST_AUTO_TEST_CASE(the_later_layout_and_adapters_alone) {
  const auto later = parse(stored("manifest_012_model.bin"));
  BOOST_REQUIRE_MESSAGE(later, (later ? "" : later.error().message));
  BOOST_TEST(later->tensors.size() == 24U);
  BOOST_TEST(!later->lora);
  BOOST_TEST((later->tensors[0].action == tensor_action::raw));
  for (const char* name : {"manifest_v1_lora_only.bin", "manifest_012_lora_only.bin"}) {
    const auto alone = parse(stored(name));
    BOOST_REQUIRE_MESSAGE(alone, name << (alone ? "" : alone.error().message));
    BOOST_TEST(alone->tensors.empty());
    BOOST_REQUIRE(alone->lora);
    BOOST_TEST(alone->lora->targets.size() == 14U);
  }
}

BOOST_AUTO_TEST_CASE(what_is_cut_is_refused_at_every_byte) {
  for (const char* name : {"manifest_v1_model_lora.bin", "manifest_v1_lora_only.bin",
                           "manifest_012_model.bin", "manifest_012_lora_only.bin"}) {
    const std::string whole = stored(name);
    // Cut where the tensors end it is a whole manifest without what follows.
    const bool alone = parse(whole)->tensors.empty();
    const std::size_t tail = parse(whole)->lora ? 354 : 13;
    const std::size_t tensors_end = alone ? whole.size() : whole.size() - tail;
    for (std::size_t length = 0; length < whole.size(); ++length) {
      const auto read = parse(whole.substr(0, length));
      BOOST_TEST(read.has_value() == (length == tensors_end), name << " cut to " << length);
      if (!read) BOOST_TEST(read.error().message.find('\n') == std::string::npos);
    }
    BOOST_TEST(!parse(whole + '\0'));
  }
}

BOOST_AUTO_TEST_CASE(one_tensor) {
  BOOST_TEST(!!parse(written{}.image()));
  written scaled;
  scaled.action = 3;
  scaled.dtype = 4;
  scaled.bytes = 4;
  scaled.has_scale = 1;
  scaled.scale_bytes = 2;
  BOOST_TEST(!!parse(scaled.image()));
}

BOOST_AUTO_TEST_CASE(codes_and_counts) {
  refuses([](written& w) { w.shards = 0; }, "number of shards");
  refuses([](written& w) { w.shards = 513; }, "number of shards");
  refuses([](written& w) { w.path = ""; }, "length of a shard's path");
  refuses([](written& w) { w.path = std::string(4097, 'a'); }, "length of a shard's path");
  refuses([](written& w) { w.path = std::string(1, '\0'); }, "has a zero byte");
  refuses([](written& w) { w.tensors = 0xffffffff; }, "number of tensors");
  refuses([](written& w) { w.tensors = 2; }, "as many as the rest of the file has bytes for");
  refuses([](written& w) { w.action = 4; }, "action");
  refuses([](written& w) { w.dtype = 5; }, "dtype");
  refuses([](written& w) { w.action = 3; }, "action 3 is for I8 and U8");
  refuses([](written& w) { w.dtype = 3, w.bytes = 4; }, "action 3 is for I8 and U8");
  refuses([](written& w) { w.has_scale = 2; }, "has scale");
  refuses([](written& w) { w.scale_bytes = 2; }, "is given although there is none");
  refuses([](written& w) { w.has_scale = 1, w.scale_bytes = 8; }, "scale");
  refuses([](written& w) { w.has_scale = 1, w.scale_bytes = 2, w.scale_shard = 1; }, "in shard 1 of 1");
}

BOOST_AUTO_TEST_CASE(sizes) {
  refuses([](written& w) { w.rows = 0; }, "rows");
  refuses([](written& w) { w.rows = 0xffffffff, w.cols = 0xffffffff; }, "rows");
  refuses([](written& w) { w.cols = (1U << 20U) + 1; }, "columns");
  refuses([](written& w) { w.bytes = 9; }, "rows, columns and dtype ask for 8");
  refuses([](written& w) { w.shard = 1; }, "in shard 1 of 1");
  refuses([](written& w) { w.offset = 0xffffffffffffffff; }, "ends beyond 64 bits");
  refuses([](written& w) { w.padded_rows = 5; }, "to the next multiple of 128");
  refuses([](written& w) { w.padded_rows = 256; }, "to the next multiple of 128");
  written padded;
  padded.padded_rows = 128;
  BOOST_TEST(!!parse(padded.image()));
}

BOOST_AUTO_TEST_CASE(sections) {
  const auto table = [](std::uint32_t count, std::uint8_t type, std::uint32_t first, std::uint32_t number) {
    std::string out;
    put(out, count);
    put(out, type);
    put(out, first);
    put(out, number);
    return out;
  };
  written w;
  w.tail = table(1, 1, 0, 1);
  BOOST_TEST(!!parse(w.image()));
  refuses([&](written& x) { x.tail = table(1, 2, 0, 1); }, "type of a section");
  refuses([&](written& x) { x.tail = table(1, 1, 1, 1); }, "first tensor of a section");
  refuses([&](written& x) { x.tail = table(1, 1, 0, 2); }, "number of tensors of all sections");
  refuses([&](written& x) { x.tail = table(0xffffffff, 1, 0, 1); }, "number of sections");
}

BOOST_AUTO_TEST_CASE(lora) {
  const std::string absent(7, '\0');
  written w;
  w.tail = lora_tail(1, 7, 0.5) + absent;
  BOOST_TEST(!!parse(w.image()));
  refuses([&](written& x) { x.tail = lora_tail(513, 7, 0.5) + absent; }, "number of LoRA layers");
  refuses([&](written& x) { x.tail = lora_tail(1, 8, 0.5) + absent; }, "LoRA targets a layer");
  refuses([&](written& x) { x.tail = lora_tail(1, 7, 0.0) + absent; }, "LoRA scale");
  refuses([&](written& x) { x.tail = lora_tail(1, 7, 1.0 / 0.0) + absent; }, "LoRA scale");
  refuses([&](written& x) { x.tail = lora_tail(1, 7, 0.5) + absent + absent; }, "7 bytes follow");
  refuses([&](written& x) { x.tail = lora_tail(1, 7, 0.5) + "\2" + absent; }, "present");
}

BOOST_AUTO_TEST_CASE(files) {
  const test::temporary_directory directory;
  BOOST_TEST(!read_manifest(directory.file("none")));
  BOOST_TEST(!read_manifest(directory.path().string()));
  const std::string path = directory.file("m");
  std::ofstream(path, std::ios::binary) << written{}.image();
  BOOST_TEST(!!read_manifest(path));
  std::filesystem::resize_file(path, manifest_limits::bytes + 1);
  const auto large = read_manifest(path);
  BOOST_REQUIRE(!large);
  BOOST_TEST(large.error().message.find("larger than the limit of") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
