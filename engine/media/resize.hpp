// Resizing in integers, the same bits on every processor: rows first, then columns, each pass with weights of
// 22 bits. A side that stays as it is has no pass. Equal to Pillow 12.2's Image.resize bit for bit. Pure.
// Source: Pillow's libImaging/Resample.c describes the filters; the order of the passes is that of its
// version 12.
#pragma once

#include <cstdint>

#include "engine/media/picture.hpp"

namespace orcd::engine {

/// Neither side of `from` or of the result is 0. Throws std::bad_alloc.
[[nodiscard]] picture resize(const picture& from, std::uint32_t width, std::uint32_t height,
                             resize_filter filter);

}  // namespace orcd::engine
