// What tests of pods compare: values as their text, and what is wrong with a specification.
#pragma once

#include <boost/json.hpp>
#include <string>

#include "app/pod/pod_spec.hpp"

namespace orcd::test {

inline std::string text(const boost::json::value& value) {
  return boost::json::serialize(value);
}

inline std::string first_problem(const std::string& yaml) {
  const auto read = app::read_pod_spec(yaml);
  return read.problems.empty() ? "" : read.problems.front();
}

/// Of a specification that would be good without `more`.
inline std::string problem_of_field(const std::string& more) {
  return first_problem("name: w\nimage: example/worker:1\n" + more);
}

}  // namespace orcd::test
