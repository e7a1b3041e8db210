// The kernels of one x86 level as a table.
#include "kernels/host/kernel_table.hpp"

namespace orcd::kernels::host::ORCD_ISA {

extern const kernel_table table;
const kernel_table table = {
    ORCD_ISA_LEVEL,  &dequantize_row,   &matmul_rows,        &attend,           &rms_norm_row,
    &swiglu_row,     &moe_route_column, &moe_combine_column, &layer_norm_row,   &gelu_row,
    &scale_row,      &round_row,        &causal_conv_block,  &sigmoid_gate_row, &recurrent_gates_column,
    &recurrent_head, &ternary_rows};

}  // namespace orcd::kernels::host::ORCD_ISA
