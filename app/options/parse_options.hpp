// Reads the options and checks them: command line, then environment (WORKER_ORCD_<OPTION>), then the file
// named by --config, then defaults; for traces OpenTelemetry's own variables, too. No other code reads argv
// or the environment. Source: M0-W-1100, M0-W-1101, WORK-3010.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/options/options.hpp"
#include "engine/base/error.hpp"

namespace orcd::app {

using environment = std::vector<std::pair<std::string, std::string>>;
/// Returns a config file's text or says why it cannot be read.
using file_reader = std::function<engine::result<std::string>(const std::string& path)>;

/// What the command line asks for.
struct command {
  enum class kind { run, print };
  kind what = kind::run;
  options opts;      ///< run
  std::string text;  ///< print: the answer to --help or --version
};

/// Reads and checks all sources; `args` is without the program's name. An error (invalid_request) is
/// one sentence that names the option, where the value came from, the value and the range; `param`
/// is the option.
[[nodiscard]] engine::result<command> parse_options(std::span<const std::string> args, const environment& env,
                                                    const file_reader& read);

/// The process environment.
[[nodiscard]] environment current_environment();
/// Reads a plain file of at most 1 MiB: a configuration, keys, a chat template.
[[nodiscard]] engine::result<std::string> read_config_file(const std::string& path);

[[nodiscard]] std::string help_text();
[[nodiscard]] std::string version_text();

}  // namespace orcd::app
