#include <unistd.h>

#include <csignal>
#include <exception>
#include <iostream>
#include <string_view>
#include <vector>

#include "app/console/one_line.hpp"
#include "app/quantize/quantize.hpp"

int main(int argc, char** argv) {
  // A limit of a file's size is an error of one write, as a full disk is.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const std::vector<std::string_view> words(argv + 1, argv + argc);
    return orcd::app::run_quantize(words, std::cout, std::cerr, isatty(STDERR_FILENO) == 1);
  } catch (const std::exception& e) {
    std::cerr << orcd::app::complaint("trillim-quantize", e.what());
    return 1;
  }
}
