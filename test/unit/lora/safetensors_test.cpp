// Safetensors headers: every field that is checked, every cut.
#include "engine/lora/safetensors.hpp"

#include "test/unit/lora/helpers.hpp"

using namespace orcd;
using namespace orcd::test;

namespace {

void refuse(const bytes& image, std::initializer_list<std::string_view> parts,
            const engine::adapter_limits& limits = {}) {
  expect_refusal(engine::read_safetensors(image, "s", limits), parts);
}

safetensors_writer two_tensors() {
  safetensors_writer w;
  return w.add("x", some_matrix(2, 3, 1)).add("y", some_matrix(1, 4, 2), engine::ggml_type::bf16);
}

/// One entry over 24 bytes of data.
void refuse_entry(const std::string& entry, std::initializer_list<std::string_view> parts) {
  safetensors_writer w;
  w.data = bytes(24);
  refuse(w.build("{\"x\":" + entry + "}"), parts);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(safetensors)

BOOST_AUTO_TEST_CASE(tensors) {
  for (const char* padding : {"", "   ", "\n"}) {
    safetensors_writer w = two_tensors();
    const bytes image = w.build("{" + w.header + "}" + padding);
    const auto read = engine::read_safetensors(image, "s", {});
    BOOST_REQUIRE_MESSAGE(read.has_value(), read.error().message);
    BOOST_REQUIRE(read->tensors.size() == 2U);
    const engine::tensor_view &x = read->tensors[0], &y = read->tensors[1];
    BOOST_TEST(x.name == "x");
    BOOST_TEST(x.rows() == 2U);
    BOOST_TEST(x.cols() == 3U);
    BOOST_TEST((y.type == engine::ggml_type::bf16));
    BOOST_TEST(y.bytes == 8U);
    BOOST_TEST((y.data == image.data() + image.size() - 8));
  }
}

BOOST_AUTO_TEST_CASE(lengths) {
  bytes image = two_tensors().build();
  for (std::size_t size = 0; size < image.size(); ++size) {
    BOOST_TEST(!engine::read_safetensors(std::span(image).first(size), "s", {}));
  }
  image.push_back(std::byte{0});
  refuse(image, {"the tensors end at 32 of the data's 33 bytes"});
  engine::adapter_limits small;
  small.json_bytes = 16;
  refuse(image, {"header length", "the limit is 16"}, small);
  bytes endless(64, std::byte{0xFF});
  refuse(endless, {"header length at offset 0", "18446744073709551615"});
}

BOOST_AUTO_TEST_CASE(entries) {
  refuse_entry("3", {"tensor 'x' must be an object of dtype, shape and data_offsets"});
  refuse_entry(R"({"dtype":"F32","shape":[6]})", {"must be an object"});
  refuse_entry(R"({"dtype":"F32","shape":[6],"data_offsets":[0,24],"more":1})", {"must be an object"});
  refuse_entry(R"({"dtype":"F32","shape":[6],"offsets":[0,24]})", {"two data_offsets"});
  refuse_entry(R"({"type":"F32","shape":[6],"data_offsets":[0,24]})", {"dtype"});
  refuse_entry(R"({"dtype":7,"shape":[6],"data_offsets":[0,24]})", {"dtype"});
  refuse_entry(R"({"dtype":"I8","shape":[24],"data_offsets":[0,24]})", {"dtype 'I8'", "F32, F16 and BF16"});
  refuse_entry(R"({"dtype":"F32","form":[6],"data_offsets":[0,24]})", {"shape"});
  refuse_entry(R"({"dtype":"F32","shape":6,"data_offsets":[0,24]})", {"shape"});
  refuse_entry(R"({"dtype":"F32","shape":[1,1,1,1,6],"data_offsets":[0,24]})", {"at most 4"});
  refuse_entry(R"({"dtype":"F32","shape":[-6],"data_offsets":[0,24]})", {"whole numbers"});
  refuse_entry(R"({"dtype":"F32","shape":[6.0],"data_offsets":[0,24]})", {"whole numbers"});
  refuse_entry(R"({"dtype":"F32","shape":[2147483649],"data_offsets":[0,24]})", {"2147483648"});
  refuse_entry(R"({"dtype":"F32","shape":[2147483648,2147483648,4],"data_offsets":[0,24]})", {"64 bits"});
  refuse_entry(R"({"dtype":"F32","shape":[2147483648,2147483648,2],"data_offsets":[0,24]})", {"64 bits"});
  refuse_entry(R"({"dtype":"F32","shape":[5],"data_offsets":[0,24]})", {"has 24 bytes", "needs 20"});
  refuse_entry(R"({"dtype":"F32","shape":[6],"data_offsets":[0,24,24]})", {"two data_offsets"});
  refuse_entry(R"({"dtype":"F32","shape":[6],"data_offsets":[24,0]})", {"not in order"});
  refuse_entry(R"({"dtype":"F32","shape":[6],"data_offsets":[1,25]})", {"the data's 24 bytes"});
  refuse_entry(R"({"dtype":"F32","shape":[6],"data_offsets":[-1,23]})", {"not in order"});
  refuse_entry(R"({"dtype":"F32","shape":[6],"data_offsets":["0",24]})", {"not in order"});
  refuse_entry(R"({"dtype":"F32","shape":[5],"data_offsets":[4,24]})", {"begins at 4", "must be 0"});
}

BOOST_AUTO_TEST_CASE(places) {
  safetensors_writer overlap;
  overlap.data = bytes(24);
  overlap.add_entry("x", "F32", "[4]", 0, 16).add_entry("y", "F32", "[4]", 8, 24);
  refuse(overlap.build(), {"'y' begins at 8 of the data; it must be 16"});
  safetensors_writer same;
  same.data = bytes(16);
  same.add_entry("x", "F32", "[4]", 0, 16).add_entry("y", "F32", "[4]", 0, 16);
  refuse(same.build(), {"begins at 0 of the data; it must be 16"});
  safetensors_writer gap;
  gap.data = bytes(24);
  gap.add_entry("y", "F32", "[2]", 16, 24).add_entry("x", "F32", "[2]", 0, 8);
  refuse(gap.build(), {"'y' begins at 16 of the data; it must be 8"});
}

BOOST_AUTO_TEST_CASE(json) {
  safetensors_writer w = two_tensors();
  refuse(w.build("[]"), {"one JSON object"});
  refuse(w.build("{" + w.header), {"not valid JSON"});
  refuse(w.build("{" + w.header + "}}"), {"not valid JSON"});
  w.add_entry("x", "F32", "[6]", 0, 24);
  refuse(w.build(), {"the name 'x' occurs twice"});
  safetensors_writer text = two_tensors();
  refuse(text.add_raw(R"("__metadata__":{"format":1})").build(), {"'__metadata__' must be"});
  safetensors_writer list = two_tensors();
  refuse(list.add_raw(R"("__metadata__":["pt"])").build(), {"'__metadata__' must be"});
  // A name in a message is escaped.
  safetensors_writer odd;
  odd.data = bytes(24);
  refuse(odd.add_raw(R"("a\nb":1)").build(), {R"('a\x0ab')"});
}

BOOST_AUTO_TEST_SUITE_END()
