#include "app/pipe/arguments.hpp"

#include <utility>

#include "app/pipe/numbers.hpp"
#include "engine/gguf/byte_cursor.hpp"

namespace orcd::app {
namespace {

using engine::result;

/// Takes --lora and its folder, if one follows; returns the words that it took.
result<std::size_t> take_adapter(std::span<const std::string_view> rest, pipe_arguments& out) {
  if (out.adapter) return pipe_error("--lora is given twice");
  const bool named = rest.size() > 1 && !rest[1].starts_with("--");
  auto folder = named ? read_path("--lora", rest[1]) : result<std::string>(out.model_dir);
  if (!folder) return folder.error();
  out.adapter = std::move(*folder);
  return named ? 2 : 1;
}

result<std::size_t> take_config(std::span<const std::string_view> rest, pipe_arguments& out) {
  if (out.config) return pipe_error("--config is given twice");
  std::size_t used = 0;
  auto config = read_config_words(rest.subspan(1), used);
  if (!config) return config.error();
  out.config = std::move(*config);
  return used + 1;
}

}  // namespace

result<pipe_arguments> parse_pipe_arguments(std::span<const std::string_view> words) {
  pipe_arguments out;
  if (words.empty()) return pipe_error("model_dir is missing; --help says more");
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "--version") {
    out.what = words[0] == "--version" ? pipe_arguments::action::version : pipe_arguments::action::help;
    return out;
  }
  if (words[0].starts_with("-")) {
    return pipe_error("the first argument is " + engine::in_quotes(words[0]) + "; it must be model_dir");
  }
  auto folder = read_path("model_dir", words[0]);
  if (!folder) return folder.error();
  out.model_dir = std::move(*folder);
  for (auto rest = words.subspan(1); !rest.empty();) {
    result<std::size_t> used = pipe_error("there is the unexpected argument " + engine::in_quotes(rest[0]));
    if (rest[0] == "--lora") used = take_adapter(rest, out);
    if (rest[0] == "--config") used = take_config(rest, out);
    if (!used) return used.error();
    rest = rest.subspan(*used);
  }
  return out;
}

std::string_view pipe_usage() noexcept {
  return "usage: inference MODEL_DIR [--lora [DIR]] [--config VALUES...] [--lora [DIR]]\n"
         "\n"
         "The token pipe of the Trillim SDK.\n"
         "\n"
         "Reads requests of token ids on standard input and writes the ids of the answers on standard "
         "output.\n"
         "MODEL_DIR holds qmodel.tensors and rope.cache, or one .gguf.\n"
         "\n"
         "Options:\n"
         "  --config VALUES      the 18 values that the SDK passes and the ids of the EOS tokens; without it "
         "they\n"
         "                       are the first lines of standard input, as key=value\n"
         "  --lora DIR           the folder of qmodel.lora; MODEL_DIR where none is given\n"
         "  --help               this text\n"
         "  --version            the version\n"
         "\n"
         "Environment: WORKER_ORCD_BACKEND (host, which is the default, or cuda), WORKER_ORCD_SEED (a "
         "number; "
         "each\n"
         "request adds its own), WORKER_ORCD_PIPE_LIMIT (eos, which is the default, or literal), and\n"
         "worker-orcd's WORKER_ORCD_CONTEXT, _GPU_DEVICE, _THREADS, _KV_TYPE_K, _KV_TYPE_V, "
         "_KV_CACHE_SIZE_MB,\n"
         "_GPU_WAIT_SEC, _NO_PINNED and _FFN_ACTIVATION.\n"
         "\n"
         "Exit codes: 0 the client has no more requests, 1 a file is wrong or the device failed, 2 wrong "
         "usage "
         "or\n"
         "protocol.\n";
}

}  // namespace orcd::app
