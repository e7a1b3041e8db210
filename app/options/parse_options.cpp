#include "app/options/parse_options.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/program_options.hpp>
#include <boost/uuid/random_generator.hpp>
#include <boost/uuid/uuid_io.hpp>
#include <map>
#include <sstream>

#include "app/options/option_table.hpp"
#include "app/version/version.hpp"
#include "engine/base/plain_file.hpp"

namespace orcd::app {
namespace {

namespace po = boost::program_options;
using engine::errc;
using engine::error;
using engine::result;

constexpr std::string_view env_prefix = "WORKER_ORCD_";
constexpr unsigned help_columns = 100;

/// A value as text, and where it came from for the message about it.
struct setting {
  std::string text;
  std::string origin;  ///< empty for the command line
};
using settings = std::map<std::string, setting>;

error usage_error(std::string message, std::string option) {
  return {errc::invalid_request, std::move(message), std::move(option)};
}

po::options_description general_description() {
  po::options_description general("General", help_columns);
  general.add_options()("config", po::value<std::string>()->value_name("FILE"),
                        "Read options from FILE, one 'name = value' a line (default: no file)")(
      "help,h", po::bool_switch(), "Print this text and exit")("version", po::bool_switch(),
                                                               "Print the version and exit");
  return general;
}

/// The table in the form of Program_options. Values stay text here; the rows check them.
po::options_description table_description() {
  po::options_description all(help_columns);
  for (std::size_t i = 0; i < option_table().size();) {
    const auto& name = option_table()[i].group;
    po::options_description group(name, help_columns);
    for (; i < option_table().size() && option_table()[i].group == name; ++i) {
      const auto& row = option_table()[i];
      auto* const value = po::value<std::string>()->value_name(row.value);
      if (!row.implicit.empty()) value->implicit_value(row.implicit);
      group.add_options()(row.name.c_str(), value, row.help.c_str());
    }
    all.add(group);
  }
  return all;
}

const option_row* find_row(std::string_view name) {
  const auto& table = option_table();
  const auto row = std::find_if(table.begin(), table.end(), [&](const auto& r) {
    return r.name == name || (!r.also.empty() && r.also == name);
  });
  return row == table.end() ? nullptr : &*row;
}

/// Second names: parsed like the first ones, but without a line of their own in the help text.
po::options_description second_names() {
  po::options_description out(help_columns);
  for (const auto& row : option_table()) {
    if (!row.also.empty()) out.add_options()(row.also.c_str(), po::value<std::string>(), "");
  }
  return out;
}

/// The name under which a setting is kept, whichever of an option's names was used.
std::string first_name(const std::string& name) {
  const auto* const row = find_row(name);
  return row == nullptr ? name : row->name;
}

/// False where the option is given already and may be given once.
bool add_setting(settings& all, const std::string& name, const setting& value) {
  const auto [place, added] = all.emplace(name, value);
  if (added) return true;
  const auto* const row = find_row(name);
  if (row == nullptr || !row->repeatable) return false;
  place->second.text += "," + value.text;
  return true;
}

result<settings> read_command_line(std::span<const std::string> args) {
  const std::vector<std::string> words(args.begin(), args.end());
  po::options_description all(help_columns);
  all.add(general_description()).add(table_description()).add(second_names());
  settings out;
  try {
    // Abbreviations are refused: they would change meaning when an option is added.
    constexpr int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
    const auto parsed = po::command_line_parser(words).options(all).style(style).run();
    for (const auto& option : parsed.options) {
      const auto* const row = find_row(option.string_key);
      const auto implicit = row == nullptr ? std::string() : row->implicit;
      const auto value = option.value.empty() ? implicit : option.value.front();
      if (option.string_key.empty() || option.position_key >= 0) {
        return usage_error("unexpected argument '" + value + "'; every option starts with --", "");
      }
      const auto name = first_name(option.string_key);
      if (!add_setting(out, name, setting{value, ""})) {
        return usage_error("--" + name + " is given more than once", name);
      }
    }
  } catch (const po::error& e) {
    return usage_error(std::string(e.what()) + "; --help lists the options", "");
  }
  return out;
}

/// "WORKER_ORCD_MAX_QUEUE" -> "max-queue".
std::string option_of_variable(std::string_view variable) {
  std::string name(variable.substr(env_prefix.size()));
  for (auto& c : name) {
    c = c == '_' ? '-' : static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  return name;
}

/// Whether Kubernetes made the variable: it gives every container variables for each Service of its
/// namespace, and those of a Service called worker-orcd begin like ours
/// (WORKER_ORCD_PORT=tcp://10.0.0.7:8080, WORKER_ORCD_SERVICE_HOST).
bool is_service_link(std::string_view variable, std::string_view value) {
  const auto name = variable.substr(env_prefix.size());
  return name.substr(0, 8) == "SERVICE_" || name.substr(0, 5) == "PORT_" ||
         (name == "PORT" && value.find("://") != std::string_view::npos);
}

settings read_environment(const environment& env, std::vector<std::string>& warnings) {
  settings out;
  for (const auto& [variable, value] : env) {
    if (std::string_view(variable).substr(0, env_prefix.size()) != env_prefix) continue;
    if (is_service_link(variable, value)) continue;
    const auto name = option_of_variable(variable);
    if (name != "config" && find_row(name) == nullptr) {
      warnings.push_back("environment variable " + variable + " matches no option and is ignored");
      continue;
    }
    if (!out.emplace(first_name(name), setting{value, "environment variable " + variable}).second) {
      warnings.push_back("environment variable " + variable + " sets what another one sets and is ignored");
    }
  }
  return out;
}

result<settings> read_config(const std::string& path, const file_reader& read) {
  auto text = read(path);
  if (!text) return usage_error("config file '" + path + "': " + text.error().message, "config");
  const auto origin = "config file '" + path + "'";
  settings out;
  try {
    std::istringstream stream(*text);
    const auto parsed = po::parse_config_file(stream, table_description().add(second_names()), true);
    for (const auto& option : parsed.options) {
      if (find_row(option.string_key) == nullptr) {
        return usage_error(origin + ": unknown key '" + option.string_key + "'", option.string_key);
      }
      const auto value = option.value.empty() ? std::string() : option.value.front();
      const auto name = first_name(option.string_key);
      if (!add_setting(out, name, setting{value, origin})) {
        return usage_error(origin + ": key '" + name + "' is given more than once", name);
      }
    }
  } catch (const po::error& e) {
    return usage_error(origin + ": " + e.what(), "config");
  }
  return out;
}

/// A URL's user info may be a password: it is never shown.
std::string without_user_info(std::string_view text) {
  const auto scheme = text.find("://");
  const auto at = text.rfind('@');
  if (scheme == std::string_view::npos || at == std::string_view::npos || at < scheme) {
    return std::string(text);
  }
  return std::string(text.substr(0, scheme + 3)) + "***" + std::string(text.substr(at));
}

/// The message about a refused value; long values are cut so that it stays one readable line.
std::string refusal(const option_row& row, const setting& value, const std::string& must) {
  constexpr std::size_t shown_max = 80;
  const auto safe = without_user_info(value.text);
  auto shown = safe.substr(0, shown_max);
  if (safe.size() > shown_max) shown += "...";
  return "--" + row.name + " " + must + ", got '" + shown + "'" +
         (value.origin.empty() ? "" : " from " + value.origin);
}

/// The variables by which pods of the failover plan are configured. Where failover is not asked for they mean
/// something else, or nothing.
settings read_failover_environment(const environment& env, const settings& given, const settings& from_file) {
  settings out;
  bool asked = false;
  for (const auto* const option : {"failover-dir", "failover-lock-path"}) {
    asked = asked || given.contains(option) || from_file.contains(option);
  }
  for (const auto& [variable, value] : env) {
    const char* const option = failover_option_of(variable);
    if (option == nullptr || value.empty()) continue;
    asked = asked || std::string_view(option) == "failover-lock-path";
    out.emplace(option, setting{value, "environment variable " + variable});
  }
  return asked ? out : settings();
}

error refuse_same_ports(std::uint16_t port) {
  return usage_error("--port and --system-port must differ, both are " + std::to_string(port), "system-port");
}

/// The failover folder is asked for by either of two options; the others need it.
result<void> complete_failover(const settings& given, options& o) {
  auto& failover = o.failover;
  if (failover.dir.empty() && !failover.lock_path.empty()) {
    const auto slash = failover.lock_path.rfind('/');
    failover.dir =
        slash == std::string::npos ? "." : failover.lock_path.substr(0, std::max(slash, std::size_t{1}));
  }
  if (!failover.dir.empty()) {
    if (failover.lock_path.empty()) failover.lock_path = failover.dir + "/failover.lock";
    if (failover.weights_dir.empty()) failover.weights_dir = failover.dir;
    failover.port_given = failover.port.has_value();
    if (!failover.port) failover.port = static_cast<std::uint16_t>(9'090 + failover.engine_id);
    if (o.port == 0)
      return usage_error("--port must not be 0 with --failover-dir: the engines share one", "port");
    if (o.port != *failover.port || !failover.port_given) return {};
    return refuse_same_ports(o.port);
  }
  constexpr std::array<std::string_view, 4> alone_too{"system-port", "system-enabled", "starting-health",
                                                      "endpoint-health"};
  for (const auto& row : failover_rows()) {
    if (std::find(alone_too.begin(), alone_too.end(), row.name) != alone_too.end()) continue;
    if (given.contains(row.name)) return usage_error("--" + row.name + " needs --failover-dir", row.name);
  }
  if (o.port != 0 && o.port == failover.port.value_or(0)) return refuse_same_ports(o.port);
  return {};
}

/// Rules that concern two options.
result<void> check_together(const options& o) {
  if (o.rope.beta_fast && o.rope.beta_slow && *o.rope.beta_fast <= *o.rope.beta_slow) {
    std::ostringstream text;
    text << "--yarn-beta-fast must be above --yarn-beta-slow, got " << *o.rope.beta_fast << " and "
         << *o.rope.beta_slow;
    return usage_error(text.str(), "yarn-beta-fast");
  }
  if (!o.adapters.folder.empty() && !o.failover.dir.empty()) {
    return usage_error(
        "--allow-lora-load cannot be beside --failover-dir: the engines must have the same adapters",
        "allow-lora-load");
  }
  if (const auto media = check_media(o); !media) return media;
  return check_adapters(o);
}

result<void> assign_all(const settings& merged, options& out) {
  for (const auto& row : option_table()) {
    const auto found = merged.find(row.name);
    if (found == merged.end()) continue;
    if (const auto must = row.assign(found->second.text, out)) {
      return usage_error(refusal(row, found->second, *must), row.name);
    }
  }
  out.host_given = merged.contains("host");
  out.port_given = merged.contains("port");
  if (out.model.empty()) return usage_error("--model is required: the GGUF file to serve", "model");
  if (out.worker_id.empty()) out.worker_id = boost::uuids::to_string(boost::uuids::random_generator()());
  if (const auto complete = complete_failover(merged, out); !complete) return complete.error();
  return check_together(out);
}

}  // namespace

result<command> parse_options(std::span<const std::string> args, const environment& env,
                              const file_reader& read) {
  auto merged = read_command_line(args);
  if (!merged) return merged.error();
  command out;
  if (merged->contains("help") || merged->contains("version")) {
    out.what = command::kind::print;
    out.text = merged->contains("help") ? help_text() : version_text();
    return out;
  }
  merged->merge(read_environment(env, out.opts.warnings));  // the command line wins
  settings from_file;
  if (const auto config = merged->find("config"); config != merged->end()) {
    auto text = read_config(config->second.text, read);
    if (!text) return text.error();
    from_file = std::move(*text);
  }
  merged->merge(read_failover_environment(env, *merged, from_file));
  merged->merge(from_file);
  if (auto assigned = assign_all(*merged, out.opts); !assigned) return assigned.error();
  read_trace_environment(env, out.opts);
  for (const auto& [variable, value] : env) {
    if (variable == "JOURNAL_STREAM") out.opts.journal_stream = value;
  }
  return out;
}

environment current_environment() {
  environment out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    out.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

result<std::string> read_config_file(const std::string& path) {
  constexpr std::size_t bytes_max = 1U << 20U;
  auto text = engine::read_plain_file(path, bytes_max);
  if (!text) return usage_error(text.error().message, "config");
  return text;
}

std::string help_text() {
  std::ostringstream out;
  out << "Usage: worker-orcd --model LOCATION [options]\n"
         "Serves one GGUF model over HTTP.\n\n"
      << general_description() << "\n"
      << table_description()
      << "\nEvery option can also be set by an environment variable (--max-queue: WORKER_ORCD_MAX_QUEUE) or "
         "in\n"
         "the file named by --config. The command line wins over the environment, and that over the file.\n"
         "Exit codes: 0 stopped on request, 1 start-up or fatal failure, 2 wrong usage, 3 and 4 CUDA "
         "faults,\n"
         "70 an engine that did not come to serve, 71 shared weights that are not its own or damaged,\n"
         "72 a holder of weights that does not answer, 130 and 143 ended by a second SIGINT or SIGTERM.\n";
  return out.str();
}

std::string version_text() {
#ifdef ORCD_HAS_CUDA
  constexpr const char* backends = "cuda, host";
#else
  constexpr const char* backends = "host";
#endif
  return std::string("worker-orcd ") + version() + "\nbackends: " + backends + "\n";
}

}  // namespace orcd::app
