/* Loads a model on the CPU and fetches tokens, twice: the same request must give the same text. */
#include <stdio.h>
#include <string.h>

#include "worker_cuda.h"

static int failed(const char* what, int code) {
  fprintf(stderr, "%s: error %d: %s\n", what, code, cuda_error_message(code));
  return 1;
}

static int fetch(CudaModel* model, char* text, size_t room) {
  char token[WORKER_CUDA_TOKEN_BYTES];
  int code = WORKER_CUDA_SUCCESS;
  InferenceResult* result = cuda_inference_start(model, "Once upon a time", 16, 0.0f, 1, &code);
  if (result == NULL) return failed("starting", code);
  text[0] = '\0';
  while (cuda_inference_next_token(result, token, NULL, &code)) {
    if (strlen(text) + strlen(token) < room) strcat(text, token);
  }
  cuda_inference_free(result);
  return code == WORKER_CUDA_SUCCESS ? 0 : failed("fetching", code);
}

int main(int argc, char** argv) {
  char first[4096];
  char second[4096];
  int code = WORKER_CUDA_SUCCESS;
  int status = 1;
  CudaModel* model = NULL;
  CudaContext* context = cuda_init(WORKER_CUDA_HOST_DEVICE, &code);
  if (context == NULL || argc != 2) return failed("taking the CPU", code);
  model = cuda_load_model(context, argv[1], NULL, &code);
  if (model == NULL) {
    status = failed("loading the model", code);
  } else if (fetch(model, first, sizeof first) == 0 && fetch(model, second, sizeof second) == 0) {
    status = strlen(first) > 0 && strcmp(first, second) == 0 ? 0 : 1;
    printf("%zu bytes of text, %s\n", strlen(first), status == 0 ? "twice the same" : "DIFFERENT");
  }
  cuda_unload_model(model);
  cuda_destroy(context);
  return status;
}
