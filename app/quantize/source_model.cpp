#include "app/quantize/source_model.hpp"

#include <cmath>
#include <filesystem>
#include <utility>

#include "app/quantize/number_formats.hpp"
#include "app/quantize/refuse.hpp"
#include "app/quantize/tensor_shapes.hpp"
#include "engine/gguf/byte_cursor.hpp"

namespace orcd::app {
namespace {

using engine::error;
using engine::in_quotes;
using engine::result;
using engine::safetensor;
using engine::safetensor_type;
using engine::safetensors_file;

safetensor_type stored_type(source_type type) noexcept {
  switch (type) {
    case source_type::f32: return safetensor_type::f32;
    case source_type::f16: return safetensor_type::f16;
    case source_type::bf16: return safetensor_type::bf16;
    case source_type::i8: return safetensor_type::i8;
    case source_type::u8: return safetensor_type::u8;
  }
  return safetensor_type::f32;
}

std::string shape_of(const safetensor& tensor) {
  std::string out = "[";
  for (std::uint32_t i = 0; i < tensor.dims; ++i) {
    out += (i == 0 ? "" : ", ") + std::to_string(tensor.shape[i]);
  }
  return out + "]";
}

bool has_shape(const safetensor& tensor, std::uint64_t rows, std::uint64_t cols) noexcept {
  if (tensor.dims == 1) return tensor.shape[0] == rows && cols == 1;
  return tensor.dims == 2 && tensor.shape[0] == rows && tensor.shape[1] == cols;
}

/// The tensor that an entry points at, if it is as the entry says.
result<const safetensor*> find_entry(const safetensors_file& shard, const byte_range& range, source_type type,
                                     std::uint64_t rows, std::uint64_t cols) {
  const safetensor* found = shard.at_offset(range.offset);
  if (found == nullptr) {
    return refuse(shard.name(), "no tensor begins at byte " + std::to_string(range.offset) +
                                    ", where the manifest has one of " + std::to_string(range.bytes) +
                                    " bytes");
  }
  if (found->type == stored_type(type) && found->bytes == range.bytes && has_shape(*found, rows, cols)) {
    return found;
  }
  return refuse(shard.name(), "tensor " + in_quotes(found->name) + " is " +
                                  std::string(to_string(found->type)) + " " + shape_of(*found) +
                                  "; the manifest says " + std::string(to_string(stored_type(type))) + " " +
                                  extents_text(rows, cols));
}

/// What the codes are multiplied by.
result<float> read_scale(const safetensors_file& shard, const std::string& owner, const byte_range& range,
                         bool divides) {
  const safetensor* found = shard.at_offset(range.offset);
  const std::string wanted = owner + "_scale";
  if (found == nullptr || found->name != wanted || found->bytes != range.bytes) {
    return refuse(shard.name(), "no tensor " + in_quotes(wanted) + " of " + std::to_string(range.bytes) +
                                    " bytes begins at byte " + std::to_string(range.offset));
  }
  if (found->type != safetensor_type::bf16 && found->type != safetensor_type::f32) {
    return refuse(shard.name(), "tensor " + in_quotes(wanted) + " is " + std::string(to_string(found->type)) +
                                    "; a scale must be one value in BF16 or F32");
  }
  const source_type type = found->type == safetensor_type::f32 ? source_type::f32 : source_type::bf16;
  const float stored = value_at(type, shard.bytes_of(*found).data(), 0);
  const float scale = divides ? 1.0F / stored : stored;
  if (std::isfinite(scale) && scale != 0.0F && found->bytes == bytes_of(type)) return scale;
  return refuse(shard.name(), "tensor " + in_quotes(wanted) + " is " + std::to_string(stored) +
                                  "; a scale must be one finite value other than 0");
}

class source_opener {
 public:
  explicit source_opener(const manifest& entries) : entries_(entries) {}

  result<source_model> open() {
    if (auto done = open_shards(); !done) return done.error();
    if (!entries_.tensors.empty()) {
      if (auto done = read_config(); !done) return done.error();
    }
    for (const manifest_tensor& entry : entries_.tensors) {
      if (auto done = add_tensor(entry); !done) return done.error();
    }
    if (entries_.lora) {
      if (auto done = add_targets(*entries_.lora); !done) return done.error();
    }
    return std::move(out_);
  }

