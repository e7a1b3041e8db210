// The manifest of a trainer's folder, as the SDK would write it, without the SDK.
#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <set>

#include "app/quantize/refuse.hpp"
#include "app/quantize/source_model.hpp"
#include "engine/gguf/byte_cursor.hpp"

namespace orcd::app {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using engine::error;
using engine::in_quotes;
using engine::result;
using engine::safetensor;
using engine::safetensor_type;
using engine::safetensors_file;

constexpr std::uint64_t most_index = 4U << 20U;  // its document takes some times as much memory

/// The shards that an index names; each must be a plain name, so that nothing outside the folder is read.
result<std::vector<std::string>> shards_of_index(const fs::path& index) {
  const auto text = read_small_file(index.string(), most_index);
  if (!text) return text.error();
  std::set<std::string> names;
  {
    boost::system::error_code code;
    const json::value root = json::parse(*text, code);
    const json::object* object = code ? nullptr : root.if_object();
    const json::value* map = object == nullptr ? nullptr : object->if_contains("weight_map");
    if (map == nullptr || !map->is_object()) return refuse(index.string(), "has no object 'weight_map'");
    for (const auto& [tensor, file] : map->get_object()) {
      const std::string name = file.is_string() ? std::string(file.get_string()) : std::string();
      if (name.empty() || name.find('/') != name.npos || name.find('\0') != name.npos || name == "..") {
        return refuse(index.string(), "tensor " + in_quotes(std::string_view(tensor)) +
                                          " is in no file of the folder: " + in_quotes(name));
      }
      names.insert(name);
      if (names.size() > manifest_limits::shards) {
        return refuse(index.string(),
                      "names more than " + std::to_string(manifest_limits::shards) + " shards");
      }
    }
  }
  std::vector<std::string> out;
  for (const std::string& name : names) out.push_back((index.parent_path() / name).string());
  if (out.empty()) return refuse(index.string(), "names no shards");
  return out;
}

result<std::vector<std::string>> shards_of(const fs::path& folder) {
  std::error_code code;
  const fs::path index = folder / "model.safetensors.index.json";
  if (fs::exists(index, code)) return shards_of_index(index);
  return std::vector<std::string>{(folder / "model.safetensors").string()};
}

std::optional<source_type> source_type_of(safetensor_type type) noexcept {
  switch (type) {
    case safetensor_type::f32: return source_type::f32;
    case safetensor_type::f16: return source_type::f16;
    case safetensor_type::bf16: return source_type::bf16;
    case safetensor_type::i8: return source_type::i8;
    case safetensor_type::u8: return source_type::u8;
    default: return std::nullopt;
  }
}

class manifest_maker {
 public:
  manifest_maker(bool tied, bool bytes_for_embedding) : tied_(tied), bytes_(bytes_for_embedding) {}

  result<void> add(const safetensors_file& shard, std::uint16_t number) {
    seen_ += shard.tensors().size();
    if (auto few = check_stored(shard.name(), seen_); !few) return few;
    for (const safetensor& tensor : shard.tensors()) {
      if (tensor.name.ends_with("_scale"))
        scales_.push_back({tensor.name, {number, tensor.offset, tensor.bytes}});
      if (is_left_out(tensor.name)) continue;
      const auto name = parse_tensor_name(tensor.name);
      if (!name)
        return refuse(shard.name(), "tensor " + in_quotes(tensor.name) + " is none of a supported model");
      if (tied_ && name->role == tensor_role::output) continue;
      if (auto done = add_tensor(shard, tensor, *name, number); !done) return done;
    }
    return {};
  }

  result<manifest> finish(std::vector<std::string> shards) {
    std::sort(found_.begin(), found_.end(),
              [](const row& a, const row& b) { return a.name.order() < b.name.order(); });
    std::sort(scales_.begin(), scales_.end(), [](const scale& a, const scale& b) { return a.name < b.name; });
    manifest out;
    out.shards = std::move(shards);
    for (row& r : found_) {
      const std::string wanted = r.file_name + "_scale";
      const auto at = std::lower_bound(scales_.begin(), scales_.end(), wanted,
                                       [](const scale& s, const std::string& n) { return s.name < n; });
      if (at != scales_.end() && at->name == wanted) r.entry.scale = at->place;
      out.tensors.push_back(r.entry);
    }
    return out;
  }

 private:
  struct row {
    tensor_name name;
    std::string file_name;
    manifest_tensor entry;
  };
  struct scale {
    std::string name;
    byte_range place;
  };

  result<void> add_tensor(const safetensors_file& shard, const safetensor& tensor, const tensor_name& name,
                          std::uint16_t number) {
    const auto type = source_type_of(tensor.type);
    const bool sized = tensor.dims >= 1 && tensor.dims <= 2 &&
                       std::all_of(tensor.shape.begin(), tensor.shape.begin() + tensor.dims, [](auto extent) {
                         return extent >= 1 && extent <= manifest_limits::extent;
                       });
    if (!type || !sized) {
      return refuse(shard.name(),
                    "tensor " + in_quotes(tensor.name) + " is " + std::string(to_string(tensor.type)) +
                        " with " + std::to_string(tensor.dims) +
                        " dimensions; it must be F32, F16, BF16, I8 or U8 with one or two of 1 to " +
                        std::to_string(manifest_limits::extent));
    }
    if (found_.size() >= manifest_limits::tensors) {
      return refuse(shard.name(),
                    "there are more than " + std::to_string(manifest_limits::tensors) + " tensors");
    }
    manifest_tensor entry;
    entry.type = *type;
    entry.rows = static_cast<std::uint32_t>(tensor.shape[0]);
    entry.cols = tensor.dims == 2 ? static_cast<std::uint32_t>(tensor.shape[1]) : 1U;
    entry.padded_rows = entry.rows;
    entry.padded_cols = entry.cols;
    entry.data = {number, tensor.offset, tensor.bytes};
    entry.action = action_for(name, tensor.dims, *type);
    found_.push_back({name, tensor.name, entry});
    return {};
  }

  [[nodiscard]] tensor_action action_for(const tensor_name& name, std::uint32_t dims,
                                         source_type type) const {
    if (type == source_type::i8 || type == source_type::u8) return tensor_action::repack;
    if (dims == 1) return tensor_action::raw;
    if (is_projection(name.role)) return tensor_action::ternarize;
    return bytes_ ? tensor_action::embedding : tensor_action::raw;
  }

  bool tied_;
  bool bytes_;
  std::size_t seen_ = 0;  ///< tensors of all shards, scales and what is left out with them
  std::vector<row> found_;
  std::vector<scale> scales_;
};

}  // namespace

result<manifest> make_manifest(const std::string& folder, bool tied, bool bytes_for_embedding) {
  auto shards = shards_of(folder);
  if (!shards) return shards.error();
  manifest_maker maker(tied, bytes_for_embedding);
  for (std::size_t i = 0; i < shards->size(); ++i) {
    const auto shard = safetensors_file::open((*shards)[i]);
    if (!shard) return shard.error();
    if (auto done = maker.add(*shard, static_cast<std::uint16_t>(i)); !done) return done.error();
  }
  return maker.finish(std::move(*shards));
}

}  // namespace orcd::app
