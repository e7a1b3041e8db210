#include "app/model/model_setup.hpp"

#include <unistd.h>

#include "app/options/parse_options.hpp"
#include "app/options/serving_config.hpp"
#include "app/version/version.hpp"
#include "engine/base/permanent.hpp"
#include "gpu/host/host_backend.hpp"
#include "gpu/plan/draft_room.hpp"
#include "net/failover/weights_frames.hpp"
#ifdef ORCD_HAS_CUDA
#include <thread>

#include "gpu/cuda/cuda_backend.hpp"
#endif

namespace orcd::app {
namespace {

using engine::errc;
using engine::error;
using engine::result;

constexpr std::uint64_t mebibyte = 1ULL << 20U;

void add_names(engine::worker_identity& identity, const options& opts) {
  identity.model_name = model_name_of(opts);
  identity.model_file = model_file_of(opts.model);
  for (const auto& name : opts.model_names) {
    if (name == any_model_name) {
      identity.any_model_name = true;
    } else if (name != identity.model_name) {
      identity.model_aliases.push_back(name);
    }
  }
}

#ifdef ORCD_HAS_CUDA
/// A clock whose sleep ends soon after `cancelled` returns true.
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

gpu::cuda_backend_options cuda_options(const options& opts, gpu_wait_hooks hooks) {
  gpu::cuda_backend_options cuda;
  cuda.gpu = {opts.gpu.index, opts.gpu.uuid};
  cuda.kv_bytes_max = opts.kv_cache_size_mb * mebibyte;
  cuda.pinned = !opts.no_pinned;
  cuda.wait.total = std::chrono::seconds(opts.gpu_wait_sec);
  cuda.clock = cancellable_clock(std::move(hooks));
  return cuda;
}

result<std::unique_ptr<engine::accelerator>> make_cuda(const options& opts, gpu_wait_hooks hooks) {
  return gpu::make_cuda_backend(cuda_options(opts, std::move(hooks)));
}

result<std::string> find_gpu(const options& opts, gpu_wait_hooks hooks) {
  return gpu::find_gpu_uuid(cuda_options(opts, std::move(hooks)));
}
#else
error no_cuda() {
  return engine::made_permanent(
      {errc::worker_start_failed, "this build has no CUDA backend; use --backend host", "backend"});
}

result<std::string> find_gpu(const options&, const gpu_wait_hooks&) {
  return no_cuda();
}

result<std::unique_ptr<engine::accelerator>> make_cuda(const options&, const gpu_wait_hooks&) {
  return no_cuda();
}
#endif

engine::model_source source_of(const options& opts) {
  return {.location = opts.model,
          .tokenizer = opts.tokenizer,
          .tokenizer_pre = opts.tokenizer_pre,
          .context = opts.context,
          .slots = opts.slots,
          .rope = opts.rope,
          .pooling = opts.pooling,
          .activation = opts.ffn_activation};
}

void plan_cache(const options& opts, engine::accelerator_config& plan_for) {
  constexpr std::uint32_t page = engine::kv_page_positions;
  plan_for.kv = {opts.kv_type_k, opts.kv_type_v};
  // On the host a token costs as much in a step of several, so that drafts never pay there.
  const bool pays = opts.backend != backend_kind::host || opts.drafts_always > 0;
  plan_for.draft_tokens = opts.speculate && pays ? gpu::draft_tokens_wanted : 0;
  plan_for.chunk_tokens = opts.prefill_chunk;
  plan_for.boundaries = opts.prefix_boundaries;
  plan_for.kv_pages = opts.kv_tokens / page + (opts.kv_tokens % page == 0 ? 0 : 1);
  if (const std::uint32_t spared = spared_pages(opts); spared > 0) {
    const std::uint32_t context = plan_for.context_tokens;
    if (plan_for.kv_pages == 0) plan_for.kv_pages = opts.slots * ((context + page - 1) / page);
    plan_for.kv_pages += spared;
  }
}

}  // namespace

result<std::string> find_device(const options& opts, gpu_wait_hooks hooks) {
  if (opts.backend == backend_kind::host) return std::string(net::host_device);
  return find_gpu(opts, std::move(hooks));
}

std::uint32_t spared_pages(const options& opts) noexcept {
  const auto& f = opts.failover;
  const bool alone = f.dir.empty() && f.lock_path.empty();
  if (alone || f.share_weights == holder_use::off || f.holder == holder_use::off) return 0;
  return (f.spared_kv_tokens + engine::kv_page_positions - 1) / engine::kv_page_positions;
}

result<engine::served_model> open_model(const options& opts) {
  auto model = engine::open_served_model(source_of(opts));
  if (!model) return model;
  plan_cache(opts, model->plan_for);
  if (opts.media.projector.empty()) return model;
  const auto added = engine::add_projector(*model, opts.media.projector,
                                           {opts.media.image_tokens_max, opts.media.audio_seconds_max},
                                           opts.media.cache_mib * mebibyte);
  if (!added) return added.error();
  return model;
}

result<engine::served_model> open_token_model(const options& opts, std::vector<engine::token_id> ends) {
  auto model = engine::open_token_model(source_of(opts), std::move(ends));
  if (model) plan_cache(opts, model->plan_for);
  return model;
}

result<std::optional<engine::chat_format>> read_chat_format(const options& opts,
                                                            const engine::served_model& model) {
  const engine::gguf_file& file = model.file;
  auto text =
      opts.chat_template.empty() ? engine::chat_template_text(file) : read_config_file(opts.chat_template);
  if (!text) return text.error();
  // One that is for conversations with tools alone is better than none.
  if (text->empty() && opts.chat_template.empty()) text = engine::tool_template_text(file);
  if (!text) return text.error();
  const bool chats = !opts.no_default_template && !model.spec.spec.pooling && model.tokenizer != nullptr;
  if (text->empty() && !chats) return std::optional<engine::chat_format>();
  auto tokens = engine::special_token_texts(file);
  if (!tokens) return tokens.error();
  if (text->empty()) {
    return std::optional<engine::chat_format>(
        engine::chat_format::chatml(std::move(*tokens), *model.tokenizer));
  }
  auto format = engine::chat_format::make(*text, std::move(*tokens));
  if (!format) return format.error();
  // One that the operator names is for all conversations.
  const auto with_tools =
      opts.chat_template.empty() ? engine::tool_template_text(file) : result<std::string>(std::string());
  if (!with_tools) return with_tools.error();
  if (!with_tools->empty()) {
    if (const auto added = format->add_tool_template(*with_tools); !added) return added.error();
  }
  return std::optional<engine::chat_format>(std::move(*format));
}

result<std::unique_ptr<engine::accelerator>> make_accelerator(const options& opts, gpu_wait_hooks hooks,
                                                              std::function<result<void>()> check_weights) {
  if (opts.backend == backend_kind::cuda) return make_cuda(opts, std::move(hooks));
  gpu::host_backend_options host;
  host.threads = opts.threads;
  host.kv_bytes_max = opts.kv_cache_size_mb * mebibyte;
  host.check_weights = std::move(check_weights);
  return gpu::make_host_backend(std::move(host));
}

std::optional<start_failure> check_plan(const engine::memory_plan& plan, const options& opts,
                                        std::uint64_t physical_bytes) {
  const auto limit = opts.kv_cache_size_mb * mebibyte;
  if (limit != 0 && plan.kv_bytes > limit) {
    return start_failure{
        engine::made_permanent({errc::insufficient_vram,
                                "the KV cache for the slots and context asked for needs " +
                                    std::to_string(plan.kv_bytes) + " bytes, but --kv-cache-size-mb allows " +
                                    std::to_string(limit),
                                "kv-cache-size-mb"}),
        plan.kv_bytes, limit};
  }
  // The host backend maps the weights; only the rest has to fit into memory.
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

engine::worker_identity make_identity(const options& opts, const engine::served_model& model) {
  const auto& spec = model.spec.spec;
  engine::worker_identity out;
  out.worker_id = opts.worker_id;
  out.version = version();
  add_names(out, opts);
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
  out.vocab = model.tokenizer->vocab_size();
  out.context_trained = spec.context_length;
  for (const auto& tensor : model.file.tensors()) out.parameters += tensor.elements();
  out.tensor_bytes = model.file.tensor_bytes();
  out.pooling = spec.pooling;
  out.relevant_class = spec.relevant_class;
  return out;
}

}  // namespace orcd::app
