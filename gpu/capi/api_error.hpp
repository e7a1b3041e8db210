// The integer codes of the C API and the sentence behind the last one of each thread. Source: M0-W-1501.
#pragma once

#include <string_view>

#include "engine/base/error.hpp"
#include "gpu/include/worker_cuda.h"

namespace orcd::gpu {

/// The code of an expected error; `otherwise` if the error is not specific.
[[nodiscard]] worker_cuda_error api_code(const engine::error& failure, worker_cuda_error otherwise) noexcept;

/// Keeps the sentence for this thread, cut to fit a fixed buffer. Never fails, because it also runs when
/// memory has run out.
void remember_error(worker_cuda_error code, std::string_view text) noexcept;

/// What remember_error() kept last on this thread if it was for this code, else a general sentence.
[[nodiscard]] const char* error_text(int code) noexcept;

}  // namespace orcd::gpu
