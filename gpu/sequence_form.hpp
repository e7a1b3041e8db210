// How the tokens of a sequence attend to each other and which token types they have; the same for both
// backends.
#pragma once

#include <cstdint>

namespace orcd::gpu {

struct sequence_form {
  std::uint32_t end = 0;             ///< bidirectional: its number of tokens; 0: causal
  std::uint32_t second_segment = 0;  ///< position where the second segment begins; 0: there is none
};

}  // namespace orcd::gpu
