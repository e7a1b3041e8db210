// The boundary: C types in, C types out; no exception crosses it.
#include <cstring>
#include <exception>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "gpu/capi/api_error.hpp"
#include "gpu/capi/embedded_model.hpp"
#include "gpu/host/host_backend.hpp"
#include "gpu/memory/allocation_counter.hpp"
#include "gpu/plan/device_choice.hpp"
#ifdef ORCD_HAS_CUDA
#include "gpu/cuda/cuda_backend.hpp"
#endif

struct CudaContext {
  std::optional<orcd::gpu::gpu_info> gpu;  ///< nullopt: the host
};
struct CudaModel {
  std::shared_ptr<orcd::gpu::embedded_model> model;
};
struct InferenceResult {
  std::shared_ptr<orcd::gpu::inference> run;
  std::weak_ptr<orcd::gpu::embedded_model> model;  ///< may be unloaded first
};

namespace {

using orcd::engine::errc;
using orcd::engine::error;
using orcd::engine::result;
namespace gpu = orcd::gpu;

constexpr std::size_t path_bytes_max = 4096;

void report(int* error_code, worker_cuda_error code, std::string_view text) noexcept {
  if (code != WORKER_CUDA_SUCCESS) gpu::remember_error(code, text);
  if (error_code != nullptr) *error_code = code;
}

/// Runs `body`, which returns a result<T>. Returns T, or T{} and the code if it fails. `otherwise` is the
/// code of errors that have none of their own.
template <class T, class Body>
T guarded(int* error_code, worker_cuda_error otherwise, const Body& body) noexcept {
  try {
    result<T> done = body();
    if (done) {
      report(error_code, WORKER_CUDA_SUCCESS, {});
      return std::move(*done);
    }
    report(error_code, gpu::api_code(done.error(), otherwise), done.error().message);
  } catch (const std::bad_alloc&) {
    report(error_code, WORKER_CUDA_ERROR_OUT_OF_MEMORY, "host memory ran out");
  } catch (const orcd::engine::accelerator_failure& failure) {
    report(error_code, gpu::api_code({failure.code, failure.what()}, otherwise), failure.what());
  } catch (const std::exception& failure) {
    report(error_code, WORKER_CUDA_ERROR_UNKNOWN, failure.what());
  } catch (...) {
    report(error_code, WORKER_CUDA_ERROR_UNKNOWN, "an unknown error");
  }
  return T{};
}

error missing(const char* argument) {
  return {errc::invalid_request, std::string(argument) + " is NULL", argument};
}

#ifdef ORCD_HAS_CUDA

/// Does not wait for a GPU, and leaves the primary context to the process.
gpu::cuda_backend_options options_for(std::uint32_t index) {
  gpu::cuda_backend_options options;
  options.gpu = {index, {}};
  options.end = gpu::device_end::keep;
  options.wait.total = std::chrono::milliseconds(0);
  return options;
}

/// Finds and tries the GPU on a thread of its own, so that the caller's current device is not changed.
result<gpu::gpu_info> try_gpu(int index) {
  if (index < 0) {
    return error(errc::worker_start_failed,
                 "gpu_device is " + std::to_string(index) + ", it must be at least 0", "gpu_device");
  }
  return std::async(std::launch::async,
                    [index]() -> result<gpu::gpu_info> {
                      const auto options = options_for(static_cast<std::uint32_t>(index));
                      auto device = gpu::cuda_device::open(options.gpu, options.end, options.wait);
                      if (!device) return device.error();
                      return device->info();
                    })
      .get();
}

std::unique_ptr<orcd::engine::accelerator> make_gpu(std::uint32_t index) {
  return gpu::make_cuda_backend(options_for(index));
}

int count_gpus() {
  const auto gpus = gpu::list_gpus(false);
  return gpus ? static_cast<int>(gpus->size()) : 0;
}

#else

result<gpu::gpu_info> try_gpu(int /*index*/) {
  return error(errc::worker_start_failed,
               "this library was built without CUDA; WORKER_CUDA_HOST_DEVICE computes on the CPU",
               "gpu_device");
}

/// Not reached: no context names a GPU.
std::unique_ptr<orcd::engine::accelerator> make_gpu(std::uint32_t /*index*/) {
  throw std::runtime_error("this library was built without CUDA");
}

int count_gpus() {
  return 0;
}

#endif

}  // namespace

int cuda_get_device_count(void) {
  return guarded<int>(nullptr, WORKER_CUDA_ERROR_DEVICE_NOT_FOUND,
                      []() -> result<int> { return count_gpus(); });
}

