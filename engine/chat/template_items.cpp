// The half of template_operators.hpp that looks into values: lengths, items, attributes, slices.
#include <algorithm>
#include <charconv>

#include "engine/chat/template_library.hpp"
#include "engine/chat/template_loop.hpp"
#include "engine/chat/template_operators.hpp"
#include "engine/chat/template_text.hpp"

namespace orcd::engine::jinja {
namespace {

/// A key must not be something that Python cannot hash.
void require_key(const value& key) {
  if (key.is(value_kind::dict) || is_form(key, list_form::list)) {
    context::fail(std::string(kind_name(key)) + " cannot be a key of a mapping");
  }
}

/// `index` from the end when negative; size when outside.
std::size_t position(std::int64_t index, std::size_t size) {
  const auto n = static_cast<std::int64_t>(size);
  if (index < -n || index >= n) return size;
  return static_cast<std::size_t>(index < 0 ? index + n : index);
}

value text_item(context& c, const value& text, std::int64_t index) {
  c.charge_text(text.size);
  const std::size_t size = text_length(text.view());
  const std::size_t at = position(index, size);
  if (at == size) return make_undefined("character of a string");
  const std::size_t from = text_offset(text.view(), at);
  return make_string(text.view().substr(from, code_size(text.view(), from)));
}

struct slice_range {
  std::int64_t start;
  std::int64_t step;
  std::size_t count;
};

std::int64_t bound_of(const value& v, std::int64_t fallback, std::int64_t size, bool backwards) {
  if (v.is(value_kind::none)) return fallback;
  if (!is_integral(v)) {
    require_defined(v);
    context::fail("a slice takes integers, not " + std::string(kind_name(v)));
  }
  const std::int64_t from_start =
      v.integer < 0 ? std::max<std::int64_t>(v.integer, -size - 1) + size : v.integer;
  return std::clamp<std::int64_t>(from_start, backwards ? -1 : 0, backwards ? size - 1 : size);
}

slice_range range_of(const value& start, const value& stop, const value& step, std::size_t length) {
  const auto size = static_cast<std::int64_t>(length);
  constexpr std::int64_t largest = INT64_MAX / 4;
  const std::int64_t by = std::clamp<std::int64_t>(step.is(value_kind::none) ? 1
                                                   : is_integral(step)       ? step.integer
                                                                             : 0,
                                                   -largest, largest);
  if (by == 0) context::fail("the step of a slice must be an integer that is not 0");
  const bool backwards = by < 0;
  const std::int64_t from = bound_of(start, backwards ? size - 1 : 0, size, backwards);
  const std::int64_t to = bound_of(stop, backwards ? -1 : size, size, backwards);
  const std::int64_t distance = backwards ? from - to : to - from;
  const std::int64_t unit = backwards ? -by : by;
  return {from, by, distance <= 0 ? 0 : static_cast<std::size_t>((distance + unit - 1) / unit)};
}

value slice_text(context& c, std::string_view text, const value& start, const value& stop,
                 const value& step) {
  c.charge_text(text.size());
  const bool bytes = is_ascii(text);
  const slice_range range = range_of(start, stop, step, bytes ? text.size() : text_length(text));
  if (range.step == 1) {
    const std::size_t from = bytes ? static_cast<std::size_t>(range.start)
                                   : text_offset(text, static_cast<std::size_t>(range.start));
    const std::string_view rest = text.substr(std::min(from, text.size()));
    return make_string(rest.substr(0, bytes ? range.count : text_offset(rest, range.count)));
  }
  std::vector<std::string_view> codes;
  c.charge(text.size() / 8);
  for (std::size_t at = 0; at < text.size(); at += codes.back().size()) {
    codes.push_back(text.substr(at, code_size(text, at)));
  }
  std::string out;
  for (std::size_t i = 0; i < range.count; ++i) {
    out += codes[static_cast<std::size_t>(range.start + static_cast<std::int64_t>(i) * range.step)];
  }
  return c.text(out);
}

}  // namespace

std::size_t length(context& c, const value& v) {
  switch (v.kind) {
    case value_kind::undefined: return 0;
    case value_kind::string: c.charge_text(v.size); return text_length(v.view());
    case value_kind::dict: return v.dict->entries.size();
    case value_kind::list:
      if (v.list->form != list_form::generator) return v.list->items.size();
      c.fail("a generator has no length; make a list of it first");
    case value_kind::loop: return loop_length(v);
    default: c.fail(std::string(kind_name(v)) + " has no length");
  }
}

std::span<const value> iterate(context& c, const value& v) {
  std::vector<value> items;
  switch (v.kind) {
    case value_kind::undefined: return {};
    case value_kind::list:
      if (v.list->form != list_form::generator) return v.list->items;
      return std::exchange(v.list->consumed, true) ? std::span<const value>() : v.list->items;
    case value_kind::dict:
      c.charge(v.dict->entries.size());
      for (const dict_entry& entry : v.dict->entries) items.push_back(entry.key);
      break;
    case value_kind::string:
      c.charge(v.size);
      for (std::size_t at = 0; at < v.size; at += items.back().size) {
        items.push_back(make_string(v.view().substr(at, code_size(v.view(), at))));
      }
      break;
    default: c.fail(std::string(kind_name(v)) + " cannot be iterated");
  }
  return c.memory.copy(items);
}

const value* find_key(const value& dict, std::string_view key) noexcept {
  for (const dict_entry& entry : dict.dict->entries) {
    if (entry.key.is(value_kind::string) && entry.key.view() == key) return &entry.item;
  }
  return nullptr;
}

const value* find_key(context& c, const value& dict, const value& key) {
  require_key(key);
  c.charge(dict.dict->entries.size() / 8);
  if (key.is(value_kind::string)) return find_key(dict, key.view());
  for (const dict_entry& entry : dict.dict->entries) {
    if (equal(c, entry.key, key)) return &entry.item;
  }
  return nullptr;
}

value get_item(context& c, const value& object, const value& key) {
  require_defined(object);
  if (object.is(value_kind::dict) && !key.is(value_kind::undefined)) {
    const bool hashable = !key.is(value_kind::dict) && !is_form(key, list_form::list);
    if (const value* found = hashable ? find_key(c, object, key) : nullptr) return *found;
  } else if (is_indexed(object) && is_integral(key)) {
    const std::size_t at = position(key.integer, object.list->items.size());
    return at < object.list->items.size() ? object.list->items[at] : make_undefined("item of a list");
  } else if (object.is(value_kind::string) && is_integral(key)) {
    return text_item(c, object, key.integer);
  }
  if (!key.is(value_kind::string)) return make_undefined("item");
  if (object.is(value_kind::dict)) {
    if (const method_row* row = find_method(object.kind, key.view())) {
      value v;
      v.kind = value_kind::method;
      v.method = c.memory.make<method_data>(object, row);
      return v;
    }
    return make_undefined(key.view());
  }
  return get_attribute(c, object, key.view());
}

value get_attribute(context& c, const value& object, std::string_view name) {
  require_defined(object);
  if (const method_row* row = find_method(object.kind, name)) {
    value v;
    v.kind = value_kind::method;
    v.method = c.memory.make<method_data>(object, row);
    return v;
  }
  if (object.is(value_kind::dict)) {
    c.charge(object.dict->entries.size() / 8);
    const value* found = find_key(object, name);
    return found != nullptr ? *found : make_undefined(name);
  }
  if (object.is(value_kind::loop)) return loop_attribute(object, name);
  if (object.is(value_kind::space)) return space_attribute(object, name);
  return make_undefined(name);
}

value get_path(context& c, const value& object, std::string_view path) {
  value at = object;
  for (std::size_t from = 0; from <= path.size();) {
    const std::size_t stop = std::min(path.find('.', from), path.size());
    const std::string_view part = path.substr(from, stop - from);
    std::int64_t index = 0;
    const auto [end, failed] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = failed == std::errc{} && end == part.data() + part.size();
    at = get_item(c, at, is_index ? make_integer(index) : make_string(part));
    from = stop + 1;
  }
  return at;
}

value slice(context& c, const value& object, const value& start, const value& stop, const value& step) {
  require_defined(object);
  if (object.is(value_kind::string)) return slice_text(c, object.view(), start, stop, step);
  if (!is_indexed(object)) c.fail(std::string(kind_name(object)) + " cannot be sliced");
  const auto items = object.list->items;
  const slice_range range = range_of(start, stop, step, items.size());
  c.charge(range.count / 4);
  if (range.step == 1) {  // lists do not change, so that a part can share their items
    const auto part = items.subspan(static_cast<std::size_t>(range.start), range.count);
    return make_value(c.memory.make<list_data>(part, object.list->form));
  }
  std::vector<value> out;
  for (std::size_t i = 0; i < range.count; ++i) {
    out.push_back(items[static_cast<std::size_t>(range.start + static_cast<std::int64_t>(i) * range.step)]);
  }
  return c.list(out, object.list->form);
}

void put(context& c, std::vector<dict_entry>& entries, const value& key, const value& item) {
  require_key(key);
  for (dict_entry& entry : entries) {
    if (equal(c, entry.key, key)) {
      entry.item = item;
      return;
    }
  }
  entries.push_back({key, item});
}

}  // namespace orcd::engine::jinja
