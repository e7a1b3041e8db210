// safetensors: what is read, and every way in which a file is refused.
#include "engine/safetensors/safetensors_file.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "test/support/temporary_directory.hpp"

using namespace orcd;
using engine::safetensor_type;
using engine::safetensors_file;

namespace {

std::string with_header(const std::string& header, std::size_t data) {
  const std::uint64_t length = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  out += header;
  for (std::size_t i = 0; i < data; ++i) out += static_cast<char>(i);
  return out;
}

engine::result<safetensors_file> parse(const std::string& image,
                                       const engine::safetensors_limits& limits = {}) {
  return safetensors_file::parse(std::as_bytes(std::span(image)), "f", limits);
}

const std::string two = R"({"__metadata__":{"format":"pt"},)"
                        R"("b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
                        R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}  )";

struct refused {
  const char* name;
  std::string header;
  std::size_t data;
  const char* message;
};
std::ostream& operator<<(std::ostream& out, const refused& r) {
  return out << r.name;
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

/// Two bytes "a", then another tensor of bytes.
std::string behind_a(const std::string& name, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},")" + name + R"(":{"dtype":"U8","shape":)" +
         shape + R"(,"data_offsets":)" + offsets + "}}";
}

const std::vector<refused> cases{
    {"empty object, data behind", "{}", 1, "the tensors end at 0 of the data, which have 1 bytes"},
    {"gap at the beginning", one("U8", "[2]", "[1,3]"), 3, "behind a gap"},
    {"overlap", behind_a("b", "[2]", "[1,3]"), 3, "inside the tensor before it"},
    {"same bytes twice", behind_a("b", "[2]", "[0,2]"), 2, "inside the tensor before it"},
    {"same name twice", behind_a("a", "[1]", "[2,3]"), 3, "there are two tensors 'a'"},
    {"too many bytes", one("U8", "[2]", "[0,3]"), 3, "U8 and its shape ask for 2"},
    {"product overflows", one("F64", "[4294967296,4294967296]", "[0,0]"), 0,
     "more than there are numbers for"},
    {"behind the end", one("U8", "[9]", "[0,9]"), 3, "the data have 3"},
    {"offset near 2^64", one("U8", "[1]", "[18446744073709551614,18446744073709551615]"), 3,
     "the data have 3"},
    {"end before begin", one("U8", "[1]", "[1,0]"), 1, "begin <= end"},
    {"three offsets", one("U8", "[1]", "[0,1,1]"), 1, "more than two data_offsets"},
    {"one offset", one("U8", "[1]", "[0]"), 1, "begin <= end"},
    {"negative", one("U8", "[-1]", "[0,1]"), 1, "the negative number -1"},
    {"fraction", one("U8", "[1.0]", "[0,1]"), 1, "a number with a fraction"},
    {"null", one("U8", "null", "[0,1]"), 1, "has null as a value"},
    {"unknown dtype", one("Q8", "[1]", "[0,1]"), 1, "the unknown dtype 'Q8'"},
    {"nine dimensions", one("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), 1, "more than 8 dimensions"},
    {"array in an array", one("U8", "[[1]]", "[0,1]"), 1, "an array where none belongs"},
    {"no shape", R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1, "lacks dtype, shape or data_offsets"},
    {"a field twice", R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1,
     "has dtype twice"},
    {"unknown field", R"({"a":{"strides":[1]}})", 0, "the unknown field 'strides'"},
    {"object in an entry", R"({"a":{"dtype":{}}})", 0, "an object where none belongs"},
    {"tensor that is a number", R"({"a":1})", 0, "a number where none belongs"},
    {"metadata that is a number", R"({"__metadata__":{"a":1}})", 0, "a number where none belongs"},
    {"metadata twice", R"({"__metadata__":{},"__metadata__":{}})", 0, "__metadata__ twice"},
    {"an array", "[]", 0, "does not begin with '{'"},
    {"not JSON", "{,}", 0, "is no JSON object"},
    {"object that does not end", R"({"a":)", 0, "is no JSON object"},
    {"two objects", "{}{}", 0, "goes on behind its object"},
    {"no name", R"({"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, "a tensor without a name"},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(safetensors)

BOOST_AUTO_TEST_CASE(reads_tensors_by_name_and_place) {
  const std::string image = with_header(two, 16);
  const auto file = parse(image);
  BOOST_REQUIRE_MESSAGE(file, (file ? "" : file.error().message));
  BOOST_REQUIRE_EQUAL(file->tensors().size(), 2U);
  const std::uint64_t begin = 8 + two.size();
  const auto* a = file->find("a");
  const auto* b = file->find("b");
  BOOST_REQUIRE(a != nullptr && b != nullptr);
  BOOST_TEST(a->offset == begin);
  BOOST_TEST((b->type == safetensor_type::bf16));
  BOOST_TEST(b->dims == 2U);
  BOOST_TEST(b->shape[1] == 3U);
  BOOST_TEST((file->at_offset(begin + 4) == b));
  BOOST_TEST((file->at_offset(begin + 5) == nullptr));
  BOOST_TEST((file->find("c") == nullptr));
  BOOST_TEST(static_cast<int>(file->bytes_of(*b)[0]) == 4);
}

BOOST_AUTO_TEST_CASE(a_tensor_without_bytes_hides_none_that_begins_there) {
  const std::string image = with_header(R"({"e":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                                        R"("a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})",
                                        1);
  const auto file = parse(image);
  BOOST_REQUIRE_MESSAGE(file, (file ? "" : file.error().message));
  BOOST_REQUIRE(file->at_offset(image.size() - 1) != nullptr);
  BOOST_TEST(file->at_offset(image.size() - 1)->name == "a");
}

BOOST_DATA_TEST_CASE(refuses, boost::unit_test::data::make(cases)) {
  const auto file = parse(with_header(sample.header, sample.data));
  BOOST_REQUIRE(!file);
  BOOST_TEST(file.error().message.find(sample.message) != std::string::npos, file.error().message);
  BOOST_TEST(file.error().message.find('\n') == std::string::npos);
}

BOOST_AUTO_TEST_CASE(no_shorter_file_is_one) {
  const std::string image = with_header(two, 16);
  for (std::size_t length = 0; length < image.size(); ++length) BOOST_TEST(!parse(image.substr(0, length)));
}

BOOST_AUTO_TEST_CASE(limits) {
  const std::string image = with_header(two, 16);
  BOOST_TEST(!parse(image, {.header_bytes = two.size() - 1}));
  BOOST_TEST(!parse(image, {.tensors = 1}));
  BOOST_TEST(!parse(with_header(one("U8", "[1]", "[0,1]"), 1), {.name_bytes = 11}));  // "data_offsets" has 12
  std::string far = image;
  std::memset(far.data(), 0xff, 8);
  BOOST_TEST(!parse(far));
}

BOOST_AUTO_TEST_CASE(a_write_after_opening_is_noticed) {
  const test::temporary_directory directory;
  const std::string path = directory.file("a.safetensors");
  const std::string image = with_header(two, 16);
  std::ofstream(path, std::ios::binary) << image;
  const auto file = safetensors_file::open(path);
  BOOST_REQUIRE_MESSAGE(file, (file ? "" : file.error().message));
  BOOST_TEST(!!file->check_intact());
  std::ofstream(path, std::ios::binary | std::ios::app) << "x";
  const auto checked = file->check_intact();
  BOOST_REQUIRE(!checked);
  BOOST_TEST(checked.error().message.find("written to") != std::string::npos);
  BOOST_TEST(!safetensors_file::open(directory.file("none")));
}

BOOST_AUTO_TEST_SUITE_END()
