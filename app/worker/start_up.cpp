#include "app/worker/start_up.hpp"

#include <sys/stat.h>

#include <utility>

#include "app/identity/answer_parts.hpp"
#include "app/options/serving_config.hpp"
#include "app/worker/reloads.hpp"
#include "app/worker/start_words.hpp"
#include "engine/grammar/grammar.hpp"
#include "engine/served/breaker_tokens.hpp"
#include "gpu/host/host_backend.hpp"
#include "gpu/memory/allocation_counter.hpp"
#include "net/status/media_metrics.hpp"

namespace orcd::app {
namespace {

using engine::errc;
using engine::error;
using engine::result;
using engine::severity;

error stopped_by_signal() {
  return {errc::cancelled, "stopped by a signal"};
}

/// Keys are for the worker alone. Said, not refused: orchestrators mount their secrets readable.
void warn_of_open_file(engine::narrator& narrator, const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0 || (facts.st_mode & S_IROTH) == 0) return;
  narrator.narrate(
      severity::warning, "api_key_file_open",
      "Everybody on this machine can read the API key file '" + path + "'; chmod o-r takes that away",
      {{"path", std::string_view(path)}});
}

}  // namespace

start_up::start_up(const options& opts, engine::narrator& narrator, hooks asked)
    : opts_(opts), narrator_(narrator), asked_(std::move(asked)) {}

std::optional<start_failure> start_up::read_first_keys(net::current_keys& keys) {
  const std::string& path = opts_.api_key_file;
  if (path.empty()) return std::nullopt;
  auto read = read_keys(path);
  if (!read) return read.error();
  warn_of_open_file(narrator_, path);
  if (!read->has_operator()) {
    narrator_.narrate(
        severity::warning, "no_operator_key",
        "No key of the API key file has role=operator: nobody may stop the worker or change its "
        "adapters over HTTP but at the system port; signals remain",
        {{"path", std::string_view(path)}});
  }
  keys.replace(std::move(*read));
  return std::nullopt;
}

std::optional<start_failure> start_up::open() {
  auto device = make_accelerator(opts_, asked_.wait, [this] { return model_->file.check_intact(); });
  if (!device) return device.error();
  device_ = std::move(*device);
  if (stop_asked()) return stopped_by_signal();
  auto model = open_model(opts_);
  if (!model) return model.error();
  model_.emplace(std::move(*model));
  if (stop_asked()) return stopped_by_signal();
  if (const auto taken = take_media(); !taken) return taken.error();
  return std::nullopt;
}

std::optional<start_failure> start_up::describe(std::optional<std::uint32_t> engine) {
  if (opts_.backend == backend_kind::host) {
    const auto plan = gpu::plan_host_memory(model_->spec, model_->plan_for);
    if (auto failure = check_plan(plan, opts_, physical_memory_bytes())) return failure;
  }
  identity_ = make_identity(opts_, *model_);
  if (model_->projector) {
    identity_.projector = model_->projector->spec.projector;
    identity_.projector_hears = model_->projector->spec.sound.has_value();
  }
  if (engine) identity_.engine_id = *engine;
  const auto trained = model_->spec.spec.context_length;
  if (opts_.context > trained && !opts_.rope.scaling) {
    narrator_.narrate(
        severity::warning, "context_beyond_training",
        "The context is longer than the model was trained for and --rope-scaling is not given",
        {{"context_tokens", std::uint64_t{opts_.context}}, {"trained_tokens", std::uint64_t{trained}}});
  }
  if (const auto read = read_chat(); !read) return read.error();
  if (stop_asked()) return stopped_by_signal();
  return std::nullopt;
}

/// The decoder is there before the device begins.
result<void> start_up::take_media() {
  if (!model_->projector) return {};
  decoder_.emplace(decoder_process::usual_program());
  if (const auto started = decoder_->start(); !started) return started;
  const media_options& media = opts_.media;
  auto input =
      engine::media_input::make(*model_->projector, *model_->tokenizer, *decoder_,
                                {media.images_max, media.image_bytes_max, media.image_pixels_max,
                                 media.image_tokens_max, media.audio_bytes_max, media.audio_seconds_max});
  if (!input) return input.error();
  media_.emplace(std::move(*input));
  return {};
}

/// A model without a usable template still serves everything but chats; one that the operator named must be
/// good.
result<void> start_up::read_chat() {
  auto chat = read_chat_format(opts_, *model_);
  if (chat) {
    if (*chat) chat_.emplace(std::move(**chat));
    if (chat_ && chat_->stands_in()) {
      narrator_.narrate(
          severity::warning, "chat_template_missing",
          "The model file has no chat template: chats are written as ChatML, which the model may "
          "not know; --chat-template names another, --no-default-template refuses them");
    }
    return {};
  }
  const error& why = chat.error();
  if (!opts_.chat_template.empty()) {
    return error{errc::worker_start_failed, "chat template '" + opts_.chat_template + "': " + why.message,
                 why.param};
  }
  narrator_.narrate(severity::warning, "chat_template_unusable",
                    "Chat requests are refused: the model's chat template cannot be used: " + why.message);
  return {};
}

void start_up::identify(const std::string& adapters) {
  texts_ = {model_->tokenizer_digest, chat_ ? chat_->digest() : std::string(), adapters,
            model_->projector ? model_->projector->digest : std::string(),
            model_->projector ? header_digest(model_->projector->file) : std::string()};
  header_ = header_digest(model_->file);
  identity_.system_fingerprint = system_fingerprint(opts_, header_, texts_);
}

