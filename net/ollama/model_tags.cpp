#include "net/ollama/model_tags.hpp"

#include "net/models/model_names.hpp"

namespace orcd::net {
namespace {

constexpr std::string_view latest = ":latest";

bool has_tag(std::string_view name) {
  const auto last = name.substr(name.rfind('/') + 1);  // npos + 1 is 0
  return last.find(':') != std::string_view::npos;
}

}  // namespace

std::string with_tag(std::string_view name) {
  return std::string(name).append(has_tag(name) ? std::string_view() : latest);
}

std::string_view without_tag(const engine::worker_identity& served, const shared_adapters& adapters,
                             std::string_view asked) {
  if (!asked.ends_with(latest) || find_adapter(adapters, asked) != nullptr ||
      names_the_model(served, asked)) {
    return asked;
  }
  return asked.substr(0, asked.size() - latest.size());
}

}  // namespace orcd::net
