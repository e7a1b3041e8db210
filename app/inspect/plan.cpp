// worker-orcd-inspect plan: the memory that serving a model would take.
#include <array>
#include <boost/json.hpp>
#include <cstdio>

#include "app/inspect/inspect.hpp"
#include "engine/gguf/gguf_file.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/host/host_backend.hpp"

namespace orcd::app {
namespace {

namespace json = boost::json;

struct shown_plan {
  std::uint32_t context = 0;
  std::uint32_t slots = 0;
  engine::kv_types kv{};
  std::uint64_t kv_per_token = 0;
  engine::memory_plan bytes;
};

std::string as_text(const engine::model_spec& spec, const shown_plan& plan) {
  std::string out = "model       " + spec.name + " (" + spec.architecture + ", " + spec.quant_kind + ")\n";
  out += "plan        host backend, " + std::to_string(plan.slots) + " slot(s) of " +
         std::to_string(plan.context) + " positions, K " + engine::to_string(plan.kv.keys) + ", V " +
         engine::to_string(plan.kv.values) + ", " + grouped(plan.kv_per_token) + " bytes per position\n";
  const std::array rows{std::pair{"weights", plan.bytes.weights_bytes}, std::pair{"kv", plan.bytes.kv_bytes},
                        std::pair{"workspace", plan.bytes.workspace_bytes},
                        std::pair{"logits", plan.bytes.logits_bytes}, std::pair{"total", plan.bytes.total()}};
  for (const auto& [name, bytes] : rows) {
    std::array<char, 96> line{};
    std::snprintf(line.data(), line.size(), "%-11s %18s bytes %12.2f MiB\n", name, grouped(bytes).c_str(),
                  static_cast<double>(bytes) / (1024.0 * 1024.0));
    out += line.data();
  }
  return out;
}

std::string as_json(const engine::model_spec& spec, const shown_plan& plan) {
  const json::object out{{"model", valid_utf8(spec.name)},
                         {"architecture", spec.architecture},
                         {"quant_kind", spec.quant_kind},
                         {"backend", "host"},
                         {"context", plan.context},
                         {"slots", plan.slots},
                         {"kv_type_k", engine::to_string(plan.kv.keys)},
                         {"kv_type_v", engine::to_string(plan.kv.values)},
                         {"kv_bytes_per_token", plan.kv_per_token},
                         {"weights_bytes", plan.bytes.weights_bytes},
                         {"kv_bytes", plan.bytes.kv_bytes},
                         {"workspace_bytes", plan.bytes.workspace_bytes},
                         {"logits_bytes", plan.bytes.logits_bytes},
                         {"total_bytes", plan.bytes.total()}};
  return json::serialize(out) + "\n";
}

}  // namespace

engine::result<std::string> inspect_plan(const inspect_arguments& arguments) {
  const auto file = engine::gguf_file::open(arguments.model);
  if (!file) return file.error();
  const auto model = engine::load_model(*file, arguments.context);
  if (!model) return model.error();
  shown_plan plan;
  plan.context = arguments.context != 0 ? arguments.context : model->spec.context_length;
  plan.slots = arguments.slots;
  plan.kv = arguments.kv;
  plan.kv_per_token = model->spec.kv_bytes_per_token(plan.kv);
  plan.bytes = gpu::plan_host_memory(
      *model, {.slots = plan.slots, .context_tokens = plan.context, .banned_tokens = {}, .kv = plan.kv});
  return arguments.json ? as_json(model->spec, plan) : as_text(model->spec, plan);
}

}  // namespace orcd::app
