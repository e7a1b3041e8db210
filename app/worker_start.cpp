#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>

#include "app/model_digest.hpp"
#include "app/worker_parts.hpp"
#include "engine/grammar/grammar.hpp"
#include "gpu/allocation_counter.hpp"
#include "gpu/host_backend.hpp"
#include "net/ready_callback.hpp"

namespace orcd::app {
namespace {

namespace asio = boost::asio;
using engine::errc;
using engine::error;
using engine::lifecycle;
using engine::result;
using engine::severity;
using std::chrono::milliseconds;
using clock = std::chrono::steady_clock;

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

std::shared_ptr<const engine::grammar::token_table> make_table(const engine::served_model& model) {
  return engine::grammar::make_token_table(*model.tokenizer, model.spec.spec.vocab);
}

error start_error(const std::string& what, const std::string& path, const error& why) {
  return {errc::worker_start_failed, what + " '" + path + "': " + why.message, why.param};
}

}  // namespace

void worker::narrate_startup() {
  narrator_.narrate(severity::info, "startup", std::string("worker-orcd ") + version() + " is starting",
                    {{"version", std::string_view(version())},
                     {"backend", std::string_view(to_string(opts_.backend))},
                     {"model", std::string_view(opts_.model)},
                     {"pid", static_cast<std::int64_t>(getpid())}});
  for (const auto& warning : opts_.warnings) narrator_.narrate(severity::warning, "option_ignored", warning);
}

/// Everything that can fail without touching a weight; the port is taken here, so that a worker with no
/// place to listen does not load for a minute first.
std::optional<start_failure> worker::open() {
  auto device =
      make_accelerator(opts_, {.cancelled = [this] { return cancel_load_.load(); },
                               .waiting = [this](const auto& notice) { narrate_gpu_wait(notice); }});
  if (!device) return start_failure{device.error(), {}, {}};
  device_ = std::move(*device);
  auto model = open_model(opts_);
  if (!model) return start_failure{model.error(), {}, {}};
  model_.emplace(std::move(*model));
  if (opts_.backend == backend_kind::host) {
    const auto plan = gpu::plan_host_memory(model_->spec, model_->plan_for);
    if (auto failure = check_plan(plan, opts_, physical_memory_bytes())) return failure;
  }
  identity_ = make_identity(opts_, *model_);
  const auto trained = model_->spec.spec.context_length;
  if (opts_.context > trained && !opts_.rope.scaling) {
    narrator_.narrate(
        severity::warning, "context_beyond_training",
        "The context is longer than the model was trained for and --rope-scaling is not given",
        {{"context_tokens", std::uint64_t{opts_.context}}, {"trained_tokens", std::uint64_t{trained}}});
  }
  if (const auto read = read_request_files(); !read) return start_failure{read.error(), {}, {}};
  identity_.system_fingerprint = system_fingerprint(
      opts_, model_->file, {model_->tokenizer_digest, chat_ ? chat_->digest() : std::string()});
  make_server();
  auto port = server_->bind();
  if (!port) return start_failure{port.error(), {}, {}};
  port_ = *port;
  uri_ = public_uri(opts_, port_, host_name());
  return std::nullopt;
}

/// What requests are judged and made prompts by. A model without a usable chat template still serves all but
/// chats; a template that the operator named must be good.
result<void> worker::read_request_files() {
  if (!opts_.api_key_file.empty()) {
    const auto text = read_config_file(opts_.api_key_file);
    if (!text) return start_error("API key file", opts_.api_key_file, text.error());
    auto keys = net::api_keys::parse(*text);
    if (!keys) return start_error("API key file", opts_.api_key_file, keys.error());
    keys_ = std::move(*keys);
  }
  auto chat = read_chat_format(opts_, model_->file);
  if (chat) {
    if (*chat) chat_.emplace(std::move(**chat));
    return {};
  }
  if (!opts_.chat_template.empty()) return start_error("chat template", opts_.chat_template, chat.error());
  narrator_.narrate(
      severity::warning, "chat_template_unusable",
      "Chat requests are refused: the model's chat template cannot be used: " + chat.error().message);
  return {};
}

void worker::make_server() {
  engine::scheduler_config schedule;
  schedule.slots = opts_.slots;
  const auto ends = model_->tokenizer->end_of_generation();
  schedule.end_of_generation.assign(ends.begin(), ends.end());
  schedule.cache = {.share = !opts_.no_prefix_cache,
                    .tokens_min = opts_.cache_min_tokens,
                    .sessions = opts_.imc_sessions,
                    .system_prompts = opts_.system_prompts};
  schedule.on_failure = [this](const error& why) {
    on_fatal(why, fault_exit_code(why.code, device_->device_lost()));
  };
  schedule.on_degraded = [this](const error& why) {
    narrator_.narrate(severity::error, "error", why.message, {{"code", engine::code_name(why.code)}});
  };
  gpu_thread_ = std::make_unique<gpu::gpu_thread>(*device_, std::move(schedule), state_);
  admission_.emplace(engine::admission_limits{opts_.slots, opts_.max_queue});

  net::server_config config;
  config.address = opts_.host;
  config.port = opts_.port;
  config.execute.prompt_chars_max = opts_.max_prompt_chars;
  config.execute.tokens_in_max = opts_.max_tokens_in;
  config.execute.tokens_out_max = opts_.max_tokens_out;
  config.execute.context_tokens = model_->plan_for.context_tokens;
  config.execute.inference_timeout = std::chrono::seconds(opts_.inference_timeout_sec);
  config.execute.deadlines = opts_.deadlines;
  config.compat = opts_.compat;
  config.keys = std::move(keys_);
  config.cors_origins = opts_.cors_origins;
  config.page = !opts_.no_page;
  config.request_template = opts_.allow_request_template;
  config.system_tokens_min = opts_.cache_min_tokens;
  config.matryoshka = opts_.matryoshka;
  config.connections.connections_max = opts_.max_connections;
  config.connections.body_bytes_max = opts_.max_body_bytes;
  server_.emplace(
      io_, std::move(config),
      net::server_context{*gpu_thread_, *admission_, state_, identity_, *model_->tokenizer, narrator_,
                          [this] { post_event(shutdown_event::request, "POST /shutdown"); },
                          [] {
                            const auto counts = gpu::counted_allocations();
                            return engine::memory_counts{counts.pinned_bytes, counts.after_seal};
                          },
                          chat_ ? &*chat_ : nullptr, chat_ ? make_table(*model_) : nullptr,
                          [this](std::function<void()> work) { asio::post(aside_, std::move(work)); },
                          model_->pairs ? &*model_->pairs : nullptr});
}

void worker::on_loaded(const result<engine::memory_plan>& plan) {
  if (fsm_.ending()) return;
  if (!plan) return fail_start({plan.error(), {}, {}});
  if (auto intact = model_->file.check_intact(); !intact) return fail_start({intact.error(), {}, {}});
  // The server does not listen yet, so nobody reads the identity.
  const auto gpu = device_->device();
  identity_.gpu_device = gpu.index;
  identity_.gpu_name = gpu.name;
  identity_.gpu_uuid = gpu.uuid;
  narrator_.set_gpu_device(gpu.index);
  state_.resident = device_->resident();
  state_.vram_bytes = device_->vram_bytes();
  state_.kv_bytes = plan->kv_bytes;
  state_.load_percent = 100;
  narrator_.narrate(severity::info, "model_load_complete", "The model is loaded",
                    {{"load_ms", ms_since(load_started_at_)},
                     {"vram_bytes", device_->vram_bytes()},
                     {"resident", device_->resident()},
                     {"gpu_name", std::string_view(gpu.name)},
                     {"gpu_uuid", std::string_view(gpu.uuid)},
                     {"weights_bytes", plan->weights_bytes},
                     {"kv_bytes", plan->kv_bytes},
                     {"kv_type_k", std::string_view(engine::to_string(identity_.kv.keys))},
                     {"kv_type_v", std::string_view(engine::to_string(identity_.kv.values))},
                     {"workspace_bytes", plan->workspace_bytes},
                     {"logits_bytes", plan->logits_bytes}});
  if (auto listened = server_->listen(); !listened) return fail_start({listened.error(), {}, {}});
  listening_ = true;
  announce();
}

/// The pool manager checks that the uri answers, so it is told only now that the server listens; jobs
/// are refused until it agreed (WORK-3011, WORK-3014).
void worker::announce() {
  if (opts_.callback_url.empty()) return become_ready();
  net::callback_config config;
  config.url = opts_.callback_url;
  net::ready_message message{opts_.worker_id, identity_.model_name, device_->vram_bytes(), uri_};
  net::post_ready(io_, std::move(config), std::move(message), [this](const result<void>& answer) {
    if (fsm_.ending()) return;
    if (!answer) return fail_start({answer.error(), {}, {}});
    become_ready();
  });
}

void worker::become_ready() {
  handle(shutdown_event::loaded, "");
  state_.set(lifecycle::ready);
  narrator_.narrate(severity::info, "ready", "Serving " + identity_.model_name + " at " + uri_,
                    {{"uri", std::string_view(uri_)},
                     {"port", std::uint64_t{port_}},
                     {"vram_bytes", device_->vram_bytes()},
                     {"context_tokens", std::uint64_t{identity_.context_tokens}},
                     {"slots", std::uint64_t{identity_.slots}},
                     {"start_ms", ms_since(started_at_)}});
  if (opts_.backend == backend_kind::host) watch_file();
  if (opts_.backend == backend_kind::cuda && opts_.residency_check_sec != 0) watch_residency();
  service_.ready("Serving " + identity_.model_name + " at " + uri_);
  if (const auto interval = service_manager::watchdog_interval()) {
    // A step of the host backend may take many seconds on a small machine; a GPU's may not.
    const auto half = std::chrono::duration_cast<milliseconds>(*interval) / 2;
    watchdog_.emplace(
        opts_.backend == backend_kind::host ? std::max<milliseconds>(half, std::chrono::minutes(2)) : half);
    watch(half / 2);
  }
}

void worker::fail_start(const start_failure& failure) {
  state_.set(lifecycle::failed);
  constexpr std::uint64_t unknown = 0;
  const auto code = engine::code_name(failure.why.code);
  const bool sized = failure.required_bytes && failure.available_bytes;
  const auto narrate = [&](std::initializer_list<engine::narration_field> fields) {
    narrator_.narrate(severity::error, "error", "Start-up failed: " + failure.why.message, fields);
  };
  const std::string_view model = opts_.model;
  const std::string_view gpu = opts_.gpu.uuid;
  if (sized) {
    narrate({{"code", code},
             {"phase", std::string_view("startup")},
             {"model", model},
             {"required_bytes", failure.required_bytes.value_or(unknown)},
             {"available_bytes", failure.available_bytes.value_or(unknown)}});
  } else if (!gpu.empty()) {
    narrate({{"code", code}, {"phase", std::string_view("startup")}, {"model", model}, {"gpu_uuid", gpu}});
  } else {
    narrate({{"code", code}, {"phase", std::string_view("startup")}, {"model", model}});
  }
  service_.failed(failure.why.message);
  handle(shutdown_event::start_failed, "start-up failure");
}

}  // namespace orcd::app
