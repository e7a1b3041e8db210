// worker-orcd-inspect plan: the memory that serving a model would take.
#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>

#include "app/console/one_line.hpp"
#include "app/inspect/gpu_plan.hpp"
#include "app/inspect/gpu_reading.hpp"
#include "app/inspect/inspect.hpp"
#include "engine/gguf/gguf_file.hpp"
#include "engine/media/tower.hpp"
#include "engine/model/model_spec.hpp"
#include "engine/served/media_input.hpp"
#include "engine/served/served_model.hpp"
#include "engine/text/utf8_buffer.hpp"
#include "gpu/host/host_backend.hpp"
#include "gpu/plan/adapter_layout.hpp"

namespace orcd::app {
namespace {

namespace json = boost::json;

std::uint32_t pages_for(std::uint32_t positions) noexcept {
  return positions / engine::kv_page_positions + (positions % engine::kv_page_positions == 0 ? 0 : 1);
}

struct shown_plan {
  std::uint32_t context = 0;
  std::uint32_t slots = 0;
  std::uint32_t kv_pages = 0;  ///< of the KV cache
  engine::kv_types kv{};
  std::uint64_t kv_per_token = 0;
  engine::memory_plan bytes;
  std::uint64_t projector_bytes = 0;
  std::optional<gpu_plan> gpu{};

