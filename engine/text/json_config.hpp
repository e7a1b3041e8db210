// The parts of a tokenizer.json besides its vocabulary, read into plain settings. What cannot be reproduced
// exactly is refused by name, never ignored. Private to make_json_tokenizer.
#pragma once

#include <boost/json/fwd.hpp>

#include "engine/text/bpe_tokenizer.hpp"

namespace orcd::engine {

/// The settings of normalizer, pre_tokenizer, decoder and post_processor together.
struct json_pipeline {
  std::vector<split_rule> stages;
  std::string scanner;  ///< "o200k": the name of the last known pattern, for kind()
  bool nfc = false;
  bool byte_level = false;
  bool metaspace = false;  ///< spaces become U+2581
  space_prefix prefix = space_prefix::never;
  std::vector<std::string> before;  ///< contents of the tokens that the post-processor puts in front
  std::vector<std::string> behind;
  bool strip_leading_space = false;
};

[[nodiscard]] result<json_pipeline> read_pipeline(const boost::json::object& root);

/// An error whose text begins with "tokenizer.json: ".
[[nodiscard]] error json_error(std::string text);

/// nullptr when the member is absent or null.
[[nodiscard]] const boost::json::value* member(const boost::json::object& object, std::string_view name);
/// The boolean member, or `fallback` when it is absent or null; an error when it is something else.
[[nodiscard]] result<bool> bool_member(const boost::json::object& object, std::string_view name,
                                       bool fallback);
/// The string member, empty when absent, null or something else.
[[nodiscard]] std::string_view string_member(const boost::json::object& object, std::string_view name);

}  // namespace orcd::engine
