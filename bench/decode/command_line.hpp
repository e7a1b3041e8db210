// The command line of a benchmark on a device: a model, a name for its figures, and options of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace orcd::bench {

/// Where the values of options go, by the options' names.
struct option_targets {
  std::map<std::string, std::string*> texts;
  std::map<std::string, std::uint32_t*> numbers;
  std::map<std::string, bool*> flags = {};  ///< set by their name alone
};

/// Throws std::invalid_argument, naming the word that is wrong.
void read_options(int argc, char** argv, const option_targets& targets);

/// Throws std::invalid_argument where a model or a name is missing, or the backend is neither cuda nor host.
void check_common(const std::string& model, const std::string& name, const std::string& backend);

/// The exit status of `work`; 2 with the usage after an std::invalid_argument, 1 after another exception.
[[nodiscard]] int run_benchmark(const char* program, const char* usage, const std::function<int()>& work);

}  // namespace orcd::bench
