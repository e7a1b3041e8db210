#include "engine/jinja/template_loop.hpp"

#include <algorithm>

namespace orcd::engine::jinja {

std::size_t loop_length(const value& loop) noexcept {
  return loop.loop->items.size();
}

value loop_attribute(const value& loop, std::string_view name) {
  const loop_data& l = *loop.loop;
  const auto at = static_cast<std::int64_t>(l.at);
  const auto size = static_cast<std::int64_t>(l.items.size());
  if (name == "index") return make_integer(at + 1);
  if (name == "index0") return make_integer(at);
  if (name == "first") return make_bool(at == 0);
  if (name == "last") return make_bool(at + 1 == size);
  if (name == "length") return make_integer(size);
  if (name == "revindex") return make_integer(size - at);
  if (name == "revindex0") return make_integer(size - at - 1);
  if (name == "previtem") return at > 0 ? l.items[l.at - 1] : make_undefined("previtem");
  if (name == "nextitem") return at + 1 < size ? l.items[l.at + 1] : make_undefined("nextitem");
  // Only recursive loops, which are refused, go deeper.
  if (name == "depth") return make_integer(1);
  if (name == "depth0") return make_integer(0);
  return make_undefined(name);
}

value space_attribute(context& c, const value& space, std::string_view name) {
  const space_data& s = *space.space;
  c.charge(cost::keys(s.count, name.size()));
  for (std::size_t i = 0; i < s.count; ++i) {
    if (s.entries[i].key.view() == name) return s.entries[i].item;
  }
  return make_undefined(name);
}

void assign_attribute(context& c, const value& space, std::string_view name, const value& item) {
  space_data& s = *space.space;
  c.charge(cost::keys(s.count, name.size()));
  for (std::size_t i = 0; i < s.count; ++i) {
    if (s.entries[i].key.view() == name) {
      s.entries[i].item = item;
      return;
    }
  }
  if (s.count == s.capacity) {
    s.capacity = std::max<std::size_t>(4, s.capacity * 2);
    auto* larger = static_cast<dict_entry*>(c.memory.allocate(s.capacity * sizeof(dict_entry)));
    std::copy_n(s.entries, s.count, larger);
    s.entries = larger;
  }
  s.entries[s.count++] = {make_string(name), item};
}

}  // namespace orcd::engine::jinja
