/* Loads a model on the first GPU and prints what it answers:
 *
 *   worker_cuda_example MODEL.gguf "Write a haiku about GPU computing" [MAX_TOKENS]
 */
#include <stdio.h>
#include <stdlib.h>

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

int main(int argc, char** argv) {
  int code = WORKER_CUDA_SUCCESS;
  int status = 1;
  uint64_t bytes = 0;
  CudaContext* context = NULL;
  CudaModel* model = NULL;
  if (argc < 3) {
    fprintf(stderr, "usage: %s MODEL.gguf PROMPT [MAX_TOKENS]\n", argv[0]);
    return 2;
  }
  fprintf(stderr, "%d GPU(s)\n", cuda_get_device_count());
  context = cuda_init(0, &code);
  if (context == NULL) return failed("taking GPU 0", code);
  model = cuda_load_model(context, argv[1], &bytes, &code);
  if (model == NULL) {
    status = failed("loading the model", code);
  } else {
    fprintf(stderr, "%llu bytes of VRAM\n", (unsigned long long)bytes);
    status = answer(model, argv[2], argc > 3 ? atoi(argv[3]) : 64);
  }
  cuda_unload_model(model);
  cuda_destroy(context);
  return status;
}
