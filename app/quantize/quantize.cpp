#include "app/quantize/quantize.hpp"

#include <array>
#include <filesystem>
#include <optional>
#include <ostream>
#include <utility>

#include "app/console/one_line.hpp"
#include "app/quantize/arguments.hpp"
#include "app/quantize/check_targets.hpp"
#include "app/quantize/image_plan.hpp"
#include "app/quantize/image_writer.hpp"
#include "app/quantize/output_file.hpp"
#include "app/quantize/progress.hpp"
#include "app/quantize/refuse.hpp"
#include "app/quantize/rope_cache.hpp"
#include "app/quantize/source_model.hpp"
#include "app/version/version.hpp"

namespace orcd::app {
namespace {

namespace fs = std::filesystem;
using engine::errc;
using engine::error;
using engine::result;

/// What is to be written where.
struct planned_file {
  std::string path;
  image_plan image;
};
struct planned_work {
  std::vector<planned_file> images;
  std::optional<std::string> rope_output;
  model_sizes sizes;
  std::optional<std::string> manifest{};  ///< that says what to do
};

std::vector<std::string> outputs_of(const planned_work& work) {
  std::vector<std::string> out;
  for (const planned_file& file : work.images) out.push_back(file.path);
  if (work.rope_output) out.push_back(*work.rope_output);
  return out;
}

/// Whatever is read, or may have been.
std::vector<std::string> inputs_of(const planned_work& work, const source_model& source) {
  std::vector<std::string> out;
  if (work.manifest) out.push_back(*work.manifest);
  for (const engine::safetensors_file& shard : source.shards) {
    const fs::path folder = fs::path(shard.name()).parent_path();
    out.push_back(shard.name());
    out.push_back((folder / "config.json").string());
    out.push_back((folder / "model.safetensors.index.json").string());
  }
  return out;
}

/// All files are on the disk before the first one gets its name.
result<void> write_all(planned_work& work, const source_model& source, progress& shown) {
  const std::vector<std::string> outputs = outputs_of(work);
  if (auto done = check_targets(outputs, inputs_of(work, source)); !done) return done;
  std::vector<output_file> files;
  for (const std::string& path : outputs) {
    auto file = output_file::create(path);
    if (!file) return file.error();
    files.push_back(std::move(*file));
  }
  const progress_sink sink = [&](std::uint64_t bytes) { shown.add(bytes); };
  for (std::size_t i = 0; i < work.images.size(); ++i) {
    if (auto done = write_image(work.images[i].image, files[i], sink); !done) return done;
  }
  if (work.rope_output) {
    if (auto done = files.back().write_at(0, rope_cache_image(work.sizes)); !done) return done;
  }
  if (auto intact = source.check_intact(); !intact) return intact;
  for (const output_file& file : files) {
    if (auto done = file.sync(); !done) return done;
  }
  // The model's tensors, first in the list, appear last: who finds them finds all.
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    if (auto done = file->publish(); !done) return done;
  }
  return {};
}

std::uint64_t source_bytes(const planned_work& work) {
  std::uint64_t total = 0;
  for (const planned_file& file : work.images) total += file.image.source_bytes();
  return total;
}

result<void> check_sizes(const model_sizes& s) {
  const bool halves = s.head_dim % 2 == 0 && s.rope_dim % 2 == 0 && s.rope_dim <= s.head_dim;
  const bool whole = s.arch == model_arch::bitnet || s.rope_dim == s.head_dim;
  if (halves && whole) return {};
  return usage_error(
      "the head dimension is " + std::to_string(s.head_dim) + " and " + std::to_string(s.rope_dim) +
      " of it are rotated; both must be even, the second at most the first, and with Llama equal");
}

/// What a call must say depends on what its manifest holds.
result<void> check_call(const manifest_call& call, const manifest& entries) {
  const model_sizes& s = call.sizes;
  if ((call.rope_output || !entries.tensors.empty()) && (s.theta == 0.0 || s.context == 0)) {
    return usage_error("--rope-theta or --max-pos is missing");
  }
  if (!entries.tensors.empty() && s.eps == 0.0) return usage_error("--norm-eps is missing");
  if (entries.lora && !call.lora_output) {
    return usage_error("--lora-output is missing, and the manifest has LoRA entries");
  }
  if (call.lora_output && !entries.lora) {
    return refuse(call.manifest + ": has no LoRA entries, and --lora-output is given");
  }
  if (entries.lora && (s.heads == 0 || s.kv_heads == 0)) {
    return usage_error("--num-heads or --num-kv-heads is missing, which LoRA entries need");
  }
  return check_sizes(s);
}

result<void> run_manifest(const manifest_call& call, std::ostream* terminal) {
  const auto entries = read_manifest(call.manifest);
  if (!entries) return entries.error();
  if (auto done = check_call(call, *entries); !done) return done;
  const auto source = open_source(*entries);
  if (!source) return source.error();
  const auto sizes = complete_sizes(*source, call.sizes);
  if (!sizes) return sizes.error();
  planned_work work{{}, call.rope_output, *sizes, call.manifest};
  if (!entries->tensors.empty()) {
    auto plan = plan_model(*source, *sizes, engine::ggml_type::i2_s);
    if (!plan) return plan.error();
    put_tensors_header(*plan, sizes->arch);
    work.images.push_back({call.output, std::move(*plan)});
  }
  if (entries->lora) {
    auto plan = plan_adapter(*source, *sizes, call.lora_rank);
    if (!plan) return plan.error();
    put_adapter_header(*plan);
    work.images.push_back({*call.lora_output, std::move(*plan)});
  }
  progress shown(terminal, source_bytes(work));
  return write_all(work, *source, shown);
}

/// The sizes that a manifest's call would pass.
result<model_sizes> sizes_of(const model_config& config, const std::string& name) {
  model_sizes s = config.sizes;
  const std::array needed{
      std::pair{"hidden_size", s.hidden_original != 0}, std::pair{"intermediate_size", s.ffn_original != 0},
      std::pair{"num_attention_heads", s.heads != 0},   std::pair{"max_position_embeddings", s.context != 0},
      std::pair{"rms_norm_eps", s.eps != 0.0},          std::pair{"rope_theta", s.theta != 0.0}};
  for (const auto& [key, given] : needed) {
    if (!given) return refuse(name + ": '" + key + "' is missing");
  }
  if (config.kind != "bitnet" && config.kind != "llama") {
    return refuse(name + ": 'model_type' is '" + config.kind + "'; it must be bitnet or llama");
  }
  s.arch = config.kind == "bitnet" ? model_arch::bitnet : model_arch::llama;
  s.hidden = (s.hidden_original + 127) / 128 * 128;
  s.ffn = (s.ffn_original + 127) / 128 * 128;
  if (s.kv_heads == 0) s.kv_heads = s.heads;
  if (s.head_dim == 0) s.head_dim = s.hidden_original / s.heads;
  if (s.head_dim == 0) return refuse(name + ": 'num_attention_heads' is more than 'hidden_size'");
  s.rope_dim = s.head_dim;
  return s;
}

result<void> run_directory(const directory_call& call, std::ostream* terminal) {
  const bool one_file = call.out.ends_with(".gguf");
  std::error_code code;
  if (!one_file && !fs::is_directory(call.out, code)) {
    return usage_error("--out is " + call.out + "; it must be a folder that exists or end with .gguf");
  }
  if (!one_file && call.type != engine::ggml_type::i2_s) {
    return usage_error("--type is for a file that ends with .gguf; qmodel.tensors has i2_s");
  }
  const std::string config_name = (fs::path(call.model) / "config.json").string();
  const auto config = read_model_config(config_name);
  if (!config) return config.error();
  auto sizes = sizes_of(*config, config_name);
  if (!sizes) return sizes.error();
  if (auto done = check_sizes(*sizes); !done) return refuse(config_name + ": " + done.error().message);
  const auto entries = make_manifest(call.model, sizes->tied, call.embedding == engine::ggml_type::q8_0);
  if (!entries) return entries.error();
  const auto source = open_source(*entries);
  if (!source) return source.error();
  sizes = complete_sizes(*source, *sizes);
  if (!sizes) return sizes.error();
  auto plan = plan_model(*source, *sizes, call.type);
  if (!plan) return plan.error();
  planned_work work{{}, std::nullopt, *sizes};
  if (!one_file) {
    put_tensors_header(*plan, sizes->arch);
    work.rope_output = (fs::path(call.out) / "rope.cache").string();
  }
  work.images.push_back(
      {one_file ? call.out : (fs::path(call.out) / "qmodel.tensors").string(), std::move(*plan)});
  progress shown(terminal, source_bytes(work));
  return write_all(work, *source, shown);
}

}  // namespace

int run_quantize(std::span<const std::string_view> words, std::ostream& out, std::ostream& err,
                 bool terminal) {
  const auto arguments = parse_quantize_arguments(words);
  using action = quantize_arguments::action;
  if (arguments && arguments->what == action::help) out << quantize_usage() << std::flush;
  if (arguments && arguments->what == action::version)
    out << "trillim-quantize " << version() << "\n" << std::flush;
  if (arguments && (arguments->what == action::help || arguments->what == action::version)) {
    return out.good() ? 0 : 1;
  }
  result<void> done;
  if (!arguments) {
    done = arguments.error();
  } else if (arguments->what == action::manifest) {
    done = run_manifest(arguments->manifest, terminal ? &err : nullptr);
  } else {
    done = run_directory(arguments->directory, terminal ? &err : nullptr);
  }
  if (done) return 0;
  err << complaint("trillim-quantize", done.error().message) << std::flush;
  return done.error().code == errc::invalid_request ? 2 : 1;
}

}  // namespace orcd::app
