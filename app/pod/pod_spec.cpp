#include "app/pod/pod_spec.hpp"

#include <algorithm>

namespace orcd::app {

bool pod_spec::has_option(std::string_view option) const {
  return std::any_of(args.begin(), args.end(),
                     [&](const std::string& word) { return option_of(word) == option; });
}

bool pod_spec::has_variable(std::string_view variable) const {
  return std::any_of(environment.begin(), environment.end(),
                     [&](const environment_entry& one) { return one.name == variable; });
}

}  // namespace orcd::app
