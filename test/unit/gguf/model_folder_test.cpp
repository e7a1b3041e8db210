#include "engine/gguf/model_folder.hpp"

#include <cstring>
#include <filesystem>

#include "engine/gguf/gguf_file.hpp"
#include "test/support/temporary_directory.hpp"
#include "test/unit/gguf/expect.hpp"

using namespace orcd;
using namespace orcd::test;
using engine::gguf_file;

namespace {

/// A model of this architecture behind a header with that one.
bytes wrapped(const std::string& architecture, std::uint32_t header, std::uint32_t version = 1) {
  gguf_writer writer;
  writer.add("general.architecture", architecture);
  writer.add_tensor("a", {4}, engine::ggml_type::f32, bytes(16, std::byte{7}));
  bytes out(256);
  std::memcpy(out.data(), "TRLM", 4);
  std::memcpy(out.data() + 4, &version, 4);
  std::memcpy(out.data() + 8, &header, 4);
  const bytes image = writer.build();
  out.insert(out.end(), image.begin(), image.end());
  return out;
}

std::string refusal(const bytes& image) {
  const auto file = gguf_file::parse(image, "model");
  BOOST_REQUIRE(!file);
  BOOST_TEST((file.error().code == engine::errc::model_load_failed));
  return file.error().message;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(model_folder)

BOOST_AUTO_TEST_CASE(a_model_behind_a_header) {
  const bytes image = wrapped("bitnet-b1.58", 1);
  const auto file = gguf_file::parse(image, "model");
  BOOST_REQUIRE_MESSAGE(file, (file ? "" : file.error().message));
  BOOST_TEST(file->header_architecture() == 1U);
  BOOST_TEST((file->find_tensor("a")->data[0] == std::byte{7}));
  BOOST_TEST(file->file_bytes() == image.size() - 256);
  const bytes llama = wrapped("llama", 2);
  BOOST_TEST(gguf_file::parse(llama, "model")->header_architecture() == 2U);
}

BOOST_AUTO_TEST_CASE(an_adapter_in_the_place_of_a_model_is_named) {
  constexpr std::string_view told = "is a LoRA adapter, and no model; a worker takes it by --lora";
  bytes image(256);
  std::memcpy(image.data(), "TRLA", 4);
  BOOST_TEST(refusal(image).find(told) != std::string::npos);
  for (const char* const name : {"adapter_config.json", "qmodel.lora"}) {
    const temporary_directory directory;
    write_file(directory.file(name), image);
    const auto file = gguf_file::open(directory.path().string());
    BOOST_TEST_REQUIRE(file.has_error());
    BOOST_TEST(file.error().message.find(told) != std::string::npos, name);
  }
}

BOOST_AUTO_TEST_CASE(a_header_that_is_wrong) {
  BOOST_TEST(refusal(wrapped("llama", 1)) ==
             "model: architecture of the TRLM header is 1, but general.architecture is 'llama'");
  BOOST_TEST(refusal(wrapped("llama", 0)) ==
             "model: architecture of the TRLM header is 0; it must be 1 (BitNet) or 2 (Llama)");
  BOOST_TEST(refusal(wrapped("llama", 2, 7)) == "model: version of the TRLM header is 7; it must be 1");
  bytes foreign = wrapped("llama", 2);
  foreign[256] = std::byte{0};
  BOOST_TEST(refusal(foreign).find("was written by another quantizer") != std::string::npos);
  for (const std::size_t length : {4U, 11U, 12U, 255U, 256U, 259U}) {
    bytes cut = wrapped("llama", 2);
    cut.resize(length);
    BOOST_TEST(!gguf_file::parse(cut, "model").has_value(), length);
  }
}

BOOST_AUTO_TEST_CASE(the_file_of_a_folder) {
  const temporary_directory directory;
  const auto found = [&] {
    const auto file = gguf_file::open(directory.path().string());
    return file ? std::string(file->location()) : file.error().message;
  };
  const bytes image = small_writer().build();
  write_file(directory.file("tokenizer.json"), image);
  write_file(directory.file("one.gguf"), image);
  BOOST_TEST(found() == directory.file("one.gguf"));
  write_file(directory.file("two.gguf"), image);
  BOOST_TEST(found().find("is a folder with 2 models (.gguf) and no qmodel.tensors") != std::string::npos);
  write_file(directory.file("qmodel.tensors"), image);
  BOOST_TEST(found() == directory.file("qmodel.tensors"));
}

BOOST_AUTO_TEST_CASE(the_first_part_of_a_split_model_is_the_folder_s) {
  const temporary_directory directory;
  for (const char* name : {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}) {
    write_file(directory.file(name), small_writer().build());
  }
  const auto file = gguf_file::open(directory.path().string());
  BOOST_REQUIRE(file.has_value());
  BOOST_TEST(file->location() == directory.file("m-00001-of-00002.gguf"));
}

BOOST_AUTO_TEST_SUITE_END()
