#include "net/json/json_keys.hpp"

#include <algorithm>
#include <functional>

namespace orcd::net {

void open_keys::add(std::string_view name) {
  keys_.push_back({std::hash<std::string_view>()(name), bytes_.size(), name.size(), keys_.size()});
  bytes_ += name;
}

/// Sorts this object's keys, so that equal ones are neighbours, in the order of the text.
std::optional<open_keys::key> open_keys::find_repeated(std::size_t first, std::size_t end) {
  const auto begin = keys_.begin() + static_cast<std::ptrdiff_t>(first);
  const auto behind = keys_.begin() + static_cast<std::ptrdiff_t>(end);
  std::sort(begin, behind, [this](const key& a, const key& b) {
    if (a.hash != b.hash) return a.hash < b.hash;
    const int order = text_of(a).compare(text_of(b));
    return order != 0 ? order < 0 : a.position < b.position;
  });
  std::optional<key> found;
  for (auto each = begin; each != behind && each + 1 != behind; ++each) {
    const auto next = each + 1;
    if (each->hash != next->hash || text_of(*each) != text_of(*next)) continue;
    if (!found || next->position < found->position) found = *next;
  }
  return found;
}

bool open_keys::close() {
  const object innermost = objects_.back();
  if (find_repeated(innermost.first_key, keys_.size())) return false;
  keys_.resize(innermost.first_key);
  bytes_.resize(innermost.first_byte);
  objects_.pop_back();
  return true;
}

std::optional<std::string_view> open_keys::first_repeated() {
  std::optional<key> found;
  std::size_t end = keys_.size();
  for (auto each = objects_.rbegin(); each != objects_.rend(); ++each) {
    const auto repeated = find_repeated(each->first_key, end);
    if (repeated && (!found || repeated->position < found->position)) found = repeated;
    end = each->first_key;
  }
  if (!found) return std::nullopt;
  return text_of(*found);
}

}  // namespace orcd::net
