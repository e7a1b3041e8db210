#include <exception>
#include <iostream>
#include <string_view>
#include <vector>

#include "app/console/one_line.hpp"
#include "app/inspect/inspect.hpp"

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  try {
    const std::vector<std::string_view> words(argv + 1, argv + argc);
    return orcd::app::run_inspect(words, std::cin, std::cout, std::cerr);
  } catch (const std::exception& e) {
    std::cerr << orcd::app::complaint("worker-orcd-inspect", e.what());
    return 1;
  }
}
