#include "engine/gguf/model_folder.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "engine/gguf/byte_cursor.hpp"
#include "engine/gguf/gguf_contents.hpp"

namespace orcd::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t wrapper_bytes = 256;
constexpr std::uint32_t wrapper_version = 1;

bool begins_with(std::span<const std::byte> image, std::string_view magic) noexcept {
  return image.size() >= magic.size() && std::memcmp(image.data(), magic.data(), magic.size()) == 0;
}

bool is_first_gguf(const fs::path& path) {
  if (path.extension() != ".gguf") return false;
  const auto split = parse_split_name(path.filename().string());
  return !split || split->index == 1;
}

}  // namespace

result<model_location> find_model_file(const model_location& location) {
  std::error_code failed;
  if (location.where != model_location::kind::path || !fs::is_directory(location.name, failed)) {
    return location;
  }
  const fs::path folder(location.name);
  if (const auto wrapped = folder / wrapped_model_name; fs::exists(wrapped, failed)) {
    return model_location{model_location::kind::path, wrapped.string()};
  }
  std::optional<fs::path> only;
  std::size_t found = 0;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    if (!is_first_gguf(at->path())) continue;
    only = at->path();
    ++found;
  }
  if (failed) return model_error(location.name, "cannot list the folder: " + failed.message());
  if (found == 1) return model_location{model_location::kind::path, only->string()};
  for (const char* const adapter : {"adapter_config.json", "qmodel.lora"}) {
    if (found == 0 && fs::exists(folder / adapter, failed)) {
      return model_error(location.name, std::string(is_an_adapter));
    }
  }
  return model_error(location.name, "is a folder with " + std::to_string(found) +
                                        " models (.gguf) and no qmodel.tensors; it must have one of them");
}

result<model_image> unwrap_model(std::span<const std::byte> image, std::string_view name) {
  if (begins_with(image, "TRLA")) return model_error(name, std::string(is_an_adapter));
  if (!begins_with(image, "TRLM")) return model_image{image};
  byte_cursor header(image, name);
  static_cast<void>(header.read<std::uint32_t>("magic"));
  const auto version = header.read<std::uint32_t>("version");
  const auto architecture = header.read<std::uint32_t>("architecture");
  if (!header.ok()) return model_error(name, "ends within its header of 256 bytes");
  if (version != wrapper_version) {
    return model_error(name, "version of the TRLM header is " + std::to_string(version) + "; it must be 1");
  }
  if (architecture != 1 && architecture != 2) {
    return model_error(name, "architecture of the TRLM header is " + std::to_string(architecture) +
                                 "; it must be 1 (BitNet) or 2 (Llama)");
  }
  const auto rest = image.subspan(std::min(image.size(), wrapper_bytes));
  if (begins_with(rest, "GGUF")) return model_image{rest, architecture};
  return model_error(name,
                     "was written by another quantizer (byte 256 does not begin with GGUF); quantize the "
                     "original safetensors again, with trillim-quantize");
}

bool same_architecture(std::uint32_t header, std::string_view gguf) noexcept {
  return header == 0 || (header == 1 ? gguf.starts_with("bitnet") : gguf == "llama");
}

}  // namespace orcd::engine
