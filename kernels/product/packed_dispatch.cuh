// One switch over the packed formats for every kernel that is instantiated per format.
#pragma once

#include <type_traits>

#include "kernels/product/packed_matrix.hpp"

namespace orcd::kernels {

template <packed_format F>
using format_constant = std::integral_constant<packed_format, F>;

/// Calls `run(format_constant<F>{})` for the format given; `otherwise` for a value that is none.
#pragma nv_exec_check_disable  // `run` is host or device code, as its caller is
template <class Run, class Result>
ORCD_HD Result with_format(packed_format format, Result otherwise, Run&& run) {
  switch (format) {
    case packed_format::q4_0: return run(format_constant<packed_format::q4_0>{});
    case packed_format::q4_1: return run(format_constant<packed_format::q4_1>{});
    case packed_format::q5_0: return run(format_constant<packed_format::q5_0>{});
    case packed_format::q5_1: return run(format_constant<packed_format::q5_1>{});
    case packed_format::q8_0: return run(format_constant<packed_format::q8_0>{});
    case packed_format::q4_k: return run(format_constant<packed_format::q4_k>{});
    case packed_format::q5_k: return run(format_constant<packed_format::q5_k>{});
    case packed_format::q6_k: return run(format_constant<packed_format::q6_k>{});
    case packed_format::mxfp4: return run(format_constant<packed_format::mxfp4>{});
    case packed_format::q2_k: return run(format_constant<packed_format::q2_k>{});
    case packed_format::q3_k: return run(format_constant<packed_format::q3_k>{});
    case packed_format::iq4_nl: return run(format_constant<packed_format::iq4_nl>{});
    case packed_format::iq4_xs: return run(format_constant<packed_format::iq4_xs>{});
    case packed_format::nvfp4: return run(format_constant<packed_format::nvfp4>{});
    case packed_format::iq3_s: return run(format_constant<packed_format::iq3_s>{});
    case packed_format::iq3_xxs: return run(format_constant<packed_format::iq3_xxs>{});
    case packed_format::iq2_s: return run(format_constant<packed_format::iq2_s>{});
    case packed_format::iq2_xs: return run(format_constant<packed_format::iq2_xs>{});
    case packed_format::iq2_xxs: return run(format_constant<packed_format::iq2_xxs>{});
    case packed_format::f16: return run(format_constant<packed_format::f16>{});
    case packed_format::bf16: return run(format_constant<packed_format::bf16>{});
    case packed_format::f32: return run(format_constant<packed_format::f32>{});
  }
  return otherwise;
}

/// The same for one of `Formats`: nothing is compiled for others.
#pragma nv_exec_check_disable
template <std::uint32_t Formats, class Run>
ORCD_HD void with_format_of(packed_format format, Run&& run) {
  with_format(format, 0, [&](auto known) {
    if constexpr ((Formats & format_bit(decltype(known)::value)) != 0)
      run(known);
    else
      __builtin_unreachable();
    return 0;
  });
}

}  // namespace orcd::kernels
