// Joins the parts of a model: one file, or a split one ("<prefix>-00001-of-00003.gguf").
#include <algorithm>
#include <optional>
#include <unordered_set>

#include "engine/gguf/byte_cursor.hpp"
#include "engine/gguf/gguf_contents.hpp"
#include "engine/gguf/gguf_parser.hpp"
#include "engine/gguf/location.hpp"

namespace orcd::engine {
namespace {

constexpr std::uint64_t most_parts = 512;

struct split_keys {
  std::uint64_t number = 0;  ///< from 0
  std::uint64_t count = 1;
  std::optional<std::uint64_t> tensors;
};

result<std::optional<std::uint64_t>> integer_of(const std::vector<gguf_entry>& entries, std::string_view key,
                                                std::string_view file) {
  const auto at =
      std::find_if(entries.begin(), entries.end(), [&](const gguf_entry& e) { return e.key == key; });
  if (at == entries.end()) return std::optional<std::uint64_t>();
  if (const auto* value = std::get_if<std::uint64_t>(&at->value.value)) return std::optional(*value);
  const auto* value = std::get_if<std::int64_t>(&at->value.value);
  if (value == nullptr || *value < 0) {
    return model_error(file, "key " + in_quotes(key) + " must be an integer of at least 0");
  }
  return std::optional(static_cast<std::uint64_t>(*value));
}

result<split_keys> read_split_keys(const std::vector<gguf_entry>& entries, std::string_view file) {
  const auto number = integer_of(entries, "split.no", file);
  const auto count = integer_of(entries, "split.count", file);
  const auto tensors = integer_of(entries, "split.tensors.count", file);
  if (!number) return number.error();
  if (!count) return count.error();
  if (!tensors) return tensors.error();
  return split_keys{number->value_or(0), count->value_or(1), *tensors};
}

/// Refuses a key that occurs twice in one part.
result<void> check_keys(const std::vector<gguf_entry>& entries, std::string_view file) {
  std::unordered_set<std::string_view> seen;
  seen.reserve(entries.size());
  for (const gguf_entry& entry : entries) {
    if (!seen.insert(entry.key).second)
      return model_error(file, "key " + in_quotes(entry.key) + " occurs twice");
  }
  return {};
}

result<void> add_tensors(gguf_contents& to, std::vector<tensor_view>& tensors, std::uint32_t part,
                         const std::string& name, const gguf_limits& limits) {
  if (to.tensors.size() + tensors.size() > limits.tensors) {
    return model_error(name, "the parts together have " + std::to_string(to.tensors.size() + tensors.size()) +
                                 " tensors; the limit is " + std::to_string(limits.tensors));
  }
  for (tensor_view& tensor : tensors) {
    tensor.part = part;
    const auto row = static_cast<std::uint32_t>(to.tensors.size());
    if (!to.tensor_index.emplace(tensor.name, row).second) {
      return model_error(name, "tensor " + in_quotes(tensor.name) + " occurs twice");
    }
    to.tensors.push_back(tensor);
  }
  return {};
}

/// The first part's name, taken apart, so that the names of its siblings can be made.
result<split_name> sibling_name(const gguf_contents& of, const split_keys& keys,
                                const model_location& first) {
  const auto name = parse_split_name(first.name);
  const std::string declared = "split.count is " + std::to_string(keys.count);
  if (keys.count > most_parts) {
    return model_error(of.location, declared + "; the limit is " + std::to_string(most_parts));
  }
  if (first.where != model_location::kind::path || !name) {
    return model_error(of.location,
                       declared + ", but the name is not <prefix>-00001-of-" +
                           split_path({"", 1, static_cast<std::uint32_t>(keys.count)}, 1).substr(10));
  }
  if (keys.number != 0 || name->index != 1) {
    return model_error(of.location, "is part " + std::to_string(keys.number + 1) +
                                        " of a split model; open " + in_quotes(split_path(*name, 1)));
  }
  if (name->count != keys.count) {
    return model_error(of.location,
                       declared + ", but the name says " + std::to_string(name->count) + " parts");
  }
  return *name;
}

result<void> add_sibling(gguf_contents& to, const split_name& name, std::uint32_t part,
                         const gguf_limits& limits) {
  const std::string path = split_path(name, part + 1);
  auto mapping = mapped_file::open({model_location::kind::path, path}, path);
  if (!mapping) return mapping.error();
  const auto parsed = parse_part(mapping->image(), path, limits);
  if (!parsed) return parsed.error();
  const auto keys = read_split_keys(parsed->entries, path);
  if (!keys) return keys.error();
  if (keys->number != part || keys->count != name.count) {
    return model_error(path, "split.no and split.count are " + std::to_string(keys->number) + " and " +
                                 std::to_string(keys->count) + "; they must be " + std::to_string(part) +
                                 " and " + std::to_string(name.count));
  }
  to.mappings.push_back(std::move(*mapping));
  return add_part(to, to.mappings.back().image(), path, limits);
}

}  // namespace

error model_error(std::string_view file, std::string_view text) {
  return {errc::model_load_failed, std::string(file) + ": " + std::string(text), "model"};
}

result<void> add_part(gguf_contents& to, std::span<const std::byte> image, const std::string& name,
                      const gguf_limits& limits) {
  auto parsed = parse_part(image, name, limits);
  if (!parsed) return parsed.error();
  if (auto unique = check_keys(parsed->entries, name); !unique) return unique.error();
  const auto part = static_cast<std::uint32_t>(to.images.size());
  to.images.push_back(image);
  if (part == 0) {
    to.version = parsed->version;
    to.alignment = parsed->alignment;
    to.entries = std::move(parsed->entries);
    for (std::uint32_t i = 0; i < to.entries.size(); ++i) to.entry_index.emplace(to.entries[i].key, i);
  }
  return add_tensors(to, parsed->tensors, part, name, limits);
}

result<void> add_siblings(gguf_contents& to, const model_location& first, const gguf_limits& limits) {
  const auto keys = read_split_keys(to.entries, to.location);
  if (!keys) return keys.error();
  if (keys->count <= 1) return {};
  const auto name = sibling_name(to, *keys, first);
  if (!name) return name.error();
  for (std::uint32_t part = 1; part < name->count; ++part) {
    if (auto added = add_sibling(to, *name, part, limits); !added) return added.error();
  }
  if (keys->tensors && *keys->tensors != to.tensors.size()) {
    return model_error(to.location, "split.tensors.count is " + std::to_string(*keys->tensors) +
                                        ", but the parts have " + std::to_string(to.tensors.size()) +
                                        " tensors");
  }
  return {};
}

}  // namespace orcd::engine
