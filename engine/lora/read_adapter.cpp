#include "engine/lora/read_adapter.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "engine/gguf/byte_cursor.hpp"
#include "engine/gguf/file_watch.hpp"
#include "engine/gguf/mapped_file.hpp"
#include "engine/lora/adapter_error.hpp"
#include "engine/lora/gguf_adapter.hpp"

namespace orcd::engine {
namespace {

namespace fs = std::filesystem;
using image_bytes = std::span<const std::byte>;

constexpr std::string_view trla_magic = "TRLA";
constexpr std::size_t trla_header = 256;
constexpr std::uint32_t trla_version = 1;

result<void> check_size(std::uint64_t bytes, std::uint64_t limit, std::string_view file) {
  if (bytes <= limit) return {};
  return adapter_error(file,
                       "has " + std::to_string(bytes) + " bytes; the limit is " + std::to_string(limit));
}

bool begins_with(image_bytes image, std::string_view text) {
  return image.size() >= text.size() && std::memcmp(image.data(), text.data(), text.size()) == 0;
}

/// Magic, version, 0, and zeros up to the GGUF image.
result<void> check_trla_header(image_bytes image, std::string_view file) {
  byte_cursor cursor(image, file);
  static_cast<void>(cursor.take(trla_magic.size(), "magic"));
  const auto version = cursor.read<std::uint32_t>("version");
  if (cursor.ok() && version != trla_version) {
    cursor.fail("version", trla_magic.size(),
                "is " + std::to_string(version) + "; supported is " + std::to_string(trla_version));
  }
  const std::uint64_t at = cursor.offset();
  const image_bytes rest = cursor.take(trla_header - at, "reserved bytes");
  const auto used = std::find_if(rest.begin(), rest.end(), [](std::byte b) { return b != std::byte{0}; });
  if (cursor.ok() && used != rest.end()) {
    const auto offset = at + static_cast<std::uint64_t>(used - rest.begin());
    cursor.fail("reserved bytes", offset,
                "the byte is " + std::to_string(std::to_integer<unsigned>(*used)) + "; it must be 0");
  }
  if (!cursor.ok()) return cursor.failure();
  if (begins_with(image.subspan(trla_header), "GGUF")) return {};
  return adapter_error(file,
                       "has no GGUF image behind its header of 256 bytes: it was written by another "
                       "program; make it again from the adapter's original files");
}

/// Its writers use no other types, so that another one is damage.
result<void> check_trla_types(const gguf_file& inner, std::string_view file) {
  for (const tensor_view& tensor : inner.tensors()) {
    if (tensor.type == ggml_type::f32 || tensor.type == ggml_type::bf16) continue;
    return adapter_error(file, "tensor " + in_quotes(tensor.name) + " has type " +
                                   std::string(traits_of(tensor.type).name) +
                                   "; in a TRLA file it must be F32 or BF16");
  }
  return {};
}

result<lora_adapter> read_image(image_bytes image, const adapter_source& source) {
  if (auto size = check_size(image.size(), source.limits.file_bytes, source.file); !size) return size.error();
  const bool wrapped = begins_with(image, trla_magic);
  if (wrapped) {
    if (auto header = check_trla_header(image, source.file); !header) return header.error();
    image = image.subspan(trla_header);
  } else if (!begins_with(image, "GGUF")) {
    return adapter_error(source.file, "is no adapter: it begins with neither GGUF nor TRLA");
  }
  const auto inner = gguf_file::parse(image, std::string(source.file));
  if (!inner) return inner.error();
  if (wrapped) {
    if (auto types = check_trla_types(*inner, source.file); !types) return types.error();
  }
  return read_gguf_adapter(*inner, source);
}

/// An adapter's path, and what messages call it.
struct named_path {
  fs::path path;
  std::string name;

  [[nodiscard]] named_path operator/(const char* file) const {
    return {path / file, (fs::path(name) / file).string()};
  }
};

/// Calls `read(image)` for a file. What it said is of no worth when the file was changed meanwhile.
template <class Read>
result<lora_adapter> with_image(const named_path& of, std::uint64_t limit, const adapter_access& access,
                                Read read) {
  const auto file = mapped_file::open({model_location::kind::path, of.path.string()}, of.name);
  if (!file) return file.error();
  if (access.allowed) {
    if (auto allowed = access.allowed(file->descriptor()); !allowed) return allowed.error();
  }
  if (auto size = check_size(file->image().size(), limit, of.name); !size) return size.error();
  file_watch watch;
  watch.add(file->descriptor(), file->stamp());
  result<lora_adapter> out = read(file->image());
  if (file->intact() && !watch.first_written()) return out;
  return adapter_error(of.name, "was changed or truncated while it was read");
}

bool is_there(const named_path& file) {
  std::error_code ignored;
  return fs::exists(file.path, ignored);
}

result<lora_adapter> read_directory(const named_path& directory, const model& base,
                                    const adapter_limits& limits, const adapter_access& access) {
  const named_path config = directory / "adapter_config.json";
  const named_path weights = directory / "adapter_model.safetensors";
  if (!is_there(config)) {
    return adapter_error(directory.name, "is a directory without adapter_config.json");
  }
  if (!is_there(weights) && is_there(directory / "adapter_model.bin")) {
    return adapter_error(directory.name,
                         "has its values in adapter_model.bin, a Python pickle, which is not supported; "
                         "save the adapter as adapter_model.safetensors");
  }
  return with_image(config, limits.json_bytes, access, [&](image_bytes text) {
    return with_image(weights, limits.file_bytes, access, [&](image_bytes values) {
      const std::string_view json(reinterpret_cast<const char*>(text.data()), text.size());
      return read_peft_adapter(json, values, directory.name, base, limits, access.stop);
    });
  });
}

/// A message is one line, whatever a client calls an adapter.
result<void> check_path(const std::string& path) {
  const bool plain = std::all_of(path.begin(), path.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte != 0x7F;
  });
  if (!path.empty() && path.size() <= adapter_limits::path_bytes && plain) return {};
  return adapter_error(
      "the path " + in_quotes(path),
      "must have 1 to " + std::to_string(adapter_limits::path_bytes) + " bytes, and no control characters");
}

/// For what the GGUF reader and the mapping found.
result<lora_adapter> as_adapter(result<lora_adapter> out) {
  if (out) return out;
  return as_adapter_error(out.error());
}

}  // namespace

result<lora_adapter> read_adapter_image(std::span<const std::byte> image, std::string_view name,
                                        const model& base, const adapter_limits& limits) {
  return as_adapter(read_image(image, {base, limits, name}));
}

result<lora_adapter> read_adapter(const std::string& path, const model& base, const adapter_limits& limits,
                                  const adapter_access& access) {
  const named_path asked{path, access.name.empty() ? path : access.name};
  for (const std::string& text : {path, asked.name}) {
    if (auto checked = check_path(text); !checked) return checked.error();
  }
  std::error_code code;
  const fs::file_status status = fs::status(asked.path, code);
  if (status.type() == fs::file_type::not_found) {
    return error(errc::not_found, asked.name + ": there is no such file or directory", "lora");
  }
  if (status.type() == fs::file_type::directory) {
    return as_adapter(read_directory(asked, base, limits, access));
  }
  return as_adapter(with_image(asked, limits.file_bytes, access, [&](image_bytes image) {
    return read_image(image, {base, limits, asked.name, access.stop});
  }));
}

}  // namespace orcd::engine
