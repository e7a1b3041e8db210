/* The C API of worker-orcd's CUDA engine: one GGUF model in the VRAM of one NVIDIA GPU, computed for a
 * program that embeds it. Pure C (C99 and later) and C++. Link with -lworker_cuda; the library needs no CUDA
 * toolkit and loads on a host without a driver, where it counts 0 devices.
 *
 * Errors. No function crashes on NULL, a bad path or a number out of range, and no C++ exception leaves the
 * library. A function that can fail returns NULL or false and, where `error_code` is not NULL, sets it to a
 * worker_cuda_error; on success it is set to WORKER_CUDA_SUCCESS. cuda_error_message() has the sentence.
 *
 * Threads. Any function may be called from any thread; the library computes on a thread of its own for each
 * model and leaves the current CUDA device of the caller's threads alone. One InferenceResult is used by one
 * thread at a time. A handle must not be used after, or while, it is given to its destroying function.
 * Handles may be destroyed in any order.
 *
 * Process. A model file is mapped while it is loaded and as long as its tokenizer is needed; a handler of
 * SIGBUS turns a file that shrinks meanwhile into an error and passes every other SIGBUS on. The primary CUDA
 * context is shared with the rest of the process and is never reset.
 *
 * Source: M0-W-1052, M0-W-1400..1421, M0-W-1501 and section 17.3 of the M0 specification. */
#ifndef WORKER_CUDA_H
#define WORKER_CUDA_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__GNUC__)
#define WORKER_CUDA_API __attribute__((visibility("default")))
#else
#define WORKER_CUDA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The codes of M0-W-1501, with a prefix that keeps them apart from those of <cuda.h>, and one more. */
enum worker_cuda_error {
  WORKER_CUDA_SUCCESS = 0,
  WORKER_CUDA_ERROR_DEVICE_NOT_FOUND = 1,  /* no driver or no GPU */
  WORKER_CUDA_ERROR_OUT_OF_MEMORY = 2,     /* of VRAM, or of host memory */
  WORKER_CUDA_ERROR_INVALID_DEVICE = 3,    /* an index that no GPU has, or a GPU that is too old */
  WORKER_CUDA_ERROR_MODEL_LOAD_FAILED = 4, /* no such file, not a model, not a supported one */
  WORKER_CUDA_ERROR_INFERENCE_FAILED = 5,  /* also: another inference runs, time ran out, model unloaded */
  WORKER_CUDA_ERROR_VRAM_RESIDENCY_FAILED = 6, /* the model is not, or not wholly, in VRAM any more */
  WORKER_CUDA_ERROR_KERNEL_LAUNCH_FAILED = 7,  /* a CUDA call or a kernel failed */
  WORKER_CUDA_ERROR_INVALID_ARGUMENT = 8,      /* NULL, or a value out of range */
  WORKER_CUDA_ERROR_UNKNOWN = 99
};

enum {
  /* For cuda_init(): the CPU in place of a GPU, for development and tests; never chosen by itself. What is
   * said of VRAM below is then said of the host's memory. Libraries that were built without CUDA have this
   * alone. */
  WORKER_CUDA_HOST_DEVICE = 1024,
  /* Bytes that `token_out` of cuda_inference_next_token() must have room for. */
  WORKER_CUDA_TOKEN_BYTES = 256,
  /* Positions (prompt and output) that a model is loaded for, unless it was trained for fewer. */
  WORKER_CUDA_CONTEXT_TOKENS_MAX = 32768,
  /* Seconds that an inference may take from its start to its last token. */
  WORKER_CUDA_INFERENCE_SECONDS_MAX = 300
};

typedef struct CudaContext CudaContext;
typedef struct CudaModel CudaModel;
typedef struct InferenceResult InferenceResult;

/* How many GPUs CUDA shows this process; 0 without a driver. */
WORKER_CUDA_API int cuda_get_device_count(void);

/* Takes GPU `gpu_device` (CUDA's index, from 0; compute capability 9.0), or WORKER_CUDA_HOST_DEVICE. Does not
 * wait for one. */
WORKER_CUDA_API CudaContext* cuda_init(int gpu_device, int* error_code);
/* NULL is allowed here and in the two other functions that destroy. */
WORKER_CUDA_API void cuda_destroy(CudaContext* ctx);

/* Loads a GGUF file (a path or file: URI, also of a folder with it, or shm:/name; at most 4096 bytes) and
 * allocates everything it will ever need in VRAM; returns when it can answer. `vram_bytes_used` may be NULL;
 * it is 0 after a failure. */
WORKER_CUDA_API CudaModel* cuda_load_model(CudaContext* ctx, const char* model_path,
                                           uint64_t* vram_bytes_used, int* error_code);
/* Ends a running inference and frees the VRAM before it returns. */
WORKER_CUDA_API void cuda_unload_model(CudaModel* model);
/* Bytes of VRAM that the model was given: weights, KV cache and workspace; 0 for NULL. Never changes. */
WORKER_CUDA_API uint64_t cuda_model_get_vram_usage(CudaModel* model);

/* Starts to compute. `prompt` is the rendered prompt, UTF-8; control tokens spelled out in it are recognised.
 * `max_tokens` is at least 1, and prompt tokens + max_tokens - 1 fit the context. `temperature` is 0 to 2; 0
 * takes the most likely token. Same model, prompt, temperature and seed: same tokens. One inference at a
 * time: the one before must have been freed. */
WORKER_CUDA_API InferenceResult* cuda_inference_start(CudaModel* model, const char* prompt, int max_tokens,
                                                      float temperature, uint64_t seed, int* error_code);
/* Waits for the next text and returns true: UTF-8, never empty, never part of a character, ended by a 0 byte,
 * in `token_out` with room for WORKER_CUDA_TOKEN_BYTES. `token_index` (may be NULL) is the index of the token
 * that completed it: it never falls, and skips tokens that complete no character. The text of a token that
 * does not fit comes in several calls with one index. False is the end: with WORKER_CUDA_SUCCESS the model
 * had ended or max_tokens were computed; another code is a failure. `token_out` is then empty. */
WORKER_CUDA_API bool cuda_inference_next_token(InferenceResult* result, char* token_out, int* token_index,
                                               int* error_code);
/* Ends the inference if it still runs. */
WORKER_CUDA_API void cuda_inference_free(InferenceResult* result);

/* Asks CUDA where every allocation of the model is: true when all of it is in the VRAM of its GPU. */
WORKER_CUDA_API bool cuda_check_vram_residency(CudaModel* model, int* error_code);
/* Bytes of the model that are in VRAM now: cuda_model_get_vram_usage(), or 0 when the check above fails. */
WORKER_CUDA_API uint64_t cuda_get_vram_usage(CudaModel* model);
/* Bytes of VRAM that this library holds in this process, all models together; 0 for NULL. */
WORKER_CUDA_API uint64_t cuda_get_process_vram_usage(CudaContext* ctx);

/* The sentence for the calling thread's last failure if that had this code, else a general one for the code.
 * Never NULL; valid until the next failure on this thread. */
WORKER_CUDA_API const char* cuda_error_message(int error_code);

#ifdef __cplusplus
}
#endif

#endif
