// Schemas that compile within their budget and cost as much as they can to follow.
#pragma once

#include "worst_inputs.hpp"

namespace orcd::test {

inline boost::json::value parallel_patterns(int count) {
  boost::json::array branches;
  for (int i = 0; i < count; ++i) {
    const std::string pattern = "^[a-z]*[a-" + std::string(1, static_cast<char>('c' + i % 20)) + "]([a-z]{" +
                                std::to_string(1 + i % 9) + "}x)*" + std::to_string(i) + "$";
    branches.push_back(with_pattern(pattern));
  }
  return boost::json::object{{"anyOf", branches}};
}

inline std::vector<named_schema> costly_to_follow() {
  namespace json = boost::json;
  json::array counted, long_tails, objects, ambiguous, members;
  for (int i = 0; i < 128; ++i) {
    counted.push_back(json::object{{"type", "string"}, {"minLength", i}, {"maxLength", 100'000 + i}});
    long_tails.push_back(with_pattern("^[^x]*" + std::to_string(i) + "x[^y]*$"));
    objects.push_back(json::object{
        {"type", "object"},
        {"properties",
         json::object{{"a", json::object{{"type", "object"},
                                         {"properties",
                                          json::object{{"b", json::object{{"type", "string"},
                                                                          {"maxLength", 1'000 + i}}}}}}}}}});
    members.push_back(
        json::object{{"type", "object"},
                     {"properties", json::object{{number_text(static_cast<std::size_t>(i), 3), true}}},
                     {"additionalProperties", json::object{{"type", "string"}, {"minLength", i}}}});
  }
  const json::object self{{"$ref", "#"}};
  for (int i = 0; i < 8; ++i) {
    ambiguous.push_back(json::object{{"type", "array"}, {"items", self}, {"maxItems", 100 + i}});
    ambiguous.push_back(json::object{{"type", "object"},
                                     {"additionalProperties", self},
                                     {"properties", json::object{{std::to_string(i), true}}}});
  }
  ambiguous.push_back(json::object{{"type", "string"}, {"minLength", 3}});
  return {{"100 patterns at once", parallel_patterns(100)},
          {"128 long tails", json::object{{"anyOf", long_tails}}},
          {"128 lengths at once", json::object{{"anyOf", counted}}},
          {"128 objects at once", json::object{{"anyOf", objects}}},
          {"128 ways to have members", json::object{{"anyOf", members}}},
          {"any way to nest", json::object{{"anyOf", ambiguous}}},
          {"one string of any length", json::object{{"type", "string"}, {"maxLength", 1'000'000}}},
          {"anything", true}};
}

}  // namespace orcd::test
