// Schemas made to cost as much as they can: each part of the compiler has its own, within one body's size.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace orcd::test {

struct named_schema {
  std::string name;
  boost::json::value schema;
};

inline boost::json::value with_pattern(const std::string& pattern) {
  return boost::json::object{{"type", "string"}, {"pattern", pattern}};
}

inline std::string times(std::size_t count, const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += text;
  return out;
}

inline std::string number_text(std::size_t i, std::size_t digits) {
  std::string out = std::to_string(i);
  return std::string(digits > out.size() ? digits - out.size() : 0, '0') + out;
}

inline std::vector<named_schema> costly_patterns() {
  std::string classes;
  for (int i = 0; i < 250; ++i) {
    // Every other letter of a range beyond ASCII, two bytes each: no two can be joined.
    const unsigned code = 0x400U + 2U * static_cast<unsigned>(i);
    classes += static_cast<char>(0xC0U | code >> 6U);
    classes += static_cast<char>(0x80U | (code & 0x3FU));
  }
  std::string many_tails, shifted;
  for (int i = 0; i < 40; ++i)
    many_tails += (i == 0 ? "" : "|") + times(1, ".*") + static_cast<char>('a' + i % 26) + ".{9}";
  for (int i = 0; i < 14; ++i)
    shifted += std::string(i == 0 ? "" : "|") + static_cast<char>('a' + i) + ".{0,1024}";
  return {{"counts nested twice", with_pattern("^(a{1,50}){1,50}$")},
          {"counts nested twice, wide", with_pattern("^((a|b){0,200}c){0,300}$")},
          {"counts nested thrice", with_pattern("^((a{0,30}){0,30}){0,30}$")},
          {"the twentieth from the end", with_pattern("(.*a.{20})")},
          {"the twelfth from the end", with_pattern("^(a|b)*a(a|b){12}$")},
          {"the fifteenth from the end", with_pattern("^(a|b)*a(a|b){15}$")},
          {"many letters from the end", with_pattern("(" + many_tails + ")")},
          {"long tails side by side", with_pattern(shifted)},
          {"any character, counted", with_pattern("^.{1024}$")},
          {"any character, optional", with_pattern("^.{0,1024}x.{0,1024}$")},
          {"classes of whole planes", with_pattern("^(" + times(300, "\\S\\W") + ")$")},
          {"every other letter", with_pattern("^[" + classes + "]{1,64}$")},
          {"every other letter, often", with_pattern("^(" + times(3, "[^" + classes + "]*x") + "){0,64}$")},
          {"a thousand alternatives", with_pattern("^(" + times(500, "a?|") + "b){0,1024}$")},
          {"optional letters", with_pattern("^" + times(1'000, "a?") + "$")},
          {"loops in a row", with_pattern("^" + times(650, "a*b") + "$")},
          {"tails, loops and counts", with_pattern("^(" + times(17, "(.{0,64}a)?.*b") + ")[^x]{0,1024}$")},
          {"280 bytes", with_pattern(times(35, "\\W{1024}"))}};
}

inline std::vector<named_schema> costly_lists() {
  namespace json = boost::json;
  json::array long_values, forks, same_prefix;
  for (std::size_t i = 0; i < 4'096; ++i) long_values.emplace_back(number_text(i, 4) + std::string(200, 'v'));
  for (std::size_t i = 0; i < 4'096; ++i) same_prefix.emplace_back(std::string(200, 'v') + number_text(i, 4));
  for (std::size_t i = 0; i < 128; ++i) {
    json::array own;
    for (std::size_t k = 0; k < 400; ++k) own.emplace_back(number_text(i * 400 + k, 6));
    forks.push_back(json::object{{"enum", own}});
  }
  json::object properties, long_names;
  json::array names;
  for (std::size_t i = 0; i < 512; ++i) {
    properties[number_text(i, 4)] = json::object{{"type", "integer"}};
    long_names[number_text(i, 4) + std::string(1'500, 'n')] = json::object{{"type", "integer"}};
  }
  for (std::size_t i = 0; i < 40'000; ++i) names.emplace_back(number_text(i % 512, 4));
  return {{"one string of a million", json::object{{"const", std::string(1'000'000, 'c')}}},
          {"4,096 long values", json::object{{"enum", long_values}}},
          {"4,096 values that end apart", json::object{{"enum", same_prefix}}},
          {"128 times 400 values", json::object{{"anyOf", forks}}},
          {"128 lists told apart", json::object{{"oneOf", forks}}},
          {"512 optional properties", json::object{{"properties", properties}}},
          {"512 long names and any other",
           json::object{{"properties", long_names}, {"additionalProperties", true}}},
          {"a name required 40,000 times", json::object{{"properties", properties}, {"required", names}}},
          {"1,024 items optional", json::object{{"type", "array"},
                                                {"maxItems", 1'024},
                                                {"items", json::object{{"enum", json::array{1, 2, 3}}}}}},
          {"lists of lists",
           json::object{
               {"type", "array"},
               {"minItems", 1'024},
               {"items", json::object{{"type", "array"},
                                      {"maxItems", 1'024},
                                      {"items", json::object{{"type", "array"}, {"maxItems", 1'024}}}}}}}};
}

inline std::vector<named_schema> costly_numbers() {
  namespace json = boost::json;
  json::array integers, numbers, formats, lengths;
  for (std::int64_t i = 0; i < 1'000; ++i) {
    integers.push_back(json::object{{"type", "integer"},
                                    {"minimum", -123'456'789'012'345'678 + i},
                                    {"maximum", 123'456'789'012'345'678 + i}});
    numbers.push_back(json::object{{"type", "number"},
                                   {"exclusiveMinimum", -123'456'789'012'345'678 + i},
                                   {"exclusiveMaximum", 123'456'789'012'345'678 + i}});
    formats.push_back(json::object{{"type", "string"}, {"format", "date-time"}});
    lengths.push_back(json::object{{"type", "string"}, {"minLength", i}, {"maxLength", 1'000'000 + i}});
  }
  const auto listed = [](const json::array& items) {
    return json::object{
        {"type", "array"}, {"prefixItems", items}, {"items", false}, {"minItems", items.size()}};
  };
  json::array anything;
  for (int i = 0; i < 128; ++i) anything.push_back(integers[static_cast<std::size_t>(i)]);
  return {{"1,000 ranges of integers", listed(integers)},
          {"1,000 ranges of numbers", listed(numbers)},
          {"1,000 points in time", listed(formats)},
          {"1,000 lengths", listed(lengths)},
          {"128 ranges at once", json::object{{"anyOf", anything}}}};
}

inline std::vector<named_schema> costly_references() {
  namespace json = boost::json;
  const auto to = [](const std::string& name) { return json::object{{"$ref", "#/$defs/" + name}}; };
  json::object chain, doubled, far, wide;
  json::object links;
  for (std::size_t i = 0; i < 512; ++i) {
    json::object inner{{"type", "object"}, {"required", json::array{"x"}}};
    inner["properties"] =
        json::object{{"x", i == 0 ? json::object{{"type", "null"}} : to("d" + std::to_string(i - 1))}};
    chain["d" + std::to_string(i)] = inner;
    links["p" + std::to_string(i)] = to("d" + std::to_string(i));
  }
  json::array boxes;
  for (std::size_t i = 0; i < 4; ++i)
    boxes.push_back(json::object{{"type", "object"}, {"properties", links}});
  const std::string long_name(100'000, 'n');
  for (std::size_t i = 0; i < 24; ++i) {
    const json::object next = to("d" + std::to_string(i + 1));
    doubled["d" + std::to_string(i)] = json::object{{"allOf", json::array{next, next}}};
  }
  doubled["d24"] = json::object{{"$ref", "#/$defs/" + long_name}, {"title", "t"}};
  doubled[long_name] = json::object{{"type", "null"}};
  for (std::size_t i = 0; i < 512; ++i)
    far["p" + std::to_string(i)] = json::object{
        {"type", "object"}, {"properties", json::object{{"a", json::object{{"type", "array"}}}}}};
  json::object under;
  under[long_name] = json::object{{"properties", far}};
  json::value deep = json::object{{"const", std::string(900'000, 'c')}};
  for (int i = 0; i < 28; ++i)
    deep = json::object{{"type", "object"}, {"properties", json::object{{"a", deep}}}};
  json::object base;
  for (std::size_t i = 0; i < 400; ++i)
    base["p" + std::to_string(i)] = json::object{{"type", "string"}, {"maxLength", i}};
  json::value forks = json::object{{"required", json::array{"p0"}}};
  for (int i = 0; i < 12; ++i) forks = json::object{{"anyOf", json::array{forks, forks}}};
  json::array alike;
  for (int i = 0; i < 128; ++i)
    alike.push_back(json::object{{"required", json::array{"p" + std::to_string(i)}}});
  return {
      {"a chain of references", json::object{{"type", "array"}, {"prefixItems", boxes}, {"$defs", chain}}},
      {"doubled references to a long name",
       json::object{{"$ref", "#/$defs/d0"}, {"title", "t"}, {"$defs", doubled}}},
      {"a long name with much below", json::object{{"$ref", "#/$defs/" + long_name}, {"$defs", under}}},
      {"much text far down", deep},
      {"anyOf in anyOf over 400 properties",
       json::object{{"properties", base}, {"anyOf", json::array{forks, forks}}}},
      {"128 branches over 400 properties", json::object{{"properties", base}, {"anyOf", alike}}}};
}

inline std::vector<named_schema> costly_counts() {
  namespace json = boost::json;
  json::array values;
  json::object properties, named, unknown{{"type", "null"}};
  for (std::size_t i = 0; i < 2'000; ++i) {
    values.emplace_back("value " + std::to_string(i));
    if (i < 500) properties["p" + std::to_string(i)] = json::object{{"type", "integer"}};
    named["d" + std::to_string(i)] = json::object{{"$id", std::string(900, 'i') + std::to_string(i)},
                                                  {"$anchor", "a"},
                                                  {"type", "array"},
                                                  {"items", json::object{{"$ref", "#a"}}}};
  }
  for (std::size_t i = 0; i < 100'000; ++i) unknown["k" + std::to_string(i)] = i;
  const json::object text{{"type", "string"}};
  return {{"62 counted items of 62", json::object{{"type", "array"},
                                                  {"minItems", 62},
                                                  {"maxItems", 62},
                                                  {"contains", text},
                                                  {"minContains", 31},
                                                  {"maxContains", 62}}},
          {"2,000 unique values, at least 3", json::object{{"type", "array"},
                                                           {"uniqueItems", true},
                                                           {"minItems", 3},
                                                           {"items", json::object{{"enum", values}}}}},
          {"7 of 500 properties", json::object{{"properties", properties}, {"minProperties", 7}}},
          {"no more than 7 of 500 properties",
           json::object{{"properties", properties}, {"maxProperties", 7}, {"additionalProperties", text}}},
          {"steps of 0.00000000997", json::object{{"type", "number"}, {"multipleOf", 0.00000000997}}},
          {"2,000 parts with long URIs", json::object{{"$ref", "#/$defs/d7"}, {"$defs", named}}},
          {"100,000 unknown keywords", unknown}};
}

/// All of them.
inline std::vector<named_schema> costly_schemas() {
  std::vector<named_schema> out;
  for (auto&& part :
       {costly_patterns(), costly_lists(), costly_numbers(), costly_references(), costly_counts()}) {
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

}  // namespace orcd::test
