#include "app/holder/engine_arguments.hpp"

#include <algorithm>
#include <array>

#include "app/options/option_table.hpp"

namespace orcd::app {
namespace {

constexpr std::string_view system_port = "--system-port";
constexpr std::uint64_t ports_max = 65'535;

/// What the holder says to all of them.
constexpr std::array<std::string_view, 5> own{"--failover-dir", "--engine-id", "--host", "--port",
                                              "--holder"};

std::string_view name_in(std::string_view word) noexcept {
  return word.substr(0, word.find('='));
}

/// What is no port is left for the engine to refuse, and 0 is none for all.
std::string port_of(std::string_view text, std::uint32_t number) {
  const auto port = parse_unsigned(text);
  const bool counts = port && *port > 0 && *port <= ports_max;
  return counts ? std::to_string(*port + number) : std::string(text);
}

}  // namespace

std::vector<std::string> engine_arguments(const shared_arguments& all, std::uint32_t number,
                                          std::string_view variable) {
  std::vector<std::string> out;
  bool is_given = false;
  bool is_port = false;
  for (const std::string_view word : all.options) {
    if (is_port) {
      out.push_back(port_of(word, number));
    } else if (name_in(word) == system_port && word.size() > system_port.size()) {
      out.push_back(std::string(system_port) + "=" + port_of(word.substr(system_port.size() + 1), number));
    } else {
      out.emplace_back(word);
    }
    is_given = is_given || name_in(word) == system_port;
    is_port = !is_port && word == system_port;
  }
  if (!is_given && !variable.empty()) {
    out.emplace_back(system_port);
    out.push_back(port_of(variable, number));
  }
  const std::array<std::string, own.size()> values{all.dir, std::to_string(number), all.host,
                                                   std::to_string(all.port), "require"};
  for (std::size_t i = 0; i < own.size(); ++i) {
    out.emplace_back(own.at(i));
    out.push_back(values.at(i));
  }
  return out;
}

std::optional<std::string> engine_options_problem(const shared_arguments& all, std::uint32_t engines) {
  for (const std::string_view word : all.options) {
    if (std::find(own.begin(), own.end(), name_in(word)) == own.end()) continue;
    return std::string(name_in(word)) + " behind -- is the holder's to give to each engine";
  }
  for (std::uint32_t number = 0; number < engines; ++number) {
    const auto words = engine_arguments(all, number, {});
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (name_in(words[i]) != system_port) continue;
      const bool is_next = words[i] == system_port && i + 1 < words.size();
      const std::string text = is_next ? words[i + 1] : words[i].substr(words[i].find('=') + 1);
      const auto port = parse_unsigned(text);
      if (!port || (*port <= ports_max && *port != all.port)) continue;
      return "the system port of engine " + std::to_string(number) + " would be " + text +
             (*port > ports_max ? ", the limit is 65535" : ", which is the clients' port");
    }
  }
  return std::nullopt;
}

}  // namespace orcd::app
