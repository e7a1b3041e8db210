#include "net/models/adapter_folder.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "engine/lora/adapter_limits.hpp"

namespace orcd::net {
namespace {

namespace fs = std::filesystem;
using engine::errc;
using engine::error;
using engine::result;

constexpr std::size_t path_bytes_max = engine::adapter_limits::path_bytes;

error refuse(errc code, const std::string& what) {
  return {code, "'lora_path' " + what, "lora_path"};
}

error elsewhere() {
  return refuse(errc::forbidden, "does not lie in the folder of --allow-lora-load, or cannot be followed");
}

bool lies_within(const fs::path& folder, const fs::path& path) {
  const auto ends = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return ends.first == folder.end() && ends.second != path.end();
}

/// Whether a part of the path is a link, which leads nowhere: those that lead somewhere were followed. So
/// that nobody learns from the answer what is there.
bool has_link(const fs::path& path) {
  fs::path part;
  return std::any_of(path.begin(), path.end(), [&part](const fs::path& name) {
    part /= name;
    std::error_code failed;
    return fs::is_symlink(fs::symlink_status(part, failed));
  });
}

/// The path without links, if it lies in the folder.
result<fs::path> real_path(const fs::path& folder, const fs::path& asked) {
  std::error_code failed;
  fs::path real = fs::weakly_canonical(asked, failed).lexically_normal();
  if (real.has_relative_path() && !real.has_filename()) real = real.parent_path();  // of "x/": "x"
  if (failed || !lies_within(folder, real) || has_link(real)) return elsewhere();
  return real;
}

}  // namespace

result<std::string> adapter_in_folder(const std::string& folder, const std::string& asked) {
  if (asked.empty() || asked.size() > path_bytes_max || asked.find('\0') != std::string::npos) {
    return refuse(errc::invalid_request, "must be a path of 1 to " + std::to_string(path_bytes_max) +
                                             " bytes without NUL, it has " + std::to_string(asked.size()));
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

result<void> check_opened(const std::string& folder, int descriptor) {
  std::error_code gone, unknown;
  const fs::path root = fs::canonical(folder, gone);
  const fs::path opened = fs::read_symlink("/proc/self/fd/" + std::to_string(descriptor), unknown);
  if (gone || unknown || !lies_within(root, opened)) return elsewhere();
  return {};
}

}  // namespace orcd::net
