// How the tokens of a sequence see each other, the same for both backends.
#pragma once

#include <cstdint>

namespace orcd::gpu {

struct sequence_form {
  std::uint32_t end = 0;             ///< tokens of a sequence whose tokens see each other; 0 = causal
  std::uint32_t second_segment = 0;  ///< the position where it begins; 0 = there is none
};

}  // namespace orcd::gpu
