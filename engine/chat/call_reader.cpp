#include "engine/chat/call_reader.hpp"

#include <boost/json/parse.hpp>

namespace orcd::engine {

namespace {

constexpr std::size_t key_bytes_max = 32;

/// What a JSON string that was cut off says so far, if that begins an object.
std::string begun_text(std::string_view json) {
  constexpr std::size_t escape_bytes_max = 12;  // \ud83d\ude00
  for (std::size_t cut = 0; cut < escape_bytes_max && cut < json.size(); ++cut) {
    boost::system::error_code ec;
    const auto value = boost::json::parse(std::string(json.substr(0, json.size() - cut)) + '"', ec);
    if (ec || !value.is_string()) continue;
    std::string out(value.get_string().data(), value.get_string().size());
    const std::size_t first = out.find_first_not_of(" \n\t\r");
    return first != std::string::npos && out[first] == '{' ? out : std::string();
  }
  return {};
}

}  // namespace

call_reader::verdict call_reader::push(char c, std::string& arguments) {
  switch (place_) {
    case place::before:
      if (is_space(c)) return verdict::more;
      if (c != '{') return verdict::wrong;
      place_ = place::first_key;
      return verdict::more;
    case place::first_key:
    case place::next_key: return begin_key(c);
    case place::key: return in_key(c);
    case place::colon:
      if (is_space(c)) return verdict::more;
      if (c != ':') return verdict::wrong;
      place_ = place::value;
      return verdict::more;
    case place::value: return in_value(c, arguments);
    case place::after_value:
      if (is_space(c)) return verdict::more;
      if (c == ',') {
        place_ = place::next_key;
        return verdict::more;
      }
      return c == '}' && end_object(arguments) ? verdict::done : verdict::wrong;
    case place::done: break;
  }
  return verdict::wrong;
}

call_reader::verdict call_reader::begin_key(char c) {
  if (is_space(c)) return verdict::more;
  if (c != '"') return verdict::wrong;
  key_.clear();
  place_ = place::key;
  return verdict::more;
}

call_reader::verdict call_reader::in_key(char c) {
  if (c != '"') {
    key_ += c;
    return key_.size() <= key_bytes_max && c != '\\' && !is_space(c) ? verdict::more : verdict::wrong;
  }
  if (key_ == "name" || key_ == "function" || key_ == "tool_name") {
    if (has_name_) return verdict::wrong;
    member_ = member::name;
  } else if (key_ == "arguments" || key_ == "parameters") {
    if (has_arguments_) return verdict::wrong;
    member_ = member::arguments;
    has_arguments_ = true;
  } else if (key_ == "type" || key_ == "id" || key_ == "tool_call_id" || committed_) {
    member_ = member::other;
  } else {
    return verdict::wrong;
  }
  scanner_ = {};
  value_.clear();
  place_ = place::colon;
  return verdict::more;
}

call_reader::verdict call_reader::in_value(char c, std::string& arguments) {
  // Arguments are an object, or spelled as text or null.
  if (member_ == member::arguments && !arguments_.started() && (c == '"' || c == 'n')) member_ = member::text;
  if (member_ != member::arguments) return in_scanned(c, arguments);
  std::string fragment;
  const auto v = arguments_.push(c, fragment);
  if (v == argument_stream::verdict::wrong || v == argument_stream::verdict::outside) return verdict::wrong;
  if (!arguments_.started()) return verdict::more;
  if (has_name_) {
    commit(arguments);
    arguments += fragment;
  } else {
    early_ += fragment;
    if (early_.size() > early_bytes_max) return verdict::wrong;
  }
  if (v == argument_stream::verdict::done) place_ = place::after_value;
  return verdict::more;
}

call_reader::verdict call_reader::in_scanned(char c, std::string& arguments) {
  const auto v = scanner_.push(c);
  const std::size_t most = member_ == member::text ? early_bytes_max : name_bytes_max;
  if (v == json_scanner::verdict::wrong || value_.size() >= most) return verdict::wrong;
  if (v == json_scanner::verdict::outside) {
    // Only a number ends this way, and none of these members may be a number.
    return verdict::wrong;
  }
  value_ += c;
  if (v == json_scanner::verdict::more) return verdict::more;
  place_ = place::after_value;
  return end_scanned(arguments) ? verdict::more : verdict::wrong;
}

bool call_reader::end_scanned(std::string& arguments) {
  boost::system::error_code ec;
  const auto value = boost::json::parse(value_, ec);
  if (ec) return false;
  if (member_ == member::name) {
    if (!value.is_string() || value.get_string().empty()) return false;
    name_.assign(value.get_string().data(), value.get_string().size());
    has_name_ = true;
    if (!early_.empty()) commit(arguments);
    return true;
  }
  if (member_ == member::text) {
    std::string whole = "{}";
    if (value.is_string()) {
      whole.assign(value.get_string().data(), value.get_string().size());
      const auto inner = boost::json::parse(whole, ec);
      if (ec || !inner.is_object()) return false;
    } else if (!value.is_null()) {
      return false;
    }
    early_ = std::move(whole);
    if (has_name_) commit(arguments);
  }
  return true;
}

bool call_reader::end_object(std::string& arguments) {
  if (!has_name_) return false;
  if (!has_arguments_) early_ = "{}";
  commit(arguments);
  place_ = place::done;
  return true;
}

void call_reader::commit(std::string& arguments) {
  committed_ = true;
  arguments += std::exchange(early_, {});
}

bool call_reader::close(std::string& arguments) {
  return place_ == place::after_value && has_arguments_ && end_object(arguments);
}

bool call_reader::leave(std::string& arguments) {
  if (committed_) {
    arguments_.leave(arguments);
    return true;
  }
  if (!has_name_ || place_ != place::value || member_ != member::text) return false;
  const std::string begun = begun_text(value_);
  arguments += begun;
  return !begun.empty();
}

void call_reader::spoil(char c, std::string& arguments) {
  // Arguments that are whole stay what they are, whatever comes behind them.
  if (place_ == place::value && member_ == member::arguments) arguments_.spoil(c, arguments);
}

std::string_view call_reader::begun_name() const noexcept {
  if (has_name_ || place_ != place::value || member_ != member::name) return name_;
  const std::size_t quote = value_.find('"');
  return quote == std::string::npos ? std::string_view() : std::string_view(value_).substr(quote + 1);
}

bool call_reader::in_string() const noexcept {
  if (place_ == place::key) return true;
  if (place_ != place::value) return false;
  return member_ == member::arguments ? arguments_.in_string() : scanner_.in_string();
}

}  // namespace orcd::engine