answer_facts start_up::facts() const {
  const auto context = model_->plan_for.context_tokens;
  std::string names = identity_.model_name;
  for (const auto& name : opts_.model_names) names += '\n' + name;
  return {context, header_, rope_digest(model_->spec, context), names, texts_};
}

net::answer_identity start_up::answers() const {
  auto out = answer_identity_of(opts_, facts());
  if (const auto files = files_digest(model_->file); !files.empty()) {
    out.weights.files = net::number_of(files);
  }
  return out;
}

std::string start_up::cache() const {
  return cache_digest(opts_, facts());
}

engine::scheduler_config start_up::schedule() const {
  engine::scheduler_config out;
  out.slots = opts_.slots;
  const auto ends = model_->tokenizer->end_of_generation();
  out.end_of_generation.assign(ends.begin(), ends.end());
  out.cache = {.share = !opts_.no_prefix_cache,
               .tokens_min = opts_.cache_min_tokens,
               .sessions = opts_.imc_sessions,
               .system_prompts = opts_.system_prompts,
               .pages_reserved = spared_pages(opts_)};
  out.drafts = {opts_.speculate, opts_.drafts_always};
  // On the GPU thread; the log takes lines of any.
  out.on_degraded = [this](const error& why) {
    narrator_.narrate(severity::error, "error", why.message, {{"code", engine::code_name(why.code)}});
  };
  out.on_recovered = [this] {
    narrator_.narrate(severity::info, "recovered", "A job ended well after device memory had run out");
  };
  out.on_preempted = [this](const std::string& job_id, std::uint32_t tokens) {
    narrator_.narrate(severity::info, "job_set_back",
                      "A job waits for a slot again: older ones needed its KV pages",
                      {{"job_id", job_id}, {"tokens_out", std::uint64_t{tokens}}});
  };
  return out;
}

net::server_config start_up::serving(net::current_keys keys) const {
  const auto of_file = engine::read_file_sampling(model_->file);
  const auto sampling = engine::settle_sampling(of_file.values, opts_.sampling);
  narrate_sampling(narrator_, opts_, chat(), of_file, sampling);
  auto out = serving_config(opts_, model_->plan_for.context_tokens, sampling);
  // Of requests that name none, whether they want DRY or an option does.
  const auto breakers = engine::make_usual_breakers(*model_->tokenizer);
  for (auto* const limits : {&out.model, &out.execute}) limits->sampling.breakers = breakers;
  out.keys = std::move(keys);
  out.hosts = serving_hosts(opts_);
  return out;
}

net::server_context start_up::context(engine::job_service& jobs, engine::admission& admission,
                                      engine::worker_state& state) const {
  const auto memory = [] {
    const auto counts = gpu::counted_allocations();
    return engine::memory_counts{counts.pinned_bytes, counts.after_seal};
  };
  return {.jobs = jobs,
          .admission = admission,
          .state = state,
          .identity = identity_,
          .tokenizer = *model_->tokenizer,
          .narrator = narrator_,
          .request_shutdown = {},
          .memory = memory,
          .chat = chat(),
          .tokens = engine::grammar::make_token_table(*model_->tokenizer, model_->spec.spec.vocab),
          .pairs = model_->pairs ? &*model_->pairs : nullptr,
          .media = media_ ? &*media_ : nullptr};
}

std::string start_up::media_metrics(const engine::media_state& media) const {
  return decoder_ ? net::render_media_metrics(decoder_->counts(), media) : std::string();
}

void start_up::narrate_projector(std::uint64_t bytes) {
  const engine::tower_spec& spec = model_->projector->spec;
  const std::string_view name = spec.projector;
  if (spec.sound) {
    narrator_.narrate(severity::info, "projector", "Messages may have sounds",
                      {{"projector", name},
                       {"kinds", std::string_view("audio")},
                       {"tokens_a_sound_max", spec.sound_rows(opts_.media.audio_seconds_max)},
                       {"bytes", bytes}});
    return;
  }
  narrator_.narrate(severity::info, "projector", "Messages may have pictures",
                    {{"projector", name},
                     {"kinds", std::string_view("image")},
                     {"tokens_a_picture_max",
                      std::uint64_t{std::min(spec.picture_rows_max(), opts_.media.image_tokens_max)}},
                     {"bytes", bytes}});
}

void start_up::note_loaded(const engine::memory_plan& plan, double load_ms, engine::worker_state& state) {
  const auto gpu = device_->device();
  identity_.gpu_device = gpu.index;
  identity_.gpu_name = gpu.name;
  identity_.gpu_uuid = gpu.uuid;
  state.resident = device_->resident();
  state.vram_bytes = device_->vram_bytes();
  state.kv_bytes = plan.kv_bytes;
  state.adapters_bytes = plan.adapters_bytes;
  state.states_bytes = plan.states_bytes;
  state.load_percent = 100;
  state.load_bytes = model_->file.tensor_bytes();
  state.load_seconds = load_ms / 1000.0;
  narrate_loaded(narrator_, state, identity_, plan, load_ms);
  narrate_groups(narrator_, device_->kv_pages(), model_->plan_for.boundaries);
  if (model_->projector) narrate_projector(plan.media_bytes);
  if (const auto room = model_->plan_for.adapters; room.count > 0) {
    narrator_.narrate(severity::info, "adapter_room", "There is room for LoRA adapters",
                      {{"adapters", std::uint64_t{room.count}},
                       {"rank", std::uint64_t{room.rank_max}},
                       {"bytes", plan.adapters_bytes}});
  }
}

}  // namespace orcd::app
