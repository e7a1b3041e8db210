// The part of template_operators.hpp that accesses values: lengths, items, attributes, slices.
#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "engine/jinja/template_library.hpp"
#include "engine/jinja/template_loop.hpp"
#include "engine/jinja/template_operators.hpp"
#include "engine/jinja/template_text.hpp"

namespace orcd::engine::jinja {
namespace {

/// Fails for a key that Python cannot hash.
void require_key(const value& key) {
  if (key.is(value_kind::dict) || is_form(key, list_form::list)) {
    context::fail(std::string(kind_name(key)) + " cannot be a key of a mapping");
  }
}

/// The position of `index`, counted from the end when it is negative; size when it is outside.
std::size_t position(std::int64_t index, std::size_t size) {
  const auto n = static_cast<std::int64_t>(size);
  if (index < -n || index >= n) return size;
  return static_cast<std::size_t>(index < 0 ? index + n : index);
}

value text_item(context& c, const value& text, std::int64_t index) {
  // Charges for decoding only as far as the index goes: a character has at most 4 bytes.
  const std::uint64_t codes =
      index < 0 ? 0 - static_cast<std::uint64_t>(index) : static_cast<std::uint64_t>(index);
  c.charge(cost::value + cost::decoded(codes < text.size / 4 ? 4 * codes : text.size));
  const std::size_t from =
      index < 0 ? text_offset_from_end(text.view(), codes) : text_offset(text.view(), codes);
  if (from >= text.size) return make_undefined("character of a string");
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
  c.charge(cost::value + cost::moved(text.size()));
  const bool bytes = is_ascii(text);
  if (!bytes) c.charge(cost::decoded(text.size()));
  const slice_range range = range_of(start, stop, step, bytes ? text.size() : text_length(text));
  if (range.step == 1) {
    const std::size_t from = bytes ? static_cast<std::size_t>(range.start)
                                   : text_offset(text, static_cast<std::size_t>(range.start));
    const std::string_view rest = text.substr(std::min(from, text.size()));
    return make_string(rest.substr(0, bytes ? range.count : text_offset(rest, range.count)));
  }
  std::string out;
  if (range.count == 0) return make_string("");
  c.charge(cost::decoded(range.count));
  const auto place = [&](std::size_t i) {
    return static_cast<std::size_t>(range.start + static_cast<std::int64_t>(i) * range.step);
  };
  if (bytes) {
    for (std::size_t i = 0; i < range.count; ++i) out += text[place(i)];
    return c.text(out, {text});
  }
  // Visits characters by their index, from the first one in the direction of the step.
  std::size_t at = text_offset(text, place(0));
  for (std::size_t i = 0;;) {
    out.append(text.substr(at, code_size(text, at)));
    if (++i == range.count) return c.text(out, {text});
    for (std::int64_t n = 0; n < std::abs(range.step); ++n) {
      at = range.step > 0 ? at + code_size(text, at) : code_before(text, at);
    }
  }
}

}  // namespace

std::size_t length(context& c, const value& v) {
  switch (v.kind) {
    case value_kind::undefined: return 0;
    case value_kind::string: c.charge(cost::value + cost::scanned(v.size)); return text_length(v.view());
    case value_kind::dict: return v.dict->entries.size();
    case value_kind::list:
      if (v.list->form != list_form::generator) return v.list->items.size();
      c.fail("a generator has no length; make a list of it first");
    case value_kind::loop: return loop_length(v);
    default: c.fail(std::string(kind_name(v)) + " has no length");
  }
}

std::span<const value> iterate(context& c, const value& v) {
  switch (v.kind) {
    case value_kind::undefined: return {};
    case value_kind::list:
      if (v.list->form != list_form::generator) return v.list->items;
      return std::exchange(v.list->consumed, true) ? std::span<const value>() : v.list->items;
    case value_kind::dict: {
      const auto entries = v.dict->entries;
      const auto items = c.values(entries.size());
      std::transform(entries.begin(), entries.end(), items.begin(),
                     [](const dict_entry& e) { return e.key; });
      return items;
    }
    case value_kind::string: {
      c.charge(cost::scanned(v.size));
      const auto items = c.values(text_length(v.view()));
      std::size_t at = 0;
      for (value& item : items) {
        item = make_string(v.view().substr(at, code_size(v.view(), at)));
        at += item.size;
      }
      return items;
    }
    default: c.fail(std::string(kind_name(v)) + " cannot be iterated");
  }
}

const value* find_key(context& c, const value& dict, std::string_view key) {
  c.charge(cost::keys(dict.dict->entries.size(), key.size()));
  for (const dict_entry& entry : dict.dict->entries) {
    if (entry.key.is(value_kind::string) && entry.key.view() == key) return &entry.item;
  }
  return nullptr;
}

const value* find_key(context& c, const value& dict, const value& key) {
  require_key(key);
  if (key.is(value_kind::string)) return find_key(c, dict, key.view());
  for (const dict_entry& entry : dict.dict->entries) {
    if (equal(c, entry.key, key)) return &entry.item;
  }
  return nullptr;
}

value get_item(context& c, const value& object, const value& key) {
  require_defined(object);
  c.charge(cost::call);
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
  c.charge(cost::call);
  if (const method_row* row = find_method(object.kind, name)) {
    value v;
    v.kind = value_kind::method;
    v.method = c.memory.make<method_data>(object, row);
    return v;
  }
  if (object.is(value_kind::dict)) {
    const value* found = find_key(c, object, name);
    return found != nullptr ? *found : make_undefined(name);
  }
  if (object.is(value_kind::loop)) return loop_attribute(object, name);
  if (object.is(value_kind::space)) return space_attribute(c, object, name);
  return make_undefined(name);
}

value get_path(context& c, const value& object, std::string_view path) {
  value at = object;
  for (std::size_t from = 0; from <= path.size();) {
    const std::size_t stop = std::min(path.find('.', from), path.size());
    const std::string_view part = path.substr(from, stop - from);
    c.charge(cost::value + cost::decoded(part.size()));
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
  if (range.step == 1) {  // lists do not change, so that a part can share their items
    const auto part = items.subspan(static_cast<std::size_t>(range.start), range.count);
    return make_value(c.memory.make<list_data>(part, object.list->form, is_form(object, list_form::list)));
  }
  const auto out = c.values(range.count);
  for (std::size_t i = 0; i < range.count; ++i) {
    out[i] = items[static_cast<std::size_t>(range.start + static_cast<std::int64_t>(i) * range.step)];
  }
  return make_value(c.memory.make<list_data>(out, object.list->form, is_form(object, list_form::list)));
}

void put(context& c, std::vector<dict_entry>& entries, const value& key, const value& item) {
  require_key(key);
  for (dict_entry& entry : entries) {
    if (equal(c, entry.key, key)) {
      entry.item = item;
      return;
    }
  }
  c.charge(2 * cost::value);
  entries.push_back({key, item});
}

}  // namespace orcd::engine::jinja
