#include "engine/lora/safetensors.hpp"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <numeric>
#include <optional>

#include "engine/gguf/byte_cursor.hpp"
#include "engine/lora/adapter_error.hpp"
#include "engine/lora/strict_json.hpp"

namespace orcd::engine {
namespace {

namespace json = boost::json;

constexpr std::size_t most_dimensions = 4;
constexpr std::uint64_t largest_extent = 1ULL << 31U;

std::optional<std::uint64_t> unsigned_of(const json::value& value) {
  if (const auto* number = value.if_uint64()) return *number;
  const auto* number = value.if_int64();
  if (number == nullptr || *number < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*number);
}

std::optional<ggml_type> type_named(std::string_view name) {
  if (name == "F32") return ggml_type::f32;
  if (name == "F16") return ggml_type::f16;
  if (name == "BF16") return ggml_type::bf16;
  return std::nullopt;
}

class header_reader {
 public:
  header_reader(std::span<const std::byte> data, std::string_view file) : data_(data), file_(file) {}

  result<tensor_view> read(std::string_view name, const json::value& entry) {
    tensor_view out;
    out.name = name;
    const json::object* fields = entry.if_object();
    if (fields == nullptr || fields->size() != 3) {
      return wrong(out, "must be an object of dtype, shape and data_offsets");
    }
    if (auto type = read_type(*fields, out); !type) return type.error();
    if (auto shape = read_shape(*fields, out); !shape) return shape.error();
    if (auto offsets = read_offsets(*fields, out); !offsets) return offsets.error();
    return out;
  }

  /// In the order of their bytes each must begin where the one before it ends.
  result<void> check_places(std::span<const tensor_view> tensors) const {
    std::vector<std::size_t> order(tensors.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t l, std::size_t r) {
      const tensor_view &a = tensors[l], &b = tensors[r];
      return a.file_offset != b.file_offset ? a.file_offset < b.file_offset : a.bytes < b.bytes;
    });
    std::uint64_t end = 0;
    for (const std::size_t i : order) {
      const tensor_view& tensor = tensors[i];
      if (tensor.file_offset != end) {
        return wrong(tensor, "begins at " + std::to_string(tensor.file_offset) + " of the data; it must be " +
                                 std::to_string(end) + ", where the tensor before it ends");
      }
      end += tensor.bytes;  // at most the data's size: read_offsets
    }
    if (end == data_.size()) return {};
    return adapter_error(file_, "the tensors end at " + std::to_string(end) + " of the data's " +
                                    std::to_string(data_.size()) + " bytes; they must fill them");
  }

 private:
  error wrong(const tensor_view& tensor, const std::string& text) const {
    return adapter_error(file_, "tensor " + in_quotes(tensor.name) + " " + text);
  }

  result<void> read_type(const json::object& fields, tensor_view& out) const {
    const json::value* value = fields.if_contains("dtype");
    const json::string* text = value == nullptr ? nullptr : value->if_string();
    if (text == nullptr) return wrong(out, "must have a string as its dtype");
    const std::string_view name(text->data(), text->size());
    const auto type = type_named(name);
    if (!type) {
      return wrong(out, "has dtype " + in_quotes(name) + "; supported for adapters are F32, F16 and BF16");
    }
    out.type = *type;
    return {};
  }

  result<void> read_shape(const json::object& fields, tensor_view& out) const {
    const json::value* value = fields.if_contains("shape");
    const json::array* shape = value == nullptr ? nullptr : value->if_array();
    if (shape == nullptr || shape->size() > most_dimensions) {
      return wrong(out, "must have a shape of at most " + std::to_string(most_dimensions) + " numbers");
    }
    out.dims = static_cast<std::uint32_t>(shape->size());
    std::uint64_t elements = 1;
    for (std::size_t i = 0; i < shape->size(); ++i) {
      const auto extent = unsigned_of((*shape)[i]);
      const auto product = extent ? checked_multiply(elements, *extent) : std::nullopt;
      if (!product || *extent > largest_extent) {
        return wrong(out, "has a shape that is not of whole numbers from 0 to " +
                              std::to_string(largest_extent) + " with a product of 64 bits");
      }
      elements = *product;
      out.extents[shape->size() - 1 - i] = *extent;  // slowest first in the file
    }
    const auto bytes = checked_multiply(elements, traits_of(out.type).block_bytes);
    if (!bytes) return wrong(out, "has a shape whose bytes are beyond 64 bits");
    out.bytes = *bytes;
    return {};
  }

  result<void> read_offsets(const json::object& fields, tensor_view& out) const {
    const json::value* value = fields.if_contains("data_offsets");
    const json::array* offsets = value == nullptr ? nullptr : value->if_array();
    if (offsets == nullptr || offsets->size() != 2) return wrong(out, "must have two data_offsets");
    const auto begin = unsigned_of((*offsets)[0]), end = unsigned_of((*offsets)[1]);
    if (!begin || !end || *begin > *end || *end > data_.size()) {
      return wrong(out, "has data_offsets that are not in order and within the data's " +
                            std::to_string(data_.size()) + " bytes; the file is truncated or damaged");
    }
    if (*end - *begin != out.bytes) {
      return wrong(out, "has " + std::to_string(*end - *begin) +
                            " bytes by its data_offsets; its shape needs " + std::to_string(out.bytes));
    }
    out.file_offset = *begin;
    out.data = data_.data() + *begin;
    return {};
  }

  std::span<const std::byte> data_;
  std::string_view file_;
};

/// Only text may be in it, and none of it says how to read the tensors.
result<void> check_metadata(const json::value& metadata, std::string_view file) {
  const json::object* texts = metadata.if_object();
  if (texts != nullptr && std::all_of(texts->begin(), texts->end(),
                                      [](const auto& entry) { return entry.value().is_string(); })) {
    return {};
  }
  return adapter_error(file, "'__metadata__' must be an object of strings");
}

result<std::string_view> header_of(std::span<const std::byte> image, std::string_view file,
                                   const adapter_limits& limits) {
  byte_cursor cursor(image, file);
  const auto length = cursor.read<std::uint64_t>("header length");
  if (cursor.ok() && length > limits.json_bytes) {
    cursor.fail("header length", 0,
                "is " + std::to_string(length) + "; the limit is " + std::to_string(limits.json_bytes));
  }
  const auto header = cursor.take(length, "header");
  if (!cursor.ok()) return as_adapter_error(cursor.failure());
  return std::string_view(reinterpret_cast<const char*>(header.data()), header.size());
}

}  // namespace

result<safetensors_contents> read_safetensors(std::span<const std::byte> image, std::string_view file,
                                              const adapter_limits& limits) {
  const auto header = header_of(image, file, limits);
  if (!header) return header.error();
  const auto tree = read_strict_json(*header, file);
  if (!tree) return tree.error();

  constexpr std::string_view metadata = "__metadata__";
  safetensors_contents out;
  std::vector<const json::value*> entries;
  for (const auto& entry : *tree) {
    const std::string_view name(entry.key().data(), entry.key().size());
    if (name == metadata) {
      if (auto checked = check_metadata(entry.value(), file); !checked) return checked.error();
      continue;
    }
    out.names.emplace_back(name);
    entries.push_back(&entry.value());
  }
  header_reader reader(image.subspan(sizeof(std::uint64_t) + header->size()), file);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto tensor = reader.read(out.names[i], *entries[i]);
    if (!tensor) return tensor.error();
    out.tensors.push_back(*tensor);
  }
  if (auto placed = reader.check_places(out.tensors); !placed) return placed.error();
  return out;
}

}  // namespace orcd::engine
