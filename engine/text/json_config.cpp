#include "engine/text/json_config.hpp"

#include <boost/json.hpp>
#include <utility>

namespace orcd::engine {

namespace json = boost::json;

namespace {

constexpr std::string_view metaspace = "\xE2\x96\x81";

using status = result<void>;

std::string_view type_of(const json::object& o) {
  return string_member(o, "type");
}

error unsupported(std::string_view what, std::string_view type) {
  return json_error(std::string(what) + " '" + std::string(type.substr(0, 64)) + "' is not supported");
}

// Calls read(part) for the element or, if it is a Sequence, for each element of it.
template <class Read>
status for_each_part(const json::value* v, std::string_view what, std::string_view list, const Read& read) {
  if (v == nullptr) return {};
  const json::object* o = v->if_object();
  if (o == nullptr) return json_error(std::string(what) + " is not an object");
  if (type_of(*o) != "Sequence") return read(*o);
  const json::value* parts = member(*o, list);
  if (parts == nullptr || !parts->is_array()) return json_error(std::string(what) + " Sequence has no list");
  for (const json::value& part : parts->get_array()) {
    if (!part.is_object())
      return json_error(std::string(what) + " Sequence holds something else than objects");
    if (const status s = read(part.get_object()); !s) return s;
  }
  return {};
}

std::string_view string_pattern(const json::object& o) {
  const json::value* p = member(o, "pattern");
  return p != nullptr && p->is_object() ? string_member(p->get_object(), "String") : std::string_view();
}

status read_normalizer(const json::object& o, json_pipeline& p) {
  const std::string_view type = type_of(o);
  if (type == "NFC") {
    p.nfc = true;
    return {};
  }
  if (type == "Prepend" && string_member(o, "prepend") == metaspace) {
    p.prefix = space_prefix::always;
    return {};
  }
  if (type == "Replace" && string_pattern(o) == " " && string_member(o, "content") == metaspace) {
    p.metaspace = true;
    return {};
  }
  return unsupported("normalizer", type);
}

status read_split(const json::object& o, json_pipeline& p) {
  const auto invert = bool_member(o, "invert", false);
  if (!invert) return invert.error();
  const std::string_view behavior = string_member(o, "behavior");
  // After the normalizer has replaced every space, a split at spaces does nothing (Gemma).
  if (p.metaspace && string_pattern(o) == " ") return {};
  const json::value* pattern = member(o, "pattern");
  const std::string_view regex =
      pattern != nullptr && pattern->is_object() ? string_member(pattern->get_object(), "Regex") : "";
  const auto found = find_pattern(regex);
  if (!found) {
    return json_error("the Split pattern is not one that is implemented: " +
                      std::string(regex.substr(0, 512)));
  }
  // Only the rules for plain digits need to know whether matches are kept: the other patterns match all text.
  const bool digits = found->rule == split_rule::digit_each || found->rule == split_rule::digit_run;
  if (!(behavior == "Isolated" && !*invert) && !(behavior == "Removed" && *invert && !digits)) {
    return json_error("Split behavior '" + std::string(behavior.substr(0, 64)) + "' is not supported");
  }
  p.stages.push_back(found->rule);
  p.scanner = found->name;
  return {};
}

status read_byte_level(const json::object& o, json_pipeline& p) {
  const auto regex = bool_member(o, "use_regex", true);
  if (!regex) return regex.error();
  const auto space = bool_member(o, "add_prefix_space", true);
  if (!space) return space.error();
  if (*space && !p.stages.empty()) return json_error("ByteLevel with add_prefix_space behind another split");
  if (*space) p.prefix = space_prefix::unless_spaced;
  if (*regex) {
    p.stages.push_back(split_rule::gpt2);
    p.scanner = "gpt-2";
  }
  p.byte_level = true;
  return {};
}

status read_metaspace(const json::object& o, json_pipeline& p) {
  const auto split = bool_member(o, "split", true);
  if (!split) return split.error();
  const auto old_space = bool_member(o, "add_prefix_space", true);
  if (!old_space) return old_space.error();
  if (string_member(o, "replacement") != metaspace) return json_error("Metaspace with another replacement");
  const std::string_view scheme = string_member(o, "prepend_scheme");
  p.metaspace = true;
  if (scheme == "never" || (scheme.empty() && !*old_space)) {
    p.prefix = space_prefix::never;
  } else {
    p.prefix = scheme == "first" ? space_prefix::first_unless_spaced : space_prefix::unless_spaced;
  }
  if (*split) p.stages.push_back(split_rule::metaspace_start);
  return {};
}

status read_pre_tokenizer(const json::object& o, json_pipeline& p) {
  const std::string_view type = type_of(o);
  if (type == "Split") return read_split(o, p);
  if (type == "ByteLevel") return read_byte_level(o, p);
  if (type == "Metaspace") return read_metaspace(o, p);
  if (type == "Digits") {
    const auto each = bool_member(o, "individual_digits", false);
    if (!each) return each.error();
    p.stages.push_back(*each ? split_rule::split_digit_each : split_rule::split_digit_run);
    return {};
  }
  return unsupported("pre_tokenizer", type);
}

status read_template(const json::object& o, json_pipeline& p) {
  const json::value* single = member(o, "single");
  if (single == nullptr || !single->is_array()) return json_error("TemplateProcessing has no list 'single'");
  bool seen_text = false;
  for (const json::value& part : single->get_array()) {
    const json::object* item = part.if_object();
    if (item == nullptr) return json_error("TemplateProcessing holds something else than objects");
    if (member(*item, "Sequence") != nullptr) {
      if (std::exchange(seen_text, true)) return json_error("TemplateProcessing repeats the text");
      continue;
    }
    const json::value* special = member(*item, "SpecialToken");
    const std::string_view id =
        special != nullptr && special->is_object() ? string_member(special->get_object(), "id") : "";
    if (id.empty()) return json_error("TemplateProcessing holds an item that is neither text nor token");
    (seen_text ? p.behind : p.before).emplace_back(id);
  }
  return seen_text ? status() : status(json_error("TemplateProcessing has no place for the text"));
}

status read_post_processor(const json::object& o, json_pipeline& p) {
  const std::string_view type = type_of(o);
  if (type == "ByteLevel") return {};  // it only trims offsets
  if (type == "TemplateProcessing") return read_template(o, p);
  return unsupported("post_processor", type);
}

// The vocabulary's spelling says how to decode; the decoder adds only the rule for the leading space.
status read_decoder(const json::object& o, json_pipeline& p) {
  const std::string_view type = type_of(o);
  if (type == "ByteLevel") {
    p.byte_level = true;
  } else if (type == "Metaspace") {
    p.strip_leading_space = p.prefix != space_prefix::never;
  } else if (type == "Strip" && string_member(o, "content") == " ") {
    p.strip_leading_space = true;
  } else if (type != "Replace" && type != "ByteFallback" && type != "Fuse") {
    return unsupported("decoder", type);
  }
  return {};
}

}  // namespace

error json_error(std::string text) {
  return {errc::model_load_failed, "tokenizer.json: " + std::move(text)};
}

const json::value* member(const json::object& object, std::string_view name) {
  const json::value* v = object.if_contains(name);
  return v == nullptr || v->is_null() ? nullptr : v;
}

result<bool> bool_member(const json::object& object, std::string_view name, bool fallback) {
  const json::value* v = member(object, name);
  if (v == nullptr) return fallback;
  if (!v->is_bool()) return json_error("'" + std::string(name) + "' is not a boolean");
  return v->get_bool();
}

std::string_view string_member(const json::object& object, std::string_view name) {
  const json::value* v = member(object, name);
  if (v == nullptr || !v->is_string()) return {};
  return {v->get_string().data(), v->get_string().size()};
}

result<json_pipeline> read_pipeline(const json::object& root) {
  json_pipeline p;
  const auto with = [&p](auto read) { return [&p, read](const json::object& o) { return read(o, p); }; };
  status s = for_each_part(member(root, "normalizer"), "normalizer", "normalizers", with(read_normalizer));
  if (s) {
    s = for_each_part(member(root, "pre_tokenizer"), "pre_tokenizer", "pretokenizers",
                      with(read_pre_tokenizer));
  }
  if (s) {
    s = for_each_part(member(root, "post_processor"), "post_processor", "processors",
                      with(read_post_processor));
  }
  if (s) s = for_each_part(member(root, "decoder"), "decoder", "decoders", with(read_decoder));
  if (!s) return s.error();
  if (p.byte_level && p.metaspace) return json_error("both ByteLevel and Metaspace spelling");
  if (!p.byte_level && !p.metaspace) return json_error("neither ByteLevel nor U+2581 for spaces");
  return p;
}

}  // namespace orcd::engine
