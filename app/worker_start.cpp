#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>

#include "app/descriptor_plan.hpp"
#include "app/model_digest.hpp"
#include "app/parse_options.hpp"
#include "app/version/version.hpp"
#include "app/worker_parts.hpp"
#include "engine/grammar/grammar.hpp"
#include "gpu/host/host_backend.hpp"
#include "gpu/plan/allocation_counter.hpp"
#include "net/status/ready_callback.hpp"

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

/// Descriptors for what is opened besides connections now and then: key and config files, the callback's
/// socket, the socket of a refused client.
constexpr std::uint64_t descriptor_reserve = 32;
constexpr std::uint64_t held_burst = net::frame_descriptors_max + 8;
constexpr std::uint32_t held_connections_max = net::held_sockets_max - net::frame_descriptors_max - 32;

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

/// The main thread takes no signal while it opens things; it checks for one between them.
start_failure stopped_by_signal() {
  return {error{errc::cancelled, "stopped by a signal"}, {}, {}};
}

}  // namespace

net::host_rules serving_hosts(const options& opts) {
  return net::make_host_rules(opts.host, host_name(), opts.public_uri, opts.allowed_hosts);
}

result<net::api_keys> read_keys(const std::string& path) {
  const auto text = read_config_file(path);
  if (!text) return start_error("API key file", path, text.error());
  auto keys = net::api_keys::parse(*text);
  if (!keys) return start_error("API key file", path, keys.error());
  return keys;
}

void worker::narrate_startup() {
  narrator_.narrate(severity::info, "startup", std::string("worker-orcd ") + version() + " is starting",
                    {{"version", std::string_view(version())},
                     {"backend", std::string_view(to_string(opts_.backend))},
                     {"model", std::string_view(opts_.model)},
                     {"pid", static_cast<std::int64_t>(getpid())},
                     {"socket_passed", opts_.listener >= 0}});
  for (const auto& warning : opts_.warnings) narrator_.narrate(severity::warning, "option_ignored", warning);
}

std::uint64_t worker::spare_descriptors() const {
  if (!failover_) return descriptor_reserve;
  // The connections of one read of the holder's socket are there before the first of them is looked at.
  return descriptor_reserve + net::system_connections_max + (failover_->link ? held_burst : 0);
}

/// Raises the soft limit as far as `asked` connections need it; nullopt where the system does not tell it.
std::optional<descriptor_plan> worker::plan_connections(std::uint64_t reserve, std::uint32_t asked) {
  const auto facts = count_descriptors(reserve);
  if (!facts) return std::nullopt;
  const auto plan = plan_descriptors(*facts, asked);
  if (raise_descriptor_limit(plan.soft)) return plan;
  return plan_descriptors({facts->soft, facts->soft, facts->in_use, facts->reserve}, asked);
}

/// Raises the soft limit of descriptors as far as needed. Called twice: at the start, so that a worker that
/// cannot serve does not load for a minute first, and when the worker has opened all of its own descriptors.
result<void> worker::make_room_for_connections(std::uint64_t reserve) {
  // A holder that is full refuses everybody; an engine that is makes room, and answers probes.
  const auto asked = failover_ && failover_->link ? std::min(opts_.max_connections, held_connections_max)
                                                  : opts_.max_connections;
  const auto found = plan_connections(reserve, asked);
  if (!found) {
    connections_ = asked;
    return {};
  }
  const auto& plan = *found;
  if (!plan.enough) {
    return error{errc::worker_start_failed,
                 "too few file descriptors: the limit is " + std::to_string(plan.soft) +
                     ", the worker itself needs " + std::to_string(plan.own) + " and at least " +
                     std::to_string(std::min(asked, connections_min)) +
                     " connections more; raise it (ulimit -n, LimitNOFILE=)",
                 "max-connections"};
  }
  if (plan.connections != connections_ && plan.connections < asked) {
    narrator_.narrate(severity::warning, "connections_limited",
                      "Fewer connections than --max-connections fit into the limit of file descriptors",
                      {{"connections", std::uint64_t{plan.connections}},
                       {"max_connections", std::uint64_t{opts_.max_connections}},
                       {"descriptors", plan.soft}});
  }
  connections_ = plan.connections;
  return {};
}

