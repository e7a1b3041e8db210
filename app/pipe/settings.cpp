#include "app/pipe/settings.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include "app/pipe/numbers.hpp"
#include "engine/gguf/byte_cursor.hpp"

namespace orcd::app {
namespace {

using engine::result;

constexpr std::string_view prefix = "WORKER_ORCD_";
constexpr std::array shared{
    std::string_view("BACKEND"),      std::string_view("GPU_DEVICE"),       std::string_view("GPU"),
    std::string_view("GPU_WAIT_SEC"), std::string_view("NO_PINNED"),        std::string_view("THREADS"),
    std::string_view("CONTEXT"),      std::string_view("KV_CACHE_SIZE_MB"), std::string_view("KV_TYPE_K"),
    std::string_view("KV_TYPE_V"),    std::string_view("FFN_ACTIVATION")};

/// The names behind the prefix; empty for other variables.
std::string_view own_name(std::string_view variable) noexcept {
  return variable.starts_with(prefix) ? variable.substr(prefix.size()) : std::string_view();
}

result<void> read_own(std::string_view name, const std::string& value, pipe_settings& out) {
  if (name == "SEED") {
    const auto seed = read_count("WORKER_ORCD_SEED", value, 0, std::numeric_limits<std::uint64_t>::max());
    if (!seed) return seed.error();
    out.seed = *seed;
  } else if (name == "PIPE_LIMIT") {
    if (value != "eos" && value != "literal") {
      return pipe_error("WORKER_ORCD_PIPE_LIMIT is " + engine::in_quotes(value) +
                        "; it must be eos or literal");
    }
    out.limit = value == "eos" ? limit_style::end_token : limit_style::literal;
  }
  return {};
}

}  // namespace

result<pipe_settings> read_pipe_settings(const std::string& model_dir, const environment& env) {
  pipe_settings out;
  environment of_options;
  std::vector<std::string> args{"--model=" + model_dir, "--slots=1"};
  bool backend = false;
  for (const auto& [variable, value] : env) {
    const std::string_view name = own_name(variable);
    if (auto read = read_own(name, value, out); !read) return read.error();
    if (std::find(shared.begin(), shared.end(), name) == shared.end()) continue;
    backend = backend || name == "BACKEND";
    of_options.emplace_back(variable, value);
  }
  if (!backend) args.emplace_back("--backend=host");
  auto parsed = parse_options(args, of_options, read_config_file);
  if (!parsed) return parsed.error();
  out.opts = std::move(parsed->opts);
  return out;
}

}  // namespace orcd::app
