#include "net/models/adapter_folder.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace orcd::net {
namespace {

namespace fs = std::filesystem;
using engine::errc;
using engine::error;
using engine::result;

constexpr std::size_t path_bytes_max = 4'096;

error refuse(errc code, const std::string& what) {
  return {code, "'lora_path' " + what, "lora_path"};
}

bool lies_within(const fs::path& folder, const fs::path& path) {
  const auto ends = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return ends.first == folder.end() && ends.second != path.end();
}

/// The path without links, if it lies in the folder.
result<fs::path> real_path(const fs::path& folder, const fs::path& asked) {
  std::error_code failed;
  fs::path real = fs::weakly_canonical(asked, failed);
  if (failed) return refuse(errc::invalid_request, "cannot be followed: " + failed.message());
  if (!lies_within(folder, real)) {
    return refuse(errc::forbidden, "lies outside the folder of --allow-lora-load");
  }
  return real;
}

}  // namespace

result<std::string> adapter_in_folder(const std::string& folder, const std::string& asked) {
  if (asked.empty() || asked.size() > path_bytes_max || asked.find('\0') != std::string::npos) {
    return refuse(errc::invalid_request,
                  "must be a path of 1 to 4096 bytes without NUL, it has " + std::to_string(asked.size()));
  }
  std::error_code failed;
  const fs::path root = fs::canonical(folder, failed);
  if (failed) return refuse(errc::not_found, "cannot be looked for: the folder of --allow-lora-load is gone");
  const auto real = real_path(root, root / asked);
  if (!real) return real.error();
  const fs::file_status status = fs::status(*real, failed);
  if (status.type() == fs::file_type::not_found) return refuse(errc::not_found, "names no file");
  if (fs::is_regular_file(status)) return real->string();
  if (!fs::is_directory(status)) return refuse(errc::invalid_request, "must be a file or a directory");
  for (const char* const name : {"adapter_config.json", "adapter_model.safetensors"}) {
    if (const auto inner = real_path(root, *real / name); !inner) return inner.error();
  }
  return real->string();
}

}  // namespace orcd::net