/// Everything that can fail before a weight is read. The port is bound here, so that a worker whose port is
/// taken does not load for a minute first.
std::optional<start_failure> worker::open() {
  // A CUDA driver opens some dozens.
  const auto reserve = spare_descriptors() + (opts_.backend == backend_kind::cuda ? 96U : 0U);
  if (const auto room = make_room_for_connections(reserve); !room) return start_failure{room.error(), {}, {}};
  auto accelerator = make_accelerator(opts_,
                                      {.cancelled = [this] { return cancel_load_.load(); },
                                       .waiting = [this](const auto& notice) { narrate_gpu_wait(notice); }},
                                      [this] { return model_->file.check_intact(); });
  if (!accelerator) return start_failure{accelerator.error(), {}, {}};
  accelerator_ = std::move(*accelerator);
  if (guard_.stop_asked()) return stopped_by_signal();
  auto model = open_model(opts_);
  if (!model) return start_failure{model.error(), {}, {}};
  model_.emplace(std::move(*model));
  if (guard_.stop_asked()) return stopped_by_signal();
  if (const auto read = read_adapters(); !read) return start_failure{read.error(), {}, {}};
  if (opts_.backend == backend_kind::host) {
    const auto plan = gpu::plan_host_memory(model_->spec, model_->plan_for);
    if (auto failure = check_plan(plan, opts_, physical_memory_bytes())) return failure;
  }
  identity_ = make_identity(opts_, *model_);
  if (failover_) identity_.engine_id = opts_.failover.engine_id;
  const auto trained = model_->spec.spec.context_length;
  if (opts_.context > trained && !opts_.rope.scaling) {
    narrator_.narrate(
        severity::warning, "context_beyond_training",
        "The context is longer than the model was trained for and --rope-scaling is not given",
        {{"context_tokens", std::uint64_t{opts_.context}}, {"trained_tokens", std::uint64_t{trained}}});
  }
  if (const auto read = read_request_files(); !read) return start_failure{read.error(), {}, {}};
  if (guard_.stop_asked()) return stopped_by_signal();
  if (const auto made = make_adapters(); !made) return start_failure{made.error(), {}, {}};
  const text_digests texts{model_->tokenizer_digest, chat_ ? chat_->digest() : std::string(),
                           adapters_ ? net::adapters_identity(*adapters_->list()) : std::string()};
  identity_.system_fingerprint = system_fingerprint(opts_, model_->file, texts);
  if (failover_) failover_->maker = answers_maker(opts_, model_->file, texts);
  make_server();
  if (const auto started = background_.start(); !started) return start_failure{started.error(), {}, {}};
  if (failover_) return std::nullopt;  // another engine may serve there
  auto port = reserve_port();
  if (!port) return start_failure{port.error(), {}, {}};
  use_port(*port);
  return std::nullopt;
}

/// The address to serve at, not yet served.
result<std::uint16_t> worker::reserve_port() {
  return opts_.listener < 0 ? server_->bind() : server_->take_listener(opts_.listener);
}

void worker::use_port(std::uint16_t port) {
  port_ = port;
  uri_ = public_uri(opts_, port_, host_name());
}

/// Keys are for the worker alone. Said, not refused: orchestrators mount their secrets readable.
void worker::warn_of_open_key_file() {
  struct stat facts {};
  if (::stat(opts_.api_key_file.c_str(), &facts) != 0 || (facts.st_mode & S_IROTH) == 0) return;
  narrator_.narrate(severity::warning, "api_key_file_open",
                    "Everybody on this machine can read the API key file '" + opts_.api_key_file +
                        "'; chmod o-r takes that away",
                    {{"path", std::string_view(opts_.api_key_file)}});
}

