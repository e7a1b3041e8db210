#include <exception>
#include <iostream>
#include <string_view>
#include <vector>

#include "app/pod/pod_command.hpp"

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  try {
    const std::vector<std::string_view> words(argv + 1, argv + argc);
    return orcd::app::run_pod_command(words, std::cin, std::cout, std::cerr);
  } catch (const std::exception& e) {
    std::cerr << "worker-orcd-pod: " << e.what() << "\n";
    return 1;
  }
}
