/* Loads a model on the first GPU, or with --host on the CPU, and prints what it answers:
 *
 *   worker_cuda_example [--host] MODEL.gguf "Write a haiku about GPU computing" [MAX_TOKENS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker_cuda.h"

static int failed(const char* what, int code) {
  fprintf(stderr, "%s: error %d: %s\n", what, code, cuda_error_message(code));
  return 1;
}

static int answer(CudaModel* model, const char* prompt, int max_tokens) {
  char text[WORKER_CUDA_TOKEN_BYTES];
  int index = 0;
  int code = WORKER_CUDA_SUCCESS;
  InferenceResult* result = cuda_inference_start(model, prompt, max_tokens, 0.0f, 42, &code);
  if (result == NULL) return failed("starting", code);
  while (cuda_inference_next_token(result, text, &index, &code)) {
    fputs(text, stdout);
    fflush(stdout);
  }
  cuda_inference_free(result);
  if (code != WORKER_CUDA_SUCCESS) return failed("generating", code);
  putchar('\n');
  return 0;
}

static int load_and_answer(int device, const char* path, const char* prompt, int max_tokens) {
  const int host = device == WORKER_CUDA_HOST_DEVICE;
  int code = WORKER_CUDA_SUCCESS;
  int status = 1;
  uint64_t bytes = 0;
  CudaModel* model = NULL;
  CudaContext* context = cuda_init(device, &code);
  if (context == NULL) return failed(host ? "taking the CPU" : "taking GPU 0", code);
  model = cuda_load_model(context, path, &bytes, &code);
  if (model == NULL) {
    status = failed("loading the model", code);
  } else {
    fprintf(stderr, "%llu bytes of %s\n", (unsigned long long)bytes, host ? "the host's memory" : "VRAM");
    status = answer(model, prompt, max_tokens);
  }
  cuda_unload_model(model);
  cuda_destroy(context);
  return status;
}

int main(int argc, char** argv) {
  const int host = argc > 1 && strcmp(argv[1], "--host") == 0;
  char** words = argv + 1 + host;
  const int count = argc - 1 - host;
  if (count < 2) {
    fprintf(stderr, "usage: %s [--host] MODEL.gguf PROMPT [MAX_TOKENS]\n", argv[0]);
    return 2;
  }
  fprintf(stderr, "%d GPU(s)\n", cuda_get_device_count());
  return load_and_answer(host ? WORKER_CUDA_HOST_DEVICE : 0, words[0], words[1],
                         count > 2 ? atoi(words[2]) : 64);
}
