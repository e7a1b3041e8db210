#include "app/worker/start_words.hpp"

#include <unistd.h>

#include <string_view>

#include "app/options/serving_config.hpp"
#include "app/version/version.hpp"
#include "engine/base/kv_window.hpp"

namespace orcd::app {

using engine::severity;

void narrate_begin(engine::narrator& narrator, const options& opts) {
  narrator.narrate(severity::info, "startup", std::string("worker-orcd ") + version() + " is starting",
                   {{"version", std::string_view(version())},
                    {"backend", std::string_view(to_string(opts.backend))},
                    {"model", std::string_view(opts.model)},
                    {"pid", static_cast<std::int64_t>(getpid())},
                    {"socket_passed", opts.listener >= 0}});
  for (const auto& warning : opts.warnings) narrator.narrate(severity::warning, "option_ignored", warning);
}

void narrate_failure(engine::narrator& narrator, const options& opts, const start_failure& failure) {
  const auto code = engine::code_name(failure.why.code);
  const auto narrate = [&](std::initializer_list<engine::narration_field> fields) {
    narrator.narrate(severity::error, "error", "Start-up failed: " + failure.why.message, fields);
  };
  const std::string_view model = opts.model;
  const std::string_view gpu = opts.gpu.uuid;
  const std::string_view phase = "startup";
  if (failure.required_bytes && failure.available_bytes) {
    narrate({{"code", code},
             {"phase", phase},
             {"model", model},
             {"required_bytes", *failure.required_bytes},
             {"available_bytes", *failure.available_bytes}});
  } else if (!gpu.empty()) {
    narrate({{"code", code}, {"phase", phase}, {"model", model}, {"gpu_uuid", gpu}});
  } else {
    narrate({{"code", code}, {"phase", phase}, {"model", model}});
  }
}

void narrate_sampling(engine::narrator& narrator, const options& opts, const engine::chat_format* chat,
                      const engine::file_sampling& of_file, const engine::sampling_defaults& settled) {
  for (const auto& left : of_file.left) {
    narrator.narrate(severity::warning, "sampling_default_left",
                     "A recommendation of the model file is left: " + left);
  }
  for (const auto& one : settled.told) {
    if (one.origin == engine::default_origin::api) continue;
    narrator.narrate(severity::info, "sampling_default",
                     "Requests that do not say " + std::string(one.name) + " have a default",
                     {{"name", one.name}, {"value", one.value}, {"from", to_string(one.origin)}});
  }
  for (const auto& variable : template_defaults(opts)) {
    if (chat != nullptr && chat->mentions(variable.key())) continue;
    // One of the two names that --reasoning sets is enough.
    if (opts.template_kwargs.empty() && chat != nullptr &&
        (chat->mentions("thinking") || chat->mentions("enable_thinking")))
      continue;
    narrator.narrate(severity::warning, "template_variable_left",
                     "The chat template does not read the variable '" + std::string(variable.key()) +
                         "' of --chat-template-kwargs or --reasoning");
  }
}

void narrate_loaded(engine::narrator& narrator, const engine::worker_state& state,
                    const engine::worker_identity& identity, const engine::memory_plan& plan,
                    double load_ms) {
  narrator.narrate(severity::info, "model_load_complete", "The model is loaded",
                   {{"load_ms", load_ms},
                    {"vram_bytes", state.vram_bytes.load()},
                    {"resident", state.resident.load()},
                    {"gpu_name", std::string_view(identity.gpu_name)},
                    {"gpu_uuid", std::string_view(identity.gpu_uuid)},
                    {"weights_bytes", plan.weights_bytes},
                    {"kv_bytes", plan.kv_bytes},
                    {"kv_type_k", std::string_view(engine::to_string(identity.kv.keys))},
                    {"kv_type_v", std::string_view(engine::to_string(identity.kv.values))},
                    {"workspace_bytes", plan.workspace_bytes},
                    {"logits_bytes", plan.logits_bytes}});
}

void narrate_groups(engine::narrator& narrator, const engine::kv_geometry& geometry,
                    const engine::boundary_budget& budget) {
  std::uint64_t least = 0;
  bool kept = true;
  for (const engine::kv_group& group : geometry.further()) {
    const bool states = group.need == engine::kv_need::state;
    least +=
        group.page_bytes * (states ? 1 : engine::pages_before_max(group.window, geometry.page_positions));
    kept = kept && group.boundary_pages > 0;
    narrator.narrate(severity::info, "kv_group",
                     states ? "Layers with a state keep it at boundaries of prefixes"
                            : "Layers with a sliding window keep what they read",
                     {{"window", std::uint64_t{group.window}},
                      {"pages", std::uint64_t{group.pages}},
                      {"boundary_pages", std::uint64_t{group.boundary_pages}},
                      {"bytes", group.pages * group.page_bytes}});
  }
  if (kept || budget.bytes.value_or(budget.thousandths) == 0) return;
  narrator.narrate(severity::warning, "prefix_boundaries_too_few",
                   "--prefix-boundaries is less than one boundary takes: no prefix is shared",
                   {{"bytes", budget.bytes.value_or(0)}, {"bytes_least", least}});
}

void narrate_ready(engine::narrator& narrator, const engine::worker_identity& identity,
                   std::uint64_t vram_bytes, const std::string& uri, std::uint16_t port, double start_ms) {
  narrator.narrate(severity::info, "ready", "Serving " + identity.model_name + " at " + uri,
                   {{"uri", std::string_view(uri)},
                    {"port", std::uint64_t{port}},
                    {"vram_bytes", vram_bytes},
                    {"context_tokens", std::uint64_t{identity.context_tokens}},
                    {"slots", std::uint64_t{identity.slots}},
                    {"start_ms", start_ms}});
}

}  // namespace orcd::app
