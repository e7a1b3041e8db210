// Which kernel a decode program gets; it is in program_kernel.cuh.
#include <cuda_runtime.h>

#include "kernels/decode_program/decode_program_launch.hpp"
#include "kernels/decode_program/program_codes.hpp"
#include "kernels/device/launch.cuh"

namespace orcd::kernels {
namespace {

template <class Code>
int launch_plain(const decode_program& program, CUstream_st* stream) {
  return program.sequences > 1 ? sequences_kernels<Code>::launch(program, stream)
                               : program_kernels<Code>::launch(program, stream);
}

template <class Code>
int launch_with(const decode_program& program, CUstream_st* stream) {
  return program.adapters.phases != nullptr ? program_kernels<adapted<Code>>::launch(program, stream)
                                            : launch_plain<Code>(program, stream);
}

bool is_whole(const program_adapters& adapters) {
  return adapters.phases == nullptr || (adapters.values != nullptr && adapters.inner != nullptr);
}

}  // namespace

std::uint32_t decode_program_blocks() {
  int device = 0;
  int cooperates = 0;
  int reserved = 0;
  std::uint32_t multiprocessors = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&cooperates, cudaDevAttrCooperativeLaunch, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&reserved, cudaDevAttrReservedSharedMemoryPerBlock, device) != cudaSuccess ||
      multiprocessor_count(multiprocessors) != cudaSuccess)
    return 0;
  return cooperates != 0 && reserved == static_cast<int>(program_reserved_bytes) ? multiprocessors : 0;
}

int launch_decode_program(const decode_program& program, CUstream_st* stream) {
  if (program.phases == nullptr || program.shares == nullptr || program.state == nullptr ||
      program.words == nullptr || program.steps == nullptr || program.sequences == 0 ||
      program.sequences > program_sequences_max || program.count == 0 || program.blocks == 0 ||
      program.work_bytes % 128 != 0 || program.kept_bytes % 128 != 0 || program.attention_at % 16 != 0 ||
      stream_bytes(program.work_bytes + program.kept_bytes) == 0 || !is_whole(program.adapters) ||
      (program.adapters.phases != nullptr &&
       (program.sequences > 1 || program.stamps != nullptr || !has_adapted_kernel(program.needs))))
    return cudaErrorInvalidValue;
  if (program.needs.ternary) {
    if (program.sequences > 1 || !program.needs.within(ternary_code::has)) return cudaErrorInvalidValue;
    return program_kernels<ternary_code>::launch(program, stream);
  }
  if (program.needs.within(dense_code::has)) return launch_with<dense_code>(program, stream);
  if (program.needs.within(fp4_code::has)) return launch_with<fp4_code>(program, stream);
  if (program.needs.within(few_bit_code::has)) return launch_plain<few_bit_code>(program, stream);
  if (program.needs.within(table_code::has)) return launch_plain<table_code>(program, stream);
  return launch_plain<any_code>(program, stream);
}

}  // namespace orcd::kernels
