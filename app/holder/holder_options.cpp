#include "app/holder/holder_options.hpp"

#include <array>
#include <functional>
#include <optional>

#include "app/options/option_table.hpp"
#include "app/version/version.hpp"

namespace orcd::app {
namespace {

using engine::errc;
using engine::error;
using engine::result;
using text_view = std::string_view;

struct row {
  const char* name;
  const char* value;
  const char* help;
  requirement (*assign)(text_view value, holder_options& out);
};

requirement assign_dir(text_view value, holder_options& out) {
  constexpr std::size_t path_max = 4'096;
  if (value.empty() || value.size() > path_max || value.find('\0') != text_view::npos) {
    return "must be a path of 1 to 4096 bytes";
  }
  out.dir = value;
  return std::nullopt;
}

requirement assign_host(text_view value, holder_options& out) {
  const auto address = parse_address(value);
  if (!address) return "must be an IPv4 or IPv6 address, or localhost";
  out.host = *address;
  return std::nullopt;
}

requirement assign_number(std::uint32_t& to, text_view value, std::uint32_t low, std::uint32_t high) {
  const auto given = parse_unsigned(value);
  if (!given || *given < low || *given > high) {
    return "must be an integer from " + std::to_string(low) + " to " + std::to_string(high);
  }
  to = static_cast<std::uint32_t>(*given);
  return std::nullopt;
}

requirement assign_group(text_view value, holder_options& out) {
  if (value.empty() || value.size() > 256) return "must be the name or the number of a group";
  out.group = value;
  return std::nullopt;
}

requirement assign_check(text_view value, holder_options& out) {
  if (value != "startup" && value != "ready") return "must be startup or ready";
  out.what = value == "ready" ? holder_options::task::check_ready : holder_options::task::check_startup;
  return std::nullopt;
}

requirement assign_format(text_view value, holder_options& out) {
  if (value != "json" && value != "console") return "must be json or console";
  out.format = value == "json" ? log_format::json : log_format::console;
  return std::nullopt;
}

requirement assign_level(text_view value, holder_options& out) {
  using engine::severity;
  constexpr std::array<std::pair<const char*, severity>, 4> levels{{{"debug", severity::debug},
                                                                    {"info", severity::info},
                                                                    {"warning", severity::warning},
                                                                    {"error", severity::error}}};
  for (const auto& [name, level] : levels) {
    if (value != name) continue;
    out.log_level = level;
    return std::nullopt;
  }
  return "must be debug, info, warning or error";
}

constexpr std::array<row, 12> rows{{
    {"failover-dir", "PATH", "Folder that the holder and its engines share (needed)", assign_dir},
    {"host", "ADDRESS", "Address to listen on: IPv4, IPv6 or localhost (default 127.0.0.1)", assign_host},
    {"address", "ADDRESS", "The same as --host", assign_host},
    {"port", "N", "TCP port that clients use (1024 to 65535, default 8080)",
     [](text_view value, holder_options& out) { return assign_port_to(out.port, value); }},
    {"journal-mib", "N", "MiB of the journal that engines share (16 to 4096, default 256)",
     [](text_view value, holder_options& out) { return assign_number(out.journal_mib, value, 16, 4'096); }},
    {"hang-timeout", "N",
     "Seconds without a sign of life after which the active engine is killed (0 = never, to 3600, default "
     "10)",
     [](text_view value, holder_options& out) {
       return assign_number(out.hang_timeout_sec, value, 0, 3'600);
     }},
    {"group", "GROUP", "A group whose members' engines may connect (default: only this user's)",
     assign_group},
    {"device", "UUID[=INDEX]",
     "A GPU whose weights engines may share, or host; once for each (default: all GPUs of this machine, host "
     "where there are none)",
     [](text_view value, holder_options& out) { return add_device(out.devices, value); }},
    {"run", "N",
     "Start N engines, with the options after --, and start those again that end (1 to 64, default: none)",
     [](text_view value, holder_options& out) { return assign_number(out.engines, value, 1, 64); }},
    {"check", "startup|ready",
     "Ask the holder of --failover-dir: exit 0 if it is up (startup) or an engine serves (ready), else 1",
     assign_check},
    {"log-format", "json|console", "JSON lines or text for people, on standard error (default json)",
     assign_format},
    {"log-level", "LEVEL", "Least severity that is written: debug, info, warning or error (default info)",
     assign_level},
}};

std::string help_text() {
  std::string out =
      "Usage: worker-orcd-holder --failover-dir PATH [OPTION...] [--run N -- ENGINE_OPTION...]\n\n"
      "Keeps the clients' connections of engines (worker-orcd) that take over from one another.\n\n";
  for (const auto& one : rows) {
    std::string left = std::string("  --") + one.name + " " + one.value;
    left.resize(std::max<std::size_t>(left.size() + 2, 30), ' ');
    out += left + one.help + "\n";
  }
  return out + "  --help                      This text\n  --version                   The version\n";
}

const row* find_row(text_view name) {
  for (const auto& one : rows) {
    if (name == one.name) return &one;
  }
  return nullptr;
}

error usage_error(const std::string& why) {
  return {errc::invalid_request, why + " (see --help)"};
}

std::optional<error> check_whole(const holder_options& opts, bool has_engine_options) {
  if (opts.dir.empty()) return usage_error("--failover-dir is needed");
  if (opts.port == 0) return usage_error("--port must not be 0: a holder that comes next needs the same one");
  if (has_engine_options != (opts.engines > 0)) {
    return usage_error("--run N and the engines' options after -- go together");
  }
  if (const auto problem = engine_options_problem(opts.of_engines(), opts.engines))
    return usage_error(*problem);
  return std::nullopt;
}

}  // namespace

result<holder_options> parse_holder_options(const std::vector<std::string>& args) {
  holder_options out;
  bool has_engine_options = false;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const text_view word = args[i];
    if (word == "--") {
      has_engine_options = true;
      out.engine_options.assign(args.begin() + static_cast<std::ptrdiff_t>(i) + 1, args.end());
      break;
    }
    if (word == "--help" || word == "--version") {
      out.what = holder_options::task::print;
      out.text = word == "--help" ? help_text() : std::string("worker-orcd-holder ") + version() + "\n";
      return out;
    }
    if (word.substr(0, 2) != "--") return usage_error("'" + args[i] + "' is no option");
    const auto equals = word.find('=');
    const auto name = word.substr(2, equals == text_view::npos ? equals : equals - 2);
    const row* const found = find_row(name);
    if (found == nullptr) return usage_error("unknown option '--" + std::string(name) + "'");
    if (equals == text_view::npos && i + 1 == args.size()) {
      return usage_error("--" + std::string(name) + " needs a value");
    }
    const text_view value = equals == text_view::npos ? text_view(args[++i]) : word.substr(equals + 1);
    if (const auto must = found->assign(value, out)) {
      return usage_error("--" + std::string(name) + " " + *must + ", not '" +
                         std::string(value.substr(0, 100)) + "'");
    }
  }
  if (const auto wrong = check_whole(out, has_engine_options)) return *wrong;
  return out;
}

}  // namespace orcd::app