/// Reads the API keys and the chat template. A model without a usable chat template still serves everything
/// but chats; a template that the operator named must be good.
result<void> worker::read_request_files() {
  if (!opts_.api_key_file.empty()) {
    auto keys = read_keys(opts_.api_key_file);
    if (!keys) return keys.error();
    keys_ = std::move(*keys);
    warn_of_open_key_file();
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
                    .system_prompts = opts_.system_prompts,
                    .pages_spared = spared_pages(opts_)};
  schedule.drafts = {opts_.speculate, opts_.drafts_always};
  schedule.on_failure = [this](const error& why) {
    on_fatal(why, fault_exit_code(why.code, accelerator_->device_lost()));
  };
  // Before the first job is told of it.
  schedule.on_lost = [this](const error&) {
    if (failover_ && !accelerator_->device_lost()) failover_->leaves = failover_->can_leave.load();
  };
  schedule.on_degraded = [this](const error& why) {
    narrator_.narrate(severity::error, "error", why.message, {{"code", engine::code_name(why.code)}});
  };
  schedule.on_recovered = [this] {
    narrator_.narrate(severity::info, "recovered", "A job ended well after device memory had run out");
  };
  schedule.on_set_back = [this](const std::string& job_id, std::uint32_t tokens) {
    narrator_.narrate(severity::info, "job_set_back",
                      "A job waits for a slot again: older ones needed its KV pages",
                      {{"job_id", job_id}, {"tokens_out", std::uint64_t{tokens}}});
  };
  gpu_thread_ = std::make_unique<gpu::gpu_thread>(*accelerator_, std::move(schedule), state_);
  admission_.emplace(engine::admission_limits{opts_.slots, opts_.max_queue});

  net::server_config config;
  config.address = opts_.host;
  config.port = opts_.port;
  const std::uint32_t context = model_->plan_for.context_tokens;
  config.execute = execute_limits(opts_, context);
  config.model = model_limits(opts_, context);
  config.compat = opts_.compat;
  config.keys = std::move(keys_);
  config.cors_origins = opts_.cors_origins;
  config.page = !opts_.no_page;
  config.request_template = opts_.allow_request_template;
  config.parse_special_in_chat = opts_.parse_special_in_chat;
  config.strict_fields = opts_.strict_fields;
  config.null_usage = !opts_.no_null_usage;
  config.system_tokens_min = opts_.cache_min_tokens;
  config.slots_endpoint = opts_.slots_endpoint;
  config.matryoshka = opts_.matryoshka;
  config.response_store_bytes = std::size_t{opts_.response_store_mib} << 20U;
  config.hosts = serving_hosts(opts_);
  config.connections.connections_max = opts_.max_connections;
  config.connections.connections_per_address = opts_.max_connections_per_address;
  config.connections.write_timeout = std::chrono::seconds(opts_.write_timeout_sec);
  config.connections.body_bytes_max = body_bytes_max(opts_, context);
  start_traces();
  server_.emplace(
      io_, std::move(config),
      net::server_context{*gpu_thread_, *admission_, state_, identity_, *model_->tokenizer, narrator_,
                          [this] { post_event(shutdown_event::request, "POST /shutdown"); },
                          [] {
                            const auto counts = gpu::counted_allocations();
                            return engine::memory_counts{counts.pinned_bytes, counts.after_seal};
                          },
                          chat_ ? &*chat_ : nullptr, chat_ ? make_table(*model_) : nullptr,
                          [this](net::queued_task task) { return background_.take(std::move(task)); },
                          model_->pairs ? &*model_->pairs : nullptr, [this] { return render_more_metrics(); },
                          adapters_.get(), traces_.get()});
}

