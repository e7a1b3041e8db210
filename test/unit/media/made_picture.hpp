// Pictures that follow from their size, as test/oracle/media_pictures.py makes them.
#pragma once

#include <cstdint>

#include "engine/media/picture.hpp"

namespace orcd::test {

inline engine::picture made_picture(std::uint32_t width, std::uint32_t height) {
  engine::picture out{width, height, std::vector<std::uint8_t>(std::size_t{width} * height * 3)};
  for (std::size_t i = 0; i < out.rgb.size(); ++i) {
    std::uint32_t value = static_cast<std::uint32_t>(i) * 2'654'435'761U + width * 65'537U + height;
    value ^= value >> 15U;
    value *= 2'246'822'519U;
    out.rgb[i] = static_cast<std::uint8_t>(value >> 24U);
  }
  return out;
}

}  // namespace orcd::test
