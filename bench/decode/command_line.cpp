#include "bench/decode/command_line.hpp"

#include <cstdio>
#include <exception>
#include <stdexcept>

namespace orcd::bench {

void read_options(int argc, char** argv, const option_targets& targets) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (const auto flag = targets.flags.find(name); flag != targets.flags.end()) {
      *flag->second = true;
      continue;
    }
    const auto text = targets.texts.find(name);
    const auto number = targets.numbers.find(name);
    if (text == targets.texts.end() && number == targets.numbers.end())
      throw std::invalid_argument("unknown option '" + name + "'");
    if (i + 1 >= argc) throw std::invalid_argument("'" + name + "' needs a value");
    const std::string value = argv[++i];
    if (text != targets.texts.end())
      *text->second = value;
    else
      *number->second = static_cast<std::uint32_t>(std::stoul(value));
  }
}

void check_common(const std::string& model, const std::string& name, const std::string& backend) {
  if (model.empty() || name.empty()) throw std::invalid_argument("--model and --name are required");
  if (backend != "cuda" && backend != "host") throw std::invalid_argument("--backend is cuda or host");
}

int run_benchmark(const char* program, const char* usage, const std::function<int()>& work) {
  try {
    return work();
  } catch (const std::invalid_argument& e) {
    std::fprintf(stderr, "%s: %s\nusage: %s %s\n", program, e.what(), program, usage);
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", program, e.what());
    return 1;
  }
}

}  // namespace orcd::bench