 private:
  result<void> open_shards() {
    std::size_t tensors = 0;
    for (const std::string& path : entries_.shards) {
      auto shard = safetensors_file::open(path);
      if (!shard) return shard.error();
      tensors += shard->tensors().size();
      if (auto few = check_stored(path, tensors); !few) return few;
      out_.shards.push_back(std::move(*shard));
    }
    return {};
  }

  result<void> read_config() {
    const std::filesystem::path shard = entries_.shards[entries_.tensors.front().data.shard];
    auto config = read_model_config((shard.parent_path() / "config.json").string());
    if (!config) return config.error();
    out_.config = std::move(*config);
    return {};
  }

  result<void> add_tensor(const manifest_tensor& entry) {
    const safetensors_file& shard = out_.shards[entry.data.shard];
    const auto found = find_entry(shard, entry.data, entry.type, entry.rows, entry.cols);
    if (!found) return found.error();
    const std::string& name = (*found)->name;
    const auto parsed = parse_tensor_name(name);
    if (!parsed) return refuse(shard.name(), "tensor " + in_quotes(name) + " is none of a supported model");
    if (!out_.tensors.empty() && out_.tensors.back().name.order() >= parsed->order()) {
      return refuse(shard.name(), "tensor " + in_quotes(name) + " is behind " +
                                      in_quotes(out_.tensors.back().file_name) +
                                      " in the manifest, where it must be before it or is a second time");
    }
    source_tensor tensor{*parsed, name, entry.action, {}, 1.0F};
    tensor.values = {entry.type, entry.rows, entry.cols, shard.bytes_of(**found)};
    if (entry.scale) {
      if (entry.action != tensor_action::repack) {
        return refuse(shard.name(),
                      "tensor " + in_quotes(name) + " has a scale, which only packed codes have");
      }
      const auto scale =
          read_scale(out_.shards[entry.scale->shard], name, *entry.scale, out_.config.scales_divide);
      if (!scale) return scale.error();
      tensor.scale = *scale;
    }
    out_.tensors.push_back(std::move(tensor));
    return {};
  }

  result<void> add_targets(const manifest_lora& lora) {
    out_.lora_scale = lora.scale;
    for (std::uint32_t i = 0; i < lora.targets.size(); ++i) {
      if (!lora.targets[i]) continue;
      source_target target;
      target.layer = i / lora_targets;
      target.role = lora_target_role(i % lora_targets);
      target.file_name = lora_target_name(target.layer, i % lora_targets);
      const auto a = find_half(lora.targets[i]->a, target.file_name + ".lora_A.weight");
      if (!a) return a.error();
      const auto b = find_half(lora.targets[i]->b, target.file_name + ".lora_B.weight");
      if (!b) return b.error();
      target.a = *a;
      target.b = *b;
      out_.targets.push_back(std::move(target));
    }
    if (out_.targets.empty()) {
      return refuse(out_.shards.front().name(), "the manifest has LoRA layers and none of their targets");
    }
    return {};
  }

  result<source_matrix> find_half(const manifest_matrix& half, const std::string& wanted) {
    const safetensors_file& shard = out_.shards[half.data.shard];
    const auto found = find_entry(shard, half.data, half.type, half.rows, half.cols);
    if (!found) return found.error();
    std::string_view name = (*found)->name;
    constexpr std::string_view prefix = "base_model.model.";
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
    if (name != wanted) {
      return refuse(shard.name(), "tensor " + in_quotes((*found)->name) + " is where the manifest has " +
                                      in_quotes(wanted));
    }
    return source_matrix{half.type, half.rows, half.cols, shard.bytes_of(**found)};
  }

  const manifest& entries_;
  source_model out_;
};

}  // namespace

result<void> source_model::check_intact() const {
  for (const safetensors_file& shard : shards) {
    if (auto intact = shard.check_intact(); !intact) return intact;
  }
  return {};
}

result<void> check_stored(const std::string& path, std::size_t tensors) {
  if (tensors <= manifest_limits::stored) return {};
  return refuse(path, "with this shard there are " + std::to_string(tensors) + " tensors; the limit is " +
                          std::to_string(manifest_limits::stored));
}

result<source_model> open_source(const manifest& entries) {
  return source_opener(entries).open();
}

}  // namespace orcd::app
