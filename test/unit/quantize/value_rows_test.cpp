// Rows in types with a value each.
#include "app/quantize/value_rows.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "app/quantize/number_formats.hpp"

using namespace orcd;
using namespace orcd::app;
using engine::ggml_type;

namespace {

struct converted {
  bool done = false;
  std::vector<std::byte> row;

  template <class T>
  [[nodiscard]] T at(std::size_t byte) const {
    return load_number<T>(row.data() + byte);
  }
};

converted convert(const std::vector<float>& values, ggml_type to, std::size_t cols) {
  converted out;
  out.row.resize(engine::row_bytes(engine::traits_of(to), cols), std::byte{0xee});
  out.done = convert_row(source_type::f32, std::as_bytes(std::span(values)), to, cols, out.row);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(value_rows)

BOOST_AUTO_TEST_CASE(widening_is_exact_and_the_rest_is_zero) {
  const std::vector<std::uint16_t> bf16{0x3f80, 0xc000, 0x0001};
  std::vector<std::byte> row(4 * 5, std::byte{0xee});
  BOOST_TEST(convert_row(source_type::bf16, std::as_bytes(std::span(bf16)), ggml_type::f32, 5, row));
  const std::vector<float> wanted{1.0F, -2.0F, bfloat_to_float(1), 0.0F, 0.0F};
  BOOST_TEST(std::memcmp(row.data(), wanted.data(), row.size()) == 0);
  const std::vector<std::uint16_t> f16{0x3c00};
  BOOST_TEST(convert_row(source_type::f16, std::as_bytes(std::span(f16)), ggml_type::f32, 1,
                         std::span(row).first(4)));
  BOOST_TEST(load_number<float>(row.data()) == 1.0F);
}

BOOST_AUTO_TEST_CASE(bf16_rounds_to_nearest_even) {
  // The values halfway between two go to the even one.
  const auto out =
      convert({1.0F + 0x1p-8F, 1.0F + 0x1p-7F + 0x1p-8F, -1.0F - 0x1p-8F - 0x1p-20F}, ggml_type::bf16, 4);
  BOOST_TEST(out.done);
  BOOST_TEST(out.at<std::uint16_t>(0) == 0x3f80U);
  BOOST_TEST(out.at<std::uint16_t>(2) == 0x3f82U);
  BOOST_TEST(out.at<std::uint16_t>(4) == 0xbf81U);
  BOOST_TEST(out.at<std::uint16_t>(6) == 0U);
  BOOST_TEST(!convert({std::numeric_limits<float>::max()}, ggml_type::bf16, 1).done);
}

BOOST_AUTO_TEST_CASE(q8_0_blocks) {
  std::vector<float> values(32, 0.0F);
  values[0] = -127.0F;
  values[1] = 2.5F;  // away from zero
  values[2] = -2.5F;
  values[31] = 1.4F;
  const auto out = convert(values, ggml_type::q8_0, 64);
  BOOST_TEST(out.done);
  BOOST_TEST(out.at<std::uint16_t>(0) == 0x3c00U);
  BOOST_TEST(static_cast<int>(out.at<std::int8_t>(2)) == -127);
  BOOST_TEST(static_cast<int>(out.at<std::int8_t>(3)) == 3);
  BOOST_TEST(static_cast<int>(out.at<std::int8_t>(4)) == -3);
  BOOST_TEST(static_cast<int>(out.at<std::int8_t>(33)) == 1);
  for (std::size_t i = 34; i < 68; ++i) BOOST_TEST(static_cast<int>(out.at<std::int8_t>(i)) == 0);
}

BOOST_AUTO_TEST_CASE(small_and_large_values) {
  const auto tiny = convert(std::vector<float>(32, 1e-40F), ggml_type::q8_0, 32);
  BOOST_TEST(tiny.done);
  BOOST_TEST(tiny.at<std::uint16_t>(0) == 0U);
  BOOST_TEST(!convert(std::vector<float>(32, 1e30F), ggml_type::q8_0, 32).done);
  for (const ggml_type type : {ggml_type::f32, ggml_type::bf16, ggml_type::q8_0}) {
    BOOST_TEST(!convert(std::vector<float>(32, std::nanf("")), type, 32).done);
    BOOST_TEST(!convert(std::vector<float>(32, INFINITY), type, 32).done);
  }
}

BOOST_AUTO_TEST_SUITE_END()