CudaContext* cuda_init(int gpu_device, int* error_code) {
  return guarded<CudaContext*>(error_code, WORKER_CUDA_ERROR_DEVICE_NOT_FOUND, [&]() -> result<CudaContext*> {
    if (gpu_device == WORKER_CUDA_HOST_DEVICE) return new CudaContext{};
    auto found = try_gpu(gpu_device);
    if (!found) return found.error();
    return new CudaContext{std::move(*found)};
  });
}

void cuda_destroy(CudaContext* ctx) {
  delete ctx;
}

CudaModel* cuda_load_model(CudaContext* ctx, const char* model_path, uint64_t* vram_bytes_used,
                           int* error_code) {
  if (vram_bytes_used != nullptr) *vram_bytes_used = 0;
  return guarded<CudaModel*>(error_code, WORKER_CUDA_ERROR_MODEL_LOAD_FAILED, [&]() -> result<CudaModel*> {
    if (ctx == nullptr) return missing("ctx");
    if (model_path == nullptr) return missing("model_path");
    const std::size_t length = strnlen(model_path, path_bytes_max + 1);
    if (length == 0 || length > path_bytes_max) {
      return error(errc::invalid_request, "model_path must have 1 to 4096 bytes", "model_path");
    }
    auto device = ctx->gpu ? make_gpu(static_cast<std::uint32_t>(ctx->gpu->index)) : gpu::make_host_backend();
    auto loaded =
        gpu::embedded_model::load({model_path, length}, std::move(device), WORKER_CUDA_CONTEXT_TOKENS_MAX);
    if (!loaded) return loaded.error();
    auto model = std::make_unique<CudaModel>(CudaModel{std::move(*loaded)});
    if (vram_bytes_used != nullptr) *vram_bytes_used = model->model->vram_bytes();
    return model.release();
  });
}

void cuda_unload_model(CudaModel* model) {
  if (model == nullptr) return;
  model->model->close();
  delete model;
}

uint64_t cuda_model_get_vram_usage(CudaModel* model) {
  return model == nullptr ? 0 : model->model->vram_bytes();
}

InferenceResult* cuda_inference_start(CudaModel* model, const char* prompt, int max_tokens, float temperature,
                                      uint64_t seed, int* error_code) {
  return guarded<InferenceResult*>(
      error_code, WORKER_CUDA_ERROR_INFERENCE_FAILED, [&]() -> result<InferenceResult*> {
        if (model == nullptr) return missing("model");
        if (prompt == nullptr) return missing("prompt");
        auto out = std::make_unique<InferenceResult>();
        auto started = model->model->start(
            {.prompt = prompt, .max_tokens = max_tokens, .temperature = temperature, .seed = seed});
        if (!started) return started.error();
        out->run = std::move(*started);
        out->model = model->model;
        return out.release();
      });
}

bool cuda_inference_next_token(InferenceResult* result_, char* token_out, int* token_index, int* error_code) {
  if (token_out != nullptr) token_out[0] = '\0';
  return guarded<bool>(error_code, WORKER_CUDA_ERROR_INFERENCE_FAILED, [&]() -> result<bool> {
    if (result_ == nullptr) return missing("result");
    if (token_out == nullptr) return missing("token_out");
    const auto piece = result_->run->next(WORKER_CUDA_TOKEN_BYTES - 1);
    if (!piece) return piece.error();
    if (!*piece) return false;
    const std::string& text = (*piece)->text;
    std::memcpy(token_out, text.c_str(), text.size() + 1);
    if (token_index != nullptr) *token_index = static_cast<int>((*piece)->index);
    return true;
  });
}

void cuda_inference_free(InferenceResult* result_) {
  if (result_ == nullptr) return;
  guarded<bool>(nullptr, WORKER_CUDA_ERROR_UNKNOWN, [&]() -> result<bool> {
    if (const auto model = result_->model.lock()) model->end(*result_->run);
    return true;
  });
  delete result_;
}

bool cuda_check_vram_residency(CudaModel* model, int* error_code) {
  return guarded<bool>(error_code, WORKER_CUDA_ERROR_VRAM_RESIDENCY_FAILED, [&]() -> result<bool> {
    if (model == nullptr) return missing("model");
    const auto failures = model->model->audit();
    if (failures.empty()) return true;
    std::string list;
    for (const auto& failure : failures) list += (list.empty() ? "" : "; ") + failure;
    return error(errc::internal, list);
  });
}

uint64_t cuda_get_vram_usage(CudaModel* model) {
  return cuda_check_vram_residency(model, nullptr) ? model->model->vram_bytes() : 0;
}

uint64_t cuda_get_process_vram_usage(CudaContext* ctx) {
  return ctx == nullptr ? 0 : gpu::counted_allocations().device_bytes;
}

const char* cuda_error_message(int error_code) {
  return gpu::error_text(error_code);
}
