// A part of a text, by bytes.
#pragma once

#include <cstddef>

namespace orcd::engine {

struct text_range {
  std::size_t from = 0;
  std::size_t size = 0;

  friend bool operator==(const text_range&, const text_range&) = default;
};

}  // namespace orcd::engine
