#include "app/quantize/check_targets.hpp"

#include <array>
#include <filesystem>

#include "app/quantize/arguments.hpp"
#include "app/quantize/output_file.hpp"

namespace orcd::app {
namespace {

namespace fs = std::filesystem;
using engine::result;

bool are_the_same(const std::string& a, const std::string& b) {
  std::error_code code;
  if (fs::equivalent(a, b, code)) return true;
  const fs::path left = fs::weakly_canonical(a, code);
  const fs::path right = fs::weakly_canonical(b, code);
  return !code && left == right;
}

/// A name that is free, or a file's; a link is replaced, not followed.
bool may_be_replaced(const std::string& path) {
  std::error_code code;
  const fs::file_status found = fs::symlink_status(path, code);
  return !fs::exists(found) || fs::is_regular_file(found) || fs::is_symlink(found);
}

}  // namespace

result<void> check_targets(std::span<const std::string> outputs, std::span<const std::string> inputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (const std::string& name : std::array{outputs[i], temporary_of(outputs[i])}) {
      if (!may_be_replaced(name)) return usage_error(name + " is to be written and is no regular file");
      for (const std::string& input : inputs) {
        if (are_the_same(name, input)) return usage_error(name + " is to be written and is read as " + input);
      }
      for (std::size_t other = 0; other < outputs.size(); ++other) {
        if (other != i && are_the_same(name, outputs[other]))
          return usage_error(name + " is to be written twice");
      }
    }
  }
  return {};
}

}  // namespace orcd::app