void worker::on_loaded(const result<engine::memory_plan>& plan) {
  if (fsm_.ending()) return;
  if (!plan) return fail_start({plan.error(), {}, {}});
  if (put_next_adapter(*plan)) return;
  if (auto intact = model_->file.check_intact(); !intact) return fail_start({intact.error(), {}, {}});
  // The server does not listen yet, so that no session reads the identity.
  const auto gpu = accelerator_->device();
  identity_.gpu_device = gpu.index;
  identity_.gpu_name = gpu.name;
  identity_.gpu_uuid = gpu.uuid;
  narrator_.set_gpu_device(gpu.index);
  state_.resident = accelerator_->resident();
  state_.vram_bytes = accelerator_->vram_bytes();
  state_.kv_bytes = plan->kv_bytes;
  state_.adapters_bytes = plan->adapters_bytes;
  state_.load_percent = 100;
  state_.load_bytes = model_->file.tensor_bytes();
  state_.load_seconds = ms_since(load_started_at_) / 1000.0;
  narrator_.narrate(severity::info, "model_load_complete", "The model is loaded",
                    {{"load_ms", ms_since(load_started_at_)},
                     {"vram_bytes", accelerator_->vram_bytes()},
                     {"resident", accelerator_->resident()},
                     {"gpu_name", std::string_view(gpu.name)},
                     {"gpu_uuid", std::string_view(gpu.uuid)},
                     {"weights_bytes", plan->weights_bytes},
                     {"kv_bytes", plan->kv_bytes},
                     {"kv_type_k", std::string_view(engine::to_string(identity_.kv.keys))},
                     {"kv_type_v", std::string_view(engine::to_string(identity_.kv.values))},
                     {"workspace_bytes", plan->workspace_bytes},
                     {"logits_bytes", plan->logits_bytes}});
  if (adapters_) {
    narrator_.narrate(severity::info, "adapter_room", "There is room for LoRA adapters",
                      {{"adapters", std::uint64_t{adapters_->rooms()}},
                       {"rank", std::uint64_t{model_->plan_for.adapters.rank_max}},
                       {"bytes", plan->adapters_bytes}});
  }
  if (const auto room = make_room_for_connections(spare_descriptors()); !room) {
    return fail_start({room.error(), {}, {}});
  }
  server_->limit_connections(connections_);
  if (failover_) return step_cycle(net::cycle_event::initialised);
  if (auto listened = server_->listen(); !listened) return fail_start({listened.error(), {}, {}});
  listening_ = true;
  announce();
}

/// The pool manager checks that the URI answers, so that it is told only now that the server listens. Jobs
/// are refused until it has agreed (WORK-3011, WORK-3014).
void worker::announce() {
  if (opts_.callback_url.empty()) return become_ready();
  net::callback_config config;
  config.url = opts_.callback_url;
  net::ready_message message{opts_.worker_id, identity_.model_name, accelerator_->vram_bytes(), uri_};
  net::post_ready(io_, std::move(config), std::move(message), [this](const result<void>& answer) {
    if (fsm_.ending()) return;
    if (!answer) return fail_start({answer.error(), {}, {}});
    become_ready();
  });
}

void worker::become_ready() {
  handle(shutdown_event::loaded, "");
  guard_.enter(run_phase::serving);
  state_.startup_seconds = ms_since(started_at_) / 1000.0;
  state_.set(lifecycle::ready);
  narrator_.narrate(severity::info, "ready", "Serving " + identity_.model_name + " at " + uri_,
                    {{"uri", std::string_view(uri_)},
                     {"port", std::uint64_t{port_}},
                     {"vram_bytes", accelerator_->vram_bytes()},
                     {"context_tokens", std::uint64_t{identity_.context_tokens}},
                     {"slots", std::uint64_t{identity_.slots}},
                     {"start_ms", ms_since(started_at_)}});
  service_.ready("Serving " + identity_.model_name + " at " + uri_);
  start_discovery();
  if (failover_) {
    failover_->announced = true;
    return;  // watched since it stands by
  }
  start_watchdog();
  start_watching();
}

void worker::start_watchdog() {
  const auto interval = service_manager::watchdog_interval();
  if (!interval) return;
  // A step of the host backend may take many seconds on a small machine; a GPU's may not.
  const auto half = std::chrono::duration_cast<milliseconds>(*interval) / 2;
  watchdog_.emplace(
      opts_.backend == backend_kind::host ? std::max<milliseconds>(half, std::chrono::minutes(2)) : half);
  watch_interval_ = half / 2;
}

void worker::fail_start(const start_failure& failure) {
  state_.set(lifecycle::failed);
  if (failover_ && failover_->can_leave) failover_->leaves = failover_->leaves_well = true;
  step_cycle(net::cycle_event::failed);
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
  fsm_.set_failure_code(start_exit_code(failure.why.code));
  handle(shutdown_event::start_failed, "start-up failure");
}

}  // namespace orcd::app
