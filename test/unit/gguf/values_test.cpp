#include <cstdint>
#include <limits>

#include "test/support/random_blocks.hpp"
#include "test/unit/gguf/expect.hpp"

using namespace orcd;
using namespace orcd::test;

namespace {

gguf_writer all_types() {
  gguf_writer w;
  w.add("u8", std::uint8_t{200}).add("i8", std::int8_t{-5}).add("u16", std::uint16_t{60'000});
  w.add("i16", std::int16_t{-300}).add("u32", std::uint32_t{4'000'000'000}).add("i32", std::int32_t{-7});
  w.add("u64", std::numeric_limits<std::uint64_t>::max()).add("i64", std::int64_t{1} << 40U);
  w.add("f32", 1.5F).add("f64", -2.25).add("yes", true).add("no", false).add("text", "h\xC3\xA9");
  w.add("strings", std::vector<std::string>{"one", "", "three"});
  w.add("floats", std::vector<float>{0.5F, -1.0F}).add("doubles", std::vector<double>{0.25});
  w.add("bytes", std::vector<std::uint8_t>{1, 255}).add("ints", std::vector<std::int32_t>{-1, 2, 3});
  w.add("longs", std::vector<std::uint64_t>{1, std::uint64_t{1} << 63U});
  w.add("nan", std::numeric_limits<float>::quiet_NaN()).add("inf", std::numeric_limits<double>::infinity());
  return w;
}

struct fixture {
  bytes image = all_types().build();
  engine::gguf_file file = parse(image).value();
};

template <class T>
std::string message_of(const engine::result<T>& r) {
  BOOST_REQUIRE_MESSAGE(!r, "was accepted");
  return r.error().message;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(values, fixture)

BOOST_AUTO_TEST_CASE(integers_of_every_width) {
  BOOST_TEST(*file.get_unsigned("u8", 0) == 200U);
  BOOST_TEST(*file.get_unsigned("u16", 0) == 60'000U);
  BOOST_TEST(*file.get_unsigned("u32", 0) == 4'000'000'000U);
  BOOST_TEST(*file.get_unsigned("u64", 0) == std::numeric_limits<std::uint64_t>::max());
  BOOST_TEST(*file.get_unsigned("i64", 0) == std::uint64_t{1} << 40U);
  BOOST_TEST(*file.get_unsigned("absent", 17) == 17U);
  BOOST_TEST(std::get<std::int64_t>(file.find("i8")->value) == -5);
  BOOST_TEST(std::get<std::int64_t>(file.find("i16")->value) == -300);
  BOOST_TEST((file.find("i16")->type == engine::gguf_value_type::i16));
}

BOOST_AUTO_TEST_CASE(getters_never_convert) {
  BOOST_TEST(message_of(file.get_unsigned("i32", 0)) == "test.gguf: key 'i32' is -7; it must be at least 0");
  BOOST_TEST(message_of(file.get_unsigned("f32", 0)) ==
             "test.gguf: key 'f32' has type f32; it must be an integer");
  BOOST_TEST(message_of(file.get_unsigned("yes", 0)).find("has type bool") != std::string::npos);
  BOOST_TEST(message_of(file.get_unsigned("ints", 0)).find("array of i32") != std::string::npos);
  BOOST_TEST(message_of(file.get_float("u8", 0)).find("must be f32 or f64") != std::string::npos);
  BOOST_TEST(message_of(file.get_float("nan", 0)).find("not a finite number") != std::string::npos);
  BOOST_TEST(message_of(file.get_float("inf", 0)).find("not a finite number") != std::string::npos);
  BOOST_TEST(message_of(file.get_bool("u8", false)).find("must be bool") != std::string::npos);
  BOOST_TEST(message_of(file.get_string("u8", "")).find("must be string") != std::string::npos);
  BOOST_TEST(message_of(file.get_strings("ints")).find("array of string") != std::string::npos);
  BOOST_TEST(message_of(file.get_strings("text")).find("has type string") != std::string::npos);
  BOOST_TEST(message_of(file.get_floats("ints")).find("array of f32 or f64") != std::string::npos);
  BOOST_TEST(message_of(file.get_floats("f32")).find("has type f32") != std::string::npos);
  BOOST_TEST(message_of(file.get_integers("floats")).find("array of integers") != std::string::npos);
  BOOST_TEST(message_of(file.get_integers("strings")).find("array of string") != std::string::npos);
  BOOST_TEST(message_of(file.get_integers("longs")).find("2^63") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(other_scalars) {
  BOOST_TEST(*file.get_float("f32", 0) == 1.5);
  BOOST_TEST(*file.get_float("f64", 0) == -2.25);
  BOOST_TEST(*file.get_float("absent", 3.5) == 3.5);
  BOOST_TEST(*file.get_bool("yes", false));
  BOOST_TEST(!*file.get_bool("no", true));
  BOOST_TEST(*file.get_bool("absent", true));
  BOOST_TEST(*file.get_string("text", "") == "h\xC3\xA9");
  BOOST_TEST(*file.get_string("absent", "x") == "x");
}

BOOST_AUTO_TEST_CASE(required_keys) {
  BOOST_TEST(*file.require_unsigned("u8") == 200U);
  BOOST_TEST(*file.require_string("text") == "h\xC3\xA9");
  BOOST_TEST(message_of(file.require_unsigned("absent")) == "test.gguf: key 'absent' is missing");
  BOOST_TEST(message_of(file.require_string("absent")) == "test.gguf: key 'absent' is missing");
}

BOOST_AUTO_TEST_CASE(arrays) {
  const auto strings = file.get_strings("strings").value();
  BOOST_REQUIRE(strings.size() == 3U);
  BOOST_TEST(strings[0] == "one");
  BOOST_TEST(strings[1] == "");
  BOOST_TEST(strings[2] == "three");
  BOOST_TEST(file.get_floats("floats").value() == (std::vector<float>{0.5F, -1.0F}),
             boost::test_tools::per_element());
  BOOST_TEST(file.get_floats("doubles").value() == std::vector<float>{0.25F},
             boost::test_tools::per_element());
  BOOST_TEST(file.get_integers("bytes").value() == (std::vector<std::int64_t>{1, 255}),
             boost::test_tools::per_element());
  BOOST_TEST(file.get_integers("ints").value() == (std::vector<std::int64_t>{-1, 2, 3}),
             boost::test_tools::per_element());
  BOOST_TEST(file.get_strings("absent").value().empty());
  BOOST_TEST(file.get_floats("absent").value().empty());
  BOOST_TEST(file.get_integers("absent").value().empty());
}

BOOST_AUTO_TEST_CASE(moving_keeps_the_views) {
  engine::gguf_file moved = std::move(file);
  BOOST_TEST(*moved.get_string("text", "") == "h\xC3\xA9");
  BOOST_TEST(moved.location() == "test.gguf");
  BOOST_TEST(moved.file_bytes() == image.size());
  BOOST_TEST(moved.parts().size() == 1U);
}

BOOST_AUTO_TEST_CASE(quant_kind_from_the_file_type_or_the_values) {
  const auto kind = [](std::optional<std::uint32_t> type) {
    gguf_writer w = small_writer();  // 4 values of F32, 64 of Q8_0
    if (type) w.add("general.file_type", *type);
    const bytes image = w.build();
    return parse(image).value().quant_kind();
  };
  BOOST_TEST(kind({}) == "Q8_0");
  BOOST_TEST(kind(15) == "Q4_K_M");
  BOOST_TEST(kind(1024 + 3) == "Q4_1");
  BOOST_TEST(kind(38) == "MXFP4");
  BOOST_TEST(kind(999) == "Q8_0");
}

BOOST_AUTO_TEST_CASE(half_conversion_of_the_test_support) {
  BOOST_TEST(to_half(1.0F) == 0x3C00);
  BOOST_TEST(to_half(-2.0F) == 0xC000);
  BOOST_TEST(to_half(65504.0F) == 0x7BFF);
  BOOST_TEST(to_half(65520.0F) == 0x7C00);
  BOOST_TEST(to_half(0x1.0p-24F) == 0x0001);
  BOOST_TEST(to_half(0x1.0p-14F) == 0x0400);
  BOOST_TEST(to_half(1.0F + 0x1.0p-11F) == 0x3C00);  // a tie goes to even
  BOOST_TEST(to_half(1.0F + 0x1.8p-10F) == 0x3C02);
}

BOOST_AUTO_TEST_SUITE_END()