  [[nodiscard]] std::uint64_t total() const noexcept { return bytes.total() + projector_bytes; }
  /// Positions that jobs in all slots can have at once, each as many.
  [[nodiscard]] std::uint32_t positions_each() const noexcept {
    return std::min(context, kv_pages / slots * engine::kv_page_positions);
  }
  /// Jobs with whole contexts that can be in slots at once.
  [[nodiscard]] std::uint32_t whole_contexts() const noexcept {
    return std::min(slots, kv_pages / pages_for(context));
  }
};

/// A row of bytes, with what it is of behind it.
std::string row_of(std::string_view name, std::uint64_t bytes, const std::string& remark = {}) {
  std::array<char, 96> line{};
  std::snprintf(line.data(), line.size(), "%-11.*s %18s bytes %12.2f MiB", static_cast<int>(name.size()),
                name.data(), grouped(bytes).c_str(), static_cast<double>(bytes) / (1024.0 * 1024.0));
  return line.data() + (remark.empty() ? "" : "  " + remark) + "\n";
}

std::string as_text(const gpu_plan& plan) {
  const std::string each = plan.engines > 1 ? ", of each engine" : "";
  const std::string copies = plan.copies > 1 ? std::to_string(plan.copies) + " copies of it" : "one copy";
  std::string out = "\nplan        one GPU, " + std::to_string(plan.engines) + " engine(s)\n";
  out += row_of("weights", plan.weights_bytes, copies);
  out += row_of("kv", plan.kv_bytes, plan.engines > 1 ? "of each engine" : "");
  for (const engine::kv_group& group : plan.kv.further()) {
    const bool windowed = group.need == engine::kv_need::window;
    const std::string about = windowed ? "layers that read " + grouped(group.window) +
                                             " positions: " + grouped(group.pages) + " pages, " +
                                             grouped(group.boundary_pages) + " for boundaries"
                                       : grouped(group.pages) + " recurrent states at boundaries";
    out += row_of(windowed ? "  window" : "  states", group.pages * group.page_bytes, "of it, " + about);
  }
  out += row_of("logits", plan.logits_bytes, plan.engines > 1 ? "of each engine" : "");
  if (plan.drafts_bytes > 0)
    out += row_of("drafts", plan.drafts_bytes, "unless it runs with --speculate off" + each);
  if (plan.adapters_bytes > 0)
    out += row_of("adapters", plan.adapters_bytes, each.substr(each.empty() ? 0 : 2));
  if (plan.states_bytes > 0) out += row_of("states", plan.states_bytes, "of the slots' sequences" + each);
  if (plan.media_bytes > 0)
    out += row_of("media", plan.media_bytes, "the projector's weights among it" + each);
  out += row_of("workspace", plan.workspace_bytes, plan.engines > 1 ? "of each engine" : "");
  out += row_of("context", plan.context_bytes, "CUDA context and kernels" + each + ": about");
  out += row_of("reserve", plan.reserve_bytes, "left free while loading");
  out += row_of("required", plan.required_bytes);
  if (!plan.vram_bytes) return out;
  const std::string device = plan.device.empty() ? "" : ": " + plan.device;
  out += row_of("vram", *plan.vram_bytes, (*plan.fits() ? "fits" : "does not fit") + device);
  out += "longest     " + std::to_string(*plan.context_max) + " positions per slot would fit\n";
  out += "largest     KV cache of " + grouped(*plan.kv_tokens_max) + " positions would fit (--kv-tokens)\n";
  return out;
}

json::object as_object(const gpu_plan& plan) {
  json::object out{{"engines", plan.engines},
                   {"weights_copies", plan.copies},
                   {"weights_bytes", plan.weights_bytes},
                   {"kv_bytes", plan.kv_bytes},
                   {"logits_bytes", plan.logits_bytes},
                   {"drafts_bytes", plan.drafts_bytes},
                   {"workspace_bytes", plan.workspace_bytes},
                   {"context_bytes", plan.context_bytes},
                   {"reserve_bytes", plan.reserve_bytes},
                   {"required_bytes", plan.required_bytes}};
  if (plan.adapters_bytes > 0) out["adapters_bytes"] = plan.adapters_bytes;
  if (plan.states_bytes > 0) out["states_bytes"] = plan.states_bytes;
  if (plan.media_bytes > 0) out["media_bytes"] = plan.media_bytes;
  json::array windows;
  for (const engine::kv_group& group : plan.kv.further()) {
    if (group.need == engine::kv_need::state) {
      out["boundary_states"] =
          json::object{{"pages", group.pages}, {"bytes", group.pages * group.page_bytes}};
      continue;
    }
    windows.push_back(json::object{{"window", group.window},
                                   {"pages", group.pages},
                                   {"boundary_pages", group.boundary_pages},
                                   {"bytes", group.pages * group.page_bytes}});
  }
  if (!windows.empty()) out["windows"] = std::move(windows);
  if (!plan.vram_bytes) return out;
  out["vram_bytes"] = *plan.vram_bytes;
  out["fits"] = *plan.fits();
  if (!plan.device.empty()) out["device"] = engine::valid_utf8(plan.device);
  out["context_max"] = *plan.context_max;
  out["kv_tokens_max"] = *plan.kv_tokens_max;
  return out;
}

std::string as_text(const engine::model_spec& spec, const shown_plan& plan) {
  std::string out =
      "model       " + one_line(spec.name) + " (" + spec.architecture + ", " + spec.quant_kind + ")\n";
  out += "plan        host backend, " + std::to_string(plan.slots) + " slot(s) of " +
         std::to_string(plan.context) + " positions, K " + engine::to_string(plan.kv.keys) + ", V " +
         engine::to_string(plan.kv.values) + ", " + grouped(plan.kv_per_token) + " bytes per position\n";
  out += "pages       " + grouped(plan.kv_pages) + " of " + std::to_string(engine::kv_page_positions) +
         " positions: jobs in all slots with " + grouped(plan.positions_each()) + " each at once, " +
         std::to_string(plan.whole_contexts()) + " with whole contexts\n";
  const std::array rows{std::pair{"weights", plan.bytes.weights_bytes}, std::pair{"kv", plan.bytes.kv_bytes},
                        std::pair{"workspace", plan.bytes.workspace_bytes},
                        std::pair{"logits", plan.bytes.logits_bytes}};
  for (const auto& [name, bytes] : rows) out += row_of(name, bytes);
  if (plan.bytes.states_bytes > 0) out += row_of("states", plan.bytes.states_bytes);
  if (plan.bytes.adapters_bytes > 0) out += row_of("adapters", plan.bytes.adapters_bytes);
  if (plan.projector_bytes > 0) {
    out += row_of("projector", plan.projector_bytes);
    out += row_of("media", plan.bytes.media_bytes);
  }
  out += row_of("total", plan.total());
  if (plan.gpu) out += as_text(*plan.gpu);
  return out;
}

std::string as_json(const engine::model_spec& spec, const shown_plan& plan) {
  json::object out{{"model", engine::valid_utf8(spec.name)},
                   {"architecture", spec.architecture},
                   {"quant_kind", spec.quant_kind},
                   {"backend", "host"},
                   {"context", plan.context},
                   {"slots", plan.slots},
                   {"kv_pages", plan.kv_pages},
                   {"positions_each", plan.positions_each()},
                   {"whole_contexts", plan.whole_contexts()},
                   {"kv_type_k", engine::to_string(plan.kv.keys)},
                   {"kv_type_v", engine::to_string(plan.kv.values)},
                   {"kv_bytes_per_token", plan.kv_per_token},
                   {"weights_bytes", plan.bytes.weights_bytes},
                   {"kv_bytes", plan.bytes.kv_bytes},
                   {"workspace_bytes", plan.bytes.workspace_bytes},
                   {"logits_bytes", plan.bytes.logits_bytes},
                   {"total_bytes", plan.total()}};
  if (plan.bytes.states_bytes > 0) out["states_bytes"] = plan.bytes.states_bytes;
  if (plan.bytes.adapters_bytes > 0) out["adapters_bytes"] = plan.bytes.adapters_bytes;
  if (plan.projector_bytes > 0) {
    out["projector_bytes"] = plan.projector_bytes;
    out["media_bytes"] = plan.bytes.media_bytes;
  }
  if (plan.gpu) out["gpu"] = as_object(*plan.gpu);
  return json::serialize(out) + "\n";
}

/// The projector that the arguments name, with a worker's usual limits of rows.
engine::result<std::optional<engine::tower>> plan_projector(const inspect_arguments& arguments,
                                                            const engine::model& model) {
  std::optional<engine::tower> out;
  if (arguments.projector.empty()) return out;
  auto opened = engine::open_tower(arguments.projector, model.spec);
  if (!opened) return opened.error();
  engine::limit_rows(opened->spec, engine::media_bounds().tokens_max);
  out.emplace(std::move(*opened));
  return out;
}

engine::media_room room_for_media(const engine::tower& projector, const shown_plan& plan) {
  constexpr std::uint64_t usual_cache_bytes = 64ULL << 20U;  // --media-cache-mb
  const engine::media_bounds usual;
  return engine::plan_media(projector, {usual.tokens_max, usual.seconds_max}, plan.slots, plan.context,
                            usual_cache_bytes);
}

/// What the arguments say of a GPU, or the driver of the one that they name.
engine::result<gpu_plan> plan_on_gpu(const inspect_arguments& arguments, const engine::model& model,
                                     gpu_plan_request request) {
  request.engines = arguments.failover ? 2 : 1;
  request.shared_weights = arguments.shared_weights;
  if (arguments.vram_mib > 0) request.vram_bytes = std::uint64_t{arguments.vram_mib} << 20U;
  gpu_reading read;
  if (arguments.gpu) {
    auto told = read_gpu(*arguments.gpu);
    if (!told) return told.error();
    read = std::move(*told);
    request.vram_bytes = read.bytes;
  }
  auto out = plan_gpu(model, request);
  if (out) out->device = std::move(read.name);
  return out;
}

}  // namespace

engine::result<inspected> inspect_plan(const inspect_arguments& arguments) {
  const auto file = engine::gguf_file::open(arguments.model);
  if (!file) return file.error();
  const auto model = engine::load_model(*file, arguments.context);
  if (!model) return model.error();
  shown_plan plan;
  plan.context = arguments.context != 0 ? arguments.context : model->spec.context_length;
  plan.slots = arguments.slots;
  if (arguments.kv_tokens > 0 && arguments.kv_tokens < plan.context) {
    return engine::error(engine::errc::invalid_request,
                         "--kv-tokens is " + std::to_string(arguments.kv_tokens) + ", a slot's context is " +
                             std::to_string(plan.context));
  }
  plan.kv_pages =
      arguments.kv_tokens > 0 ? pages_for(arguments.kv_tokens) : plan.slots * pages_for(plan.context);
  plan.kv = arguments.kv;
  plan.kv_per_token = model->spec.kv_bytes_per_token(plan.kv);
  engine::accelerator_config config;
  config.slots = plan.slots;
  config.context_tokens = plan.context;
  config.kv_pages = plan.kv_pages;
  config.kv = plan.kv;
  config.boundaries = arguments.boundaries;
  if (arguments.adapters > 0) config.adapters = {arguments.adapters, arguments.adapter_rank};
  if (const auto room = gpu::check_adapter_room(*model, config.adapters); !room) return room.error();
  const auto projector = plan_projector(arguments, *model);
  if (!projector) return projector.error();
  if (*projector) {
    config.media = room_for_media(**projector, plan);
    plan.projector_bytes = (*projector)->file.tensor_bytes();
  }
  plan.bytes = gpu::plan_host_memory(*model, config);
  if (arguments.vram_mib > 0 || arguments.gpu || arguments.failover) {
    gpu_plan_request request{plan.slots, plan.context, plan.kv, config.adapters, plan.kv_pages};
    request.chunk_tokens = arguments.prefill_chunk;
    request.boundaries = arguments.boundaries;
    request.media = config.media;
    auto on_gpu = plan_on_gpu(arguments, *model, request);
    if (!on_gpu) return on_gpu.error();
    plan.gpu = std::move(*on_gpu);
  }
  const bool fits = !plan.gpu || plan.gpu->fits().value_or(true);
  return inspected{arguments.json ? as_json(model->spec, plan) : as_text(model->spec, plan),
                   fits ? inspect_done : inspect_no_room};
}

}  // namespace orcd::app
