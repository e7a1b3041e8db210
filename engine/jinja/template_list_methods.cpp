// Methods that make lists of text, and the methods of dicts, lists and loops.
#include <algorithm>

#include "engine/jinja/template_library.hpp"
#include "engine/jinja/template_loop.hpp"
#include "engine/jinja/template_operators.hpp"
#include "engine/jinja/template_text.hpp"
#include "engine/jinja/text_search.hpp"

namespace orcd::engine::jinja {
namespace {

constexpr std::int64_t no_limit = INT64_MAX;

std::int64_t split_limit(const arguments& a) {
  const std::int64_t most = a.integer(1, -1);
  return most < 0 ? no_limit : most;
}

std::vector<value> words_of(context& c, std::string_view text, std::int64_t most) {
  std::vector<value> out;
  for (text = strip_left(c.meter, text); !text.empty(); text = strip_left(c.meter, text)) {
    if (most-- == 0) {
      out.push_back(make_string(text));
      break;
    }
    std::size_t end = 0;
    while (end < text.size() && !is_space(code_at(text, end))) end += code_size(text, end);
    c.charge(2 * cost::value);
    out.push_back(make_string(text.substr(0, end)));
    text.remove_prefix(end);
  }
  return out;
}

std::vector<value> words_from_end(context& c, std::string_view text, std::int64_t most) {
  std::vector<value> out;
  for (text = strip_right(c.meter, text); !text.empty(); text = strip_right(c.meter, text)) {
    if (most-- == 0) {
      out.push_back(make_string(text));
      break;
    }
    std::size_t begin = text.size();
    while (begin > 0) {
      const std::size_t before = code_before(text, begin);
      if (is_space(code_at(text, before))) break;
      begin = before;
    }
    c.charge(2 * cost::value);
    out.push_back(make_string(text.substr(begin)));
    text = text.substr(0, begin);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

template <bool FromEnd>
value method_split(context& c, const value& self, const arguments& a) {
  std::string_view text = self.view();
  std::int64_t most = split_limit(a);
  if (!a.has(0) || a[0].is(value_kind::none)) {
    c.charge(cost::decoded(text.size()));
    return c.list(FromEnd ? words_from_end(c, text, most) : words_of(c, text, most));
  }
  const std::string_view by = a.text(0, "");
  if (by.empty()) c.fail("split takes a separator that is not empty");
  std::vector<value> out;
  for (; most > 0; --most) {
    const std::size_t at = FromEnd ? rfind_text(c.meter, text, by) : find_text(c.meter, text, by);
    if (at == std::string_view::npos) break;
    c.charge(2 * cost::value);
    out.push_back(make_string(FromEnd ? text.substr(at + by.size()) : text.substr(0, at)));
    text = FromEnd ? text.substr(0, at) : text.substr(at + by.size());
  }
  out.push_back(make_string(text));
  if (FromEnd) std::reverse(out.begin(), out.end());
  return c.list(out);
}

value method_lines(context& c, const value& self, const arguments& a) {
  c.charge(2 * cost::decoded(self.size));
  std::vector<value> out;
  for (std::size_t from = 0; from < self.size;) {
    const line_end end = find_line_end(self.view(), from);
    c.charge(2 * cost::value);
    out.push_back(make_string(self.view().substr(from, (a.flag(0) ? end.next : end.stop) - from)));
    from = end.next;
  }
  return c.list(out);
}

template <bool FromEnd>
value method_partition(context& c, const value& self, const arguments& a) {
  const std::string_view text = self.view();
  const std::string_view by = a.text(0, "");
  if (by.empty()) c.fail("partition takes a separator that is not empty");
  const std::size_t at = FromEnd ? rfind_text(c.meter, text, by) : find_text(c.meter, text, by);
  std::array<value, 3> out{make_string(""), make_string(""), make_string("")};
  if (at == std::string_view::npos) {
    out[FromEnd ? 2 : 0] = self;
  } else {
    out = {make_string(text.substr(0, at)), make_string(by), make_string(text.substr(at + by.size()))};
  }
  return c.list(out, list_form::tuple);
}

value dict_get(context& c, const value& self, const arguments& a) {
  const value* found = find_key(c, self, a[0]);
  return found != nullptr ? *found : a.has(1) ? a[1] : make_none();
}

template <list_form Form>
value dict_view(context& c, const value& self, const arguments&) {
  std::vector<value> out;
  c.charge_values(self.dict->entries.size());
  for (const dict_entry& entry : self.dict->entries) {
    const std::array<value, 2> pair{entry.key, entry.item};
    out.push_back(Form == list_form::keys     ? entry.key
                  : Form == list_form::values ? entry.item
                                              : c.list(pair, list_form::tuple));
  }
  return c.list(out, Form);
}

value same(context&, const value& self, const arguments&) {
  return self;
}

value refuse_change(context& c, const value& self, const arguments&) {
  c.fail("a template may not change " + std::string(kind_name(self)));
}

/// The memory grows by doubling, so that many appends cost what the list does. Whoever goes through the list
/// meanwhile has its items of before.
value list_append(context& c, const value& self, const arguments& a) {
  const list_data& list = *self.list;
  if (!list.own) return refuse_change(c, self, a);
  const std::size_t count = list.items.size();
  if (count >= list.room.size()) {  // a list that was written as a literal has none
    constexpr std::size_t least = 4;
    const auto more = c.values(std::max(least, 2 * count));
    std::copy(list.items.begin(), list.items.end(), more.begin());
    list.room = more;
  }
  c.charge(cost::value);
  list.room[count] = a[0];
  list.items = list.room.first(count + 1);
  return make_none();
}

value list_copy(context& c, const value& self, const arguments&) {
  return make_value(c.memory.make<list_data>(self.list->items, list_form::list, true));
}

value list_index(context& c, const value& self, const arguments& a) {
  const auto items = self.list->items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (equal(c, items[i], a[0])) return make_integer(static_cast<std::int64_t>(i));
  }
  c.fail("index did not find its item");
}

value list_count(context& c, const value& self, const arguments& a) {
  std::int64_t count = 0;
  for (const value& item : self.list->items) count += equal(c, item, a[0]) ? 1 : 0;
  return make_integer(count);
}

value loop_cycle(context& c, const value& self, const arguments& a) {
  if (a.raw.items.empty()) c.fail("cycle takes at least one item");
  return a.raw.items[self.loop->at % a.raw.items.size()];
}

value loop_changed(context& c, const value& self, const arguments& a) {
  const value now = c.list(a.raw.items, list_form::tuple);
  const value* before = self.loop->last_changed;
  if (before != nullptr && equal(c, *before, now)) return make_bool(false);
  self.loop->last_changed = c.memory.make<value>(now);
  return make_bool(true);
}

constexpr method_row row(std::string_view name, library_function run, std::string_view parameters = {},
                         std::uint32_t required = 0) {
  return method_row{{name, run, parameters, required}};
}

constexpr std::array text_rows{
    row("split", method_split<false>, "sep maxsplit"),   row("rsplit", method_split<true>, "sep maxsplit"),
    row("splitlines", method_lines, "keepends"),         row("partition", method_partition<false>, "sep", 1),
    row("rpartition", method_partition<true>, "sep", 1),
};

constexpr std::array dict_rows{
    row("get", dict_get, "key default", 1),
    row("items", dict_view<list_form::items>),
    row("keys", dict_view<list_form::keys>),
    row("values", dict_view<list_form::values>),
    row("copy", same),
    row("update", refuse_change, "*"),
    row("pop", refuse_change, "*"),
    row("popitem", refuse_change, "*"),
    row("setdefault", refuse_change, "*"),
    row("clear", refuse_change, "*"),
};

constexpr std::array list_rows{
    row("index", list_index, "value", 1),
    row("count", list_count, "value", 1),
    row("copy", list_copy),
    row("append", list_append, "item", 1),
    row("extend", refuse_change, "*"),
    row("insert", refuse_change, "*"),
    row("pop", refuse_change, "*"),
    row("remove", refuse_change, "*"),
    row("clear", refuse_change, "*"),
    row("reverse", refuse_change, "*"),
    row("sort", refuse_change, "*"),
};

constexpr std::array loop_rows{
    row("cycle", loop_cycle, "*"),
    row("changed", loop_changed, "*"),
};

}  // namespace

const method_row* find_method(value_kind kind, std::string_view name) noexcept {
  const auto find = [name](std::span<const method_row> rows) -> const method_row* {
    const auto found =
        std::find_if(rows.begin(), rows.end(), [&](const method_row& r) { return r.name == name; });
    return found == rows.end() ? nullptr : &*found;
  };
  switch (kind) {
    case value_kind::string: {
      const method_row* found = find(text_methods());
      return found != nullptr ? found : find(text_rows);
    }
    case value_kind::dict: return find(dict_rows);
    case value_kind::list: return find(list_rows);
    case value_kind::loop: return find(loop_rows);
    default: return nullptr;
  }
}

}  // namespace orcd::engine::jinja
