#include "app/model_setup.hpp"

#include <unistd.h>

#include <algorithm>

#include "gpu/host_backend.hpp"
#ifdef ORCD_HAS_CUDA
#include <thread>

#include "gpu/cuda_backend.hpp"
#endif

namespace orcd::app {
namespace {

using engine::errc;
using engine::error;
using engine::result;

constexpr std::uint64_t mebibyte = 1ULL << 20U;

/// "-00001-of-00003", as split models are named.
bool ends_in_part_number(const std::string& stem) {
  constexpr std::size_t length = 15;
  if (stem.size() <= length) return false;
  const auto tail = stem.substr(stem.size() - length);
  for (std::size_t i = 0; i < length; ++i) {
    const bool digit = (i >= 1 && i <= 5) || i >= 10;
    if (digit ? (tail[i] < '0' || tail[i] > '9') : tail[i] != "-ddddd-of-ddddd"[i]) return false;
  }
  return true;
}

#ifdef ORCD_HAS_CUDA
/// A sleep that ends soon after `cancelled` says so.
gpu::wait_clock cancellable_clock(gpu_wait_hooks hooks) {
  constexpr std::chrono::milliseconds look_interval{20};
  auto clock = gpu::real_wait_clock();
  clock.notice = std::move(hooks.waiting);
  clock.sleep = [cancelled = std::move(hooks.cancelled), look_interval](std::chrono::milliseconds pause) {
    const auto end = std::chrono::steady_clock::now() + pause;
    while (!cancelled() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(look_interval);
    return !cancelled();
  };
  return clock;
}

result<std::unique_ptr<engine::accelerator>> make_cuda(const options& opts, gpu_wait_hooks hooks) {
  gpu::cuda_backend_options cuda;
  cuda.gpu = {opts.gpu.index, opts.gpu.uuid};
  cuda.kv_bytes_max = opts.kv_cache_size_mb * mebibyte;
  cuda.pinned = !opts.no_pinned;
  cuda.clock = cancellable_clock(std::move(hooks));
  return gpu::make_cuda_backend(cuda);
}
#else
result<std::unique_ptr<engine::accelerator>> make_cuda(const options&, const gpu_wait_hooks&) {
  return error{errc::worker_start_failed, "this build has no CUDA backend; use --backend host", "backend"};
}
#endif

}  // namespace

result<engine::served_model> open_model(const options& opts) {
  auto model = engine::open_served_model({.location = opts.model,
                                          .tokenizer = opts.tokenizer,
                                          .context = opts.context,
                                          .slots = opts.slots,
                                          .rope = opts.rope,
                                          .pooling = opts.pooling});
  if (model) {
    model->plan_for.kv = {opts.kv_type_k, opts.kv_type_v};
    constexpr std::uint32_t page = engine::kv_block_tokens;
    model->plan_for.kv_pages = opts.kv_tokens / page + (opts.kv_tokens % page == 0 ? 0 : 1);
  }
  return model;
}

result<std::optional<engine::chat_format>> read_chat_format(const options& opts,
                                                            const engine::gguf_file& file) {
  auto text =
      opts.chat_template.empty() ? engine::chat_template_text(file) : read_config_file(opts.chat_template);
  if (!text) return text.error();
  if (text->empty()) return std::optional<engine::chat_format>();
  auto tokens = engine::special_token_texts(file);
  if (!tokens) return tokens.error();
  auto format = engine::chat_format::make(*text, std::move(*tokens));
  if (!format) return format.error();
  return std::optional<engine::chat_format>(std::move(*format));
}

result<std::unique_ptr<engine::accelerator>> make_accelerator(const options& opts, gpu_wait_hooks hooks) {
  if (opts.backend == backend_kind::cuda) return make_cuda(opts, std::move(hooks));
  gpu::host_backend_options host;
  host.threads = opts.threads;
  host.kv_bytes_max = opts.kv_cache_size_mb * mebibyte;
  return gpu::make_host_backend(host);
}

std::optional<start_failure> check_plan(const engine::memory_plan& plan, const options& opts,
                                        std::uint64_t physical_bytes) {
  const auto limit = opts.kv_cache_size_mb * mebibyte;
  if (limit != 0 && plan.kv_bytes > limit) {
    return start_failure{
        error{errc::insufficient_vram,
              "the KV cache for the slots and context asked for needs " + std::to_string(plan.kv_bytes) +
                  " bytes, but --kv-cache-size-mb allows " + std::to_string(limit),
              "kv-cache-size-mb"},
        plan.kv_bytes, limit};
  }
  // The host backend maps the weights; only the rest has to fit beside everything else.
  const auto allocated = plan.total() - plan.weights_bytes;
  if (allocated > physical_bytes) {
    return start_failure{
        error{errc::insufficient_vram,
              "the plan needs " + std::to_string(allocated) + " bytes besides the weights, but " +
                  "this machine has " + std::to_string(physical_bytes) +
                  " bytes of memory; lower --context or --slots",
              "context"},
        allocated, physical_bytes};
  }
  return std::nullopt;
}

std::uint64_t physical_memory_bytes() noexcept {
  const auto pages = sysconf(_SC_PHYS_PAGES);
  const auto page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page)
                               : UINT64_MAX;
}

std::string model_name_of(const std::string& location) {
  auto name = location.substr(location.find_last_of("/:") + 1);
  constexpr std::string_view suffix = ".gguf";
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); });
  if (name.size() > suffix.size() && name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0) {
    name.resize(name.size() - suffix.size());
  }
  if (ends_in_part_number(name)) name.resize(name.size() - 15);
  return name;
}

std::string public_uri(const options& opts, std::uint16_t port, const std::string& hostname) {
  if (!opts.public_uri.empty()) return opts.public_uri;
  const bool wildcard = opts.host == "0.0.0.0" || opts.host == "::";
  auto host = wildcard ? hostname : opts.host;
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  return "http://" + host + ":" + std::to_string(port);
}

engine::worker_identity make_identity(const options& opts, const engine::served_model& model) {
  const auto& spec = model.spec.spec;
  engine::worker_identity out;
  out.worker_id = opts.worker_id;
  out.version = version();
  out.model_name = model_name_of(opts.model);
  out.model_path = opts.model;
  out.quant_kind = spec.quant_kind;
  out.backend = to_string(opts.backend);
  out.tokenizer_kind = model.tokenizer->kind();
  out.architecture = spec.architecture;
  out.gpu_device = opts.backend == backend_kind::host ? -1 : static_cast<std::int32_t>(opts.gpu.index);
  out.slots = opts.slots;
  out.kv_pages = model.plan_for.kv_pages;
  out.context_tokens = model.plan_for.context_tokens;
  out.kv = model.plan_for.kv;
  out.active_experts = spec.experts_used;
  out.embedding_length = spec.embedding;
  out.pooling = spec.pooling;
  out.relevant_class = spec.relevant_class;
  return out;
}

}  // namespace orcd::app
