#include "engine/grammar/unique_items.hpp"

#include <algorithm>
#include <utility>

namespace orcd::engine::grammar {

namespace {

bool is_space(unsigned char byte) noexcept {
  return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
}

/// Follows the rest of an item along earlier items.
class way_out {
 public:
  way_out(configurations& configs, std::vector<std::string_view> rests)
      : configs_(configs), rests_(std::move(rests)) {}

  /// `begun`: a part of the item is there; `nesting`: its open brackets.
  bool from(config_id at, std::size_t done, std::uint32_t nesting, bool in_string, bool escaped, bool begun) {
    if (rests_.empty() || done > bytes_max) return true;
    const bool between = !in_string && nesting == 0;
    bool known = false;  // the item is an earlier one if it ends here
    byte_set along;
    for (const std::string_view rest : rests_) {
      if (rest.size() < done || rest.substr(0, done) != path_) continue;
      if (rest.size() == done) {
        known = true;
      } else {
        along.set(static_cast<unsigned char>(rest[done]));
      }
    }
    if (!known && along.none()) return true;
    for (unsigned byte = 0; byte < 256; ++byte) {
      if (along[byte]) continue;
      const bool ends = between && (byte == ',' || byte == ']' || is_space(static_cast<unsigned char>(byte)));
      if (ends && (known || (!begun && byte != ']'))) continue;
      if (configs_.step(at, static_cast<unsigned char>(byte)) != dead) return true;
    }
    for (unsigned byte = 0; byte < 256; ++byte) {
      if (!along[byte]) continue;
      const config_id to = configs_.step(at, static_cast<unsigned char>(byte));
      if (to == dead) continue;
      const char c = static_cast<char>(byte);
      path_ += c;
      const bool quote = c == '"' && !escaped;
      const bool inside = quote ? !in_string : in_string;
      std::uint32_t deeper = nesting;
      if (!in_string && (c == '[' || c == '{')) ++deeper;
      if (!in_string && (c == ']' || c == '}')) --deeper;
      const bool found = from(to, done + 1, deeper, inside, in_string && !escaped && c == '\\', true);
      path_.pop_back();
      if (found) return true;
    }
    return false;
  }

 private:
  /// Further on it is taken for granted that there is another way.
  static constexpr std::size_t bytes_max = 1'024;
  configurations& configs_;
  std::vector<std::string_view> rests_;
  std::string path_;
};

}  // namespace

std::string_view unique_items::present(const open_array& array) const noexcept {
  std::string_view out = std::string_view(text_).substr(array.begin);
  while (!out.empty() && is_space(static_cast<unsigned char>(out.front()))) out.remove_prefix(1);
  if (is_between(array)) {
    while (!out.empty() && is_space(static_cast<unsigned char>(out.back()))) out.remove_suffix(1);
  }
  return out;
}

bool unique_items::end_item(open_array& array) {
  const std::string_view text = present(array);
  if (text.empty() || std::exchange(array.ended, true)) return true;
  for (const item* known = array.items.get(); known != nullptr; known = known->before.get()) {
    if (known->text == text) return false;
  }
  array.items = std::make_shared<const item>(item{std::string(text), array.items});
  return true;
}

void unique_items::open(unsigned char byte, bool unique) {
  ++depth_;
  text_ += static_cast<char>(byte);
  if (unique) arrays_.push_back({depth_, text_.size(), false, nullptr});
}

bool unique_items::close(unsigned char byte) {
  const bool last = byte == ']' && is_between(arrays_.back());
  if (last && !end_item(arrays_.back())) return false;
  if (last) arrays_.pop_back();
  --depth_;
  text_ += static_cast<char>(byte);
  if (arrays_.empty()) *this = {};
  return true;
}

bool unique_items::step(const program& grammar, const configurations& configs, config_id from,
                        unsigned char byte) {
  if (!in_string_ && byte == '[') {
    const auto& threads = configs.threads(from);
    const bool unique = std::any_of(threads.begin(), threads.end(),
                                    [&](const thread& t) { return grammar.states[t.state].unique; });
    if (unique || !arrays_.empty()) open(byte, unique);
    return true;
  }
  if (arrays_.empty()) return true;
  if (in_string_) {
    in_string_ = escaped_ || byte != '"';
    escaped_ = !escaped_ && byte == '\\';
    text_ += static_cast<char>(byte);
    return true;
  }
  if (byte == ']' || byte == '}') return close(byte);
  open_array& array = arrays_.back();
  if (is_between(array) && (byte == ',' || is_space(byte)) && !end_item(array)) return false;
  if (byte == '{') ++depth_;
  in_string_ = byte == '"';
  text_ += static_cast<char>(byte);
  if (is_between(array) && byte == ',') {
    if (arrays_.size() == 1) text_.clear();
    array.begin = text_.size();
    array.ended = false;
  }
  return true;
}

std::vector<std::string_view> unique_items::known_rests() const {
  std::vector<std::string_view> out;
  for (const open_array& array : arrays_) {
    if (array.ended) continue;
    const std::string_view text = present(array);
    for (const item* known = array.items.get(); known != nullptr; known = known->before.get()) {
      const std::string_view other = known->text;
      if (other.starts_with(text)) out.push_back(other.substr(text.size()));
    }
  }
  return out;
}

bool unique_items::can_go_on(configurations& configs, config_id at) const {
  return std::all_of(arrays_.begin(), arrays_.end(), [&](const open_array& array) {
    if (array.ended) return true;
    const std::string_view text = present(array);
    std::vector<std::string_view> rests;
    for (const item* known = array.items.get(); known != nullptr; known = known->before.get()) {
      const std::string_view other = known->text;
      if (other.starts_with(text)) rests.push_back(other.substr(text.size()));
    }
    return way_out(configs, std::move(rests))
        .from(at, 0, depth_ - array.depth, in_string_, escaped_, !text.empty());
  });
}

}  // namespace orcd::engine::grammar
