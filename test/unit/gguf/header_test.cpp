#include <limits>

#include "test/unit/gguf/expect.hpp"

using namespace orcd;
using namespace orcd::test;
using engine::gguf_value_type;

namespace {

constexpr std::uint64_t huge = std::numeric_limits<std::uint64_t>::max();

std::uint32_t id(gguf_value_type type) {
  return static_cast<std::uint32_t>(type);
}

bytes raw_array(std::uint32_t element, std::uint64_t count) {
  bytes out;
  append_number(out, element);
  append_number(out, count);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(header)

BOOST_AUTO_TEST_CASE(accepts_versions_2_and_3) {
  for (const std::uint32_t version : {2U, 3U}) {
    gguf_writer w = small_writer();
    w.faults.version = version;
    const auto file = parse(w.build());
    BOOST_REQUIRE(file.has_value());
    BOOST_TEST(file->version() == version);
    BOOST_TEST(file->alignment() == 32U);
    BOOST_TEST(file->entries().size() == 2U);
    BOOST_TEST(file->tensors().size() == 2U);
    BOOST_TEST(file->tensor_bytes() == 84U);
  }
}

BOOST_AUTO_TEST_CASE(refuses_other_magic_and_versions) {
  gguf_writer w = small_writer();
  w.faults.magic = "FUGG";
  expect_refused(w.build(), {"magic", "offset 0", "'FUGG'", "'GGUF'"});
  w.faults.magic.reset();
  for (const std::uint32_t version : {0U, 1U, 4U, 0xFFFFFFFFU}) {
    w.faults.version = version;
    expect_refused(w.build(), {"version at offset 4", std::to_string(version), "2 and 3"});
  }
  w.faults.version = 0x03000000;
  expect_refused(w.build(), {"version", "big-endian"});
}

BOOST_AUTO_TEST_CASE(refuses_counts_over_the_limits) {
  gguf_writer w = small_writer();
  w.faults.tensor_count = 10'001;
  expect_refused(w.build(), {"tensor_count at offset 8", "10001", "10000"});
  w.faults.tensor_count = huge;
  expect_refused(w.build(), {"tensor_count", std::to_string(huge)});
  w.faults.tensor_count.reset();
  w.faults.entry_count = 4097;
  expect_refused(w.build(), {"metadata_kv_count at offset 16", "4097", "4096"});
  w.faults.entry_count = 1ULL << 63U;
  expect_refused(w.build(), {"metadata_kv_count"});
}

BOOST_AUTO_TEST_CASE(refuses_counts_that_the_file_has_no_room_for) {
  gguf_writer w = small_writer();
  w.faults.tensor_count = 9'000;
  expect_refused(w.build(), {"tensor_count", "9000", "at most"});
  w.faults.tensor_count.reset();
  w.faults.entry_count = 4'000;
  expect_refused(w.build(), {"metadata_kv_count", "4000", "at most"});
  w.faults.entry_count = 3;  // one more than there are: the first tensor's name is read as a key
  BOOST_TEST(!parse(w.build()).has_value());
}

BOOST_AUTO_TEST_CASE(limits_are_options) {
  engine::gguf_limits limits;
  limits.tensors = 1;
  expect_refused(small_writer().build(), {"tensor_count", "is 2", "limit is 1"}, limits);
  limits = {};
  limits.string_bytes = 4;
  expect_refused(small_writer().build(), {"value", "'general.architecture'", "length 5", "4"}, limits);
  limits = {};
  limits.key_bytes = 5;
  expect_refused(small_writer().build(), {"key", "length 20", "limit of 5"}, limits);
}

BOOST_AUTO_TEST_CASE(refuses_bad_keys) {
  gguf_writer w;
  w.add("", std::uint8_t{1});
  expect_refused(w.build(), {"key", "empty"});
  w = {};
  w.add(std::string("a\0b", 3), std::uint8_t{1});
  expect_refused(w.build(), {"key", "'a\\x00b'", "NUL"});
  w = {};
  w.add(std::string(65'536, 'k'), std::uint8_t{1});
  expect_refused(w.build(), {"key", "65536", "65535"});
  w = {};
  w.add("same", std::uint8_t{1}).add("same", std::uint8_t{2});
  expect_refused(w.build(), {"key 'same' occurs twice"});
}

BOOST_AUTO_TEST_CASE(refuses_bad_types_and_values) {
  gguf_writer w;
  w.add_raw("k", 13, bytes(8));
  expect_refused(w.build(), {"value type of key 'k'", "is 13", "0 to 12"});
  w = {};
  w.add_raw("k", id(gguf_value_type::boolean), bytes(1, std::byte{2}));
  expect_refused(w.build(), {"value of key 'k'", "byte 2", "0 or 1"});
  w = {};
  bytes long_text;
  append_number(long_text, huge);
  w.add_raw("k", id(gguf_value_type::string), long_text);
  expect_refused(w.build(), {"value of key 'k'", std::to_string(huge), "limit"});
}

BOOST_AUTO_TEST_CASE(refuses_bad_arrays) {
  const auto refuse = [](bytes payload, std::initializer_list<std::string_view> parts) {
    gguf_writer w;
    w.add_raw("k", id(gguf_value_type::array), std::move(payload));
    expect_refused(w.build(), parts);
  };
  refuse(raw_array(13, 1), {"array element type of key 'k'", "is 13"});
  refuse(raw_array(id(gguf_value_type::array), 1), {"arrays of arrays"});
  refuse(raw_array(id(gguf_value_type::u64), 1ULL << 61U), {"array count of key 'k'", "at most"});
  refuse(raw_array(id(gguf_value_type::string), huge), {"array count", std::to_string(huge)});
  refuse(raw_array(id(gguf_value_type::f32), 100), {"array count", "is 100"});
  bytes cut = raw_array(id(gguf_value_type::string), 2);
  append_string(cut, "12345678");
  append_number(cut, std::uint64_t{100});
  refuse(cut, {"array element of key 'k'"});
}

BOOST_AUTO_TEST_CASE(accepts_empty_arrays_and_strings) {
  gguf_writer w;
  w.add("none", std::vector<std::int32_t>()).add("no strings", std::vector<std::string>()).add("text", "");
  const bytes image = w.build();
  const auto file = parse(image);
  BOOST_REQUIRE(file.has_value());
  BOOST_TEST(file->get_integers("none")->empty());
  BOOST_TEST(file->get_strings("no strings")->empty());
  BOOST_TEST(*file->get_string("text", "x") == "");
}

BOOST_AUTO_TEST_CASE(alignment_must_be_a_power_of_two_within_limits) {
  for (const std::uint32_t good : {8U, 16U, 64U, 4096U}) {
    gguf_writer w = small_writer();
    w.alignment = good;
    const bytes image = w.build();
    const auto file = parse(image);
    BOOST_REQUIRE(file.has_value());
    BOOST_TEST(file->alignment() == good);
    BOOST_TEST(file->find_tensor("b")->file_offset % good == 0U);
  }
  for (const std::uint32_t bad : {0U, 1U, 3U, 4U, 48U, 8192U, 1U << 31U, 0xFFFFFFFFU}) {
    gguf_writer w = small_writer();
    w.alignment = bad;
    w.faults.layout_alignment = 32;
    expect_refused(w.build(), {"general.alignment", std::to_string(bad), "power of two from 8 to 4096"});
  }
  gguf_writer w = small_writer();
  w.add("general.alignment", std::uint64_t{32});
  expect_refused(w.build(), {"general.alignment", "u64", "must be u32"});
}

BOOST_AUTO_TEST_CASE(every_prefix_is_refused) {
  const bytes image = small_writer().build();
  for (std::size_t n = 0; n < image.size() - 28; ++n) {  // the last 28 bytes are padding
    const bytes prefix(image.begin(), image.begin() + static_cast<std::ptrdiff_t>(n));
    BOOST_TEST(!parse(prefix).has_value(), "a file cut to " << n << " bytes was accepted");
  }
}

BOOST_AUTO_TEST_CASE(hostile_text_in_a_message_is_short_and_printable) {
  gguf_writer w;
  w.add(std::string(5000, '\x1B'), std::uint8_t{1});
  w.entries.back().type = 99;
  const auto file = parse(w.build());
  BOOST_REQUIRE(!file);
  BOOST_TEST(file.error().message.size() < 600U);
  BOOST_TEST(file.error().message.find('\x1B') == std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
