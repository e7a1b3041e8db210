#include "engine/jinja/template_format.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "engine/jinja/template_loop.hpp"
#include "engine/jinja/template_operators.hpp"
#include "engine/jinja/template_text.hpp"

namespace orcd::engine::jinja {
namespace {

constexpr std::string_view digits16 = "0123456789abcdef";

void append_hex(text_builder& out, char32_t code, int digits) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += digits16[code >> shift & 0xFU];
}

/// repr(str): single quotes unless the text has them and no double ones.
void repr_text(text_builder& out, std::string_view text) {
  const bool single = text.find('\'') == std::string_view::npos || text.find('"') != std::string_view::npos;
  const char quote = single ? '\'' : '"';
  out += quote;
  for (std::size_t at = 0; at < text.size(); at += code_size(text, at)) {
    const char32_t code = code_at(text, at);
    if (code == static_cast<char32_t>(quote) || code == '\\') {
      out += '\\';
      out += static_cast<char>(code);
    } else if (code == '\n' || code == '\r' || code == '\t') {
      out.add_own(code == '\n' ? "\\n" : code == '\r' ? "\\r" : "\\t");
    } else if (code < 0x20 || code == 0x7F || (code >= 0x80 && code <= 0xA0) || code == 0xAD) {
      out += "\\x";
      append_hex(out, code, 2);
    } else if (is_space(code) && code != ' ') {
      out += "\\u";
      append_hex(out, code, 4);
    } else {
      out.append(text.substr(at, code_size(text, at)));
    }
  }
  out += quote;
}

struct brackets {
  std::string_view open;
  std::string_view close;
};

brackets brackets_of(list_form form) {
  switch (form) {
    case list_form::tuple: return {"(", ")"};
    case list_form::keys: return {"dict_keys([", "])"};
    case list_form::values: return {"dict_values([", "])"};
    case list_form::items: return {"dict_items([", "])"};
    case list_form::range: return {"range(", ")"};
    default: return {"[", "]"};
  }
}

void repr_list(context& c, text_builder& out, const list_data& list) {
  if (list.form == list_form::generator)
    context::fail("a generator cannot be shown; make a list of it first");
  if (list.form == list_form::range) context::fail("a range cannot be shown; make a list of it first");
  const context::deeper guard(c);
  const auto [open, close] = brackets_of(list.form);
  out.add_own(open);
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(c, out, list.items[i]);
  }
  if (list.form == list_form::tuple && list.items.size() == 1) out += ",";
  out.add_own(close);
}

void repr_entries(context& c, text_builder& out, std::span<const dict_entry> entries) {
  const context::deeper guard(c);
  out += "{";
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(c, out, entries[i].key);
    out += ": ";
    append_repr(c, out, entries[i].item);
  }
  out += "}";
}

void json_text(context& c, text_builder& out, std::string_view text, bool ascii) {
  c.charge(cost::scanned(text.size()));
  out += '"';
  std::size_t plain = 0;  // begin of the text before `at` that is not written yet
  const auto flush = [&](std::size_t to) { out.append(text.substr(plain, to - plain)); };
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte >= 0x20 && byte != '"' && byte != '\\' && (byte < 0x80 || !ascii)) {
      ++at;
      continue;
    }
    flush(at);
    c.charge_growth(out, 12);  // the longest escape
    c.charge(cost::value);
    constexpr std::string_view from = "\"\\\n\r\t\f\b";
    constexpr std::string_view to = "\"\\nrtfb";
    const std::size_t size = code_size(text, at);
    if (const auto known = from.find(static_cast<char>(byte)); known != std::string_view::npos) {
      out += '\\';
      out += to[known];
    } else if (const char32_t code = code_at(text, at); code >= 0x10000) {
      out += "\\u";
      append_hex(out, 0xD7C0 + (code >> 10U), 4);
      out += "\\u";
      append_hex(out, 0xDC00 + (code & 0x3FFU), 4);
    } else {
      out += "\\u";
      append_hex(out, code, 4);
    }
    at += size;
    plain = at;
  }
  flush(text.size());
  out += '"';
}

bool is_spelled(const value& v) noexcept {
  const bool number = v.is(value_kind::integer) || v.is(value_kind::large) || v.is(value_kind::real);
  return number && v.spelling != nullptr;
}

void append_spelling(context& c, text_builder& out, std::string_view digits) {
  c.charge_growth(out, digits.size());
  out += digits;
}

/// Writes one value and its members, at `level` of indentation.
class json_writer {
 public:
  json_writer(context& c, text_builder& out, const json_style& style) : c_(c), out_(out), style_(style) {}

  void write(const value& v) {
    const context::deeper guard(c_);
    c_.charge(cost::node);
    c_.charge_growth(out_, v.is(value_kind::string) ? v.size : 8);
    switch (v.kind) {
      case value_kind::none: out_ += "null"; break;
      case value_kind::boolean: out_.add_own(v.integer != 0 ? "true" : "false"); break;
      case value_kind::real: real(v); break;
      case value_kind::string: json_text(c_, out_, v.view(), style_.ascii); break;
      case value_kind::integer:
      case value_kind::large: append_text(c_, out_, v); break;
      case value_kind::dict:
        if (!spelled(v.dict->spelling)) object(v.dict->entries);
        break;
      case value_kind::list:
        if (spelled(v.list->spelling)) break;
        // What a filter gives is written as the list that it would be: Python refuses it, and templates that
        // were published for llama.cpp need it.
        if (is_indexed(v) || is_form(v, list_form::generator)) {
          array(iterate(c_, v));
          break;
        }
        [[fallthrough]];
      default:
        require_defined(v);
        c_.fail(std::string(kind_name(v)) + " of this kind cannot be written as JSON");
    }
  }

 private:
  /// Writes what was read from text as it was, where nothing else is asked for.
  bool spelled(std::string_view text) {
    const bool usual = !style_.ascii && !style_.pretty && !style_.sorted && style_.between == ", " &&
                       style_.after_key == ": ";
    if (text.empty() || !usual) return false;
    c_.charge_growth(out_, text.size());
    out_ += text;
    return true;
  }

  void real(const value& v) {
    const double d = v.real;
    if (std::isfinite(d)) return append_text(c_, out_, v);
    c_.charge(cost::short_real);
    out_.add_own(std::isnan(d) ? "NaN" : d < 0 ? "-Infinity" : "Infinity");
  }

  void new_line() {
    if (!style_.pretty) return;
    c_.charge_growth(out_, 1 + level_ * style_.indent.size());
    c_.charge_values(level_);
    out_ += '\n';
    for (std::size_t i = 0; i < level_; ++i) out_.add_own(style_.indent);
  }

  template <class Items, class One>
  void sequence(char open, char close, const Items& items, One one) {
    out_ += open;
    ++level_;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) add(style_.between);
      new_line();
      one(items[i]);
    }
    --level_;
    if (!items.empty()) new_line();
    out_ += close;
  }

  void add(const std::string& separator) {
    c_.charge_growth(out_, separator.size());
    out_.add_own(separator);
  }

  void array(std::span<const value> items) {
    sequence('[', ']', items, [this](const value& v) { write(v); });
  }

  void object(std::span<const dict_entry> entries) {
    std::vector<dict_entry> sorted;
    if (style_.sorted) {
      sorted.assign(entries.begin(), entries.end());
      c_.charge_values(2 * sorted.size());
      std::stable_sort(sorted.begin(), sorted.end(), [this](const auto& a, const auto& b) {
        c_.charge_values(2);  // for moving values while they are sorted
        return less(c_, a.key, b.key);
      });
      entries = sorted;
    }
    sequence('{', '}', entries, [this](const dict_entry& entry) {
      key(entry.key);
      add(style_.after_key);
      write(entry.item);
    });
  }

  /// Keys that are not strings are written as their text.
  void key(const value& v) {
    if (v.is(value_kind::string)) return write(v);
    if (!is_number(v) && !v.is(value_kind::none))
      c_.fail(std::string(kind_name(v)) + " cannot be a key in JSON");
    out_ += '"';
    write(v);
    out_ += '"';
  }

  context& c_;
  text_builder& out_;
  const json_style& style_;
  std::size_t level_ = 0;
};

}  // namespace

void append_real(text_builder& out, double real) {
  if (!std::isfinite(real)) {
    out.add_own(std::isnan(real) ? "nan" : real < 0 ? "-inf" : "inf");
    return;
  }
  std::array<char, 32> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), real, std::chars_format::scientific).ptr;
  std::string_view text(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  if (text.front() == '-') {
    out += '-';
    text.remove_prefix(1);
  }
  const std::size_t e = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), end, exponent);
  std::string digits(1, text[0]);
  if (e > 2) digits += text.substr(2, e - 2);
  const int count = static_cast<int>(digits.size());
  std::string written;
  if (exponent < -4 || exponent >= 16) {
    written += digits[0];
    if (count > 1) written.append(".").append(digits, 1);
    written += exponent < 0 ? "e-" : "e+";
    const std::string power = std::to_string(std::abs(exponent));
    written.append(power.size() < 2 ? "0" : "").append(power);
  } else if (exponent < 0) {
    written.append("0.").append(static_cast<std::size_t>(-exponent - 1), '0').append(digits);
  } else {
    if (count <= exponent + 1) digits.append(static_cast<std::size_t>(exponent + 2 - count), '0');
    const std::size_t whole = static_cast<std::size_t>(exponent) + 1;
    written.append(digits, 0, whole).append(".").append(digits, whole);
  }
  out.add_own(written);
}

void append_text(context& c, text_builder& out, const value& v) {
  c.charge(cost::value);
  c.charge_growth(out, v.is(value_kind::string) ? v.size : 8);
  if (is_spelled(v)) return append_spelling(c, out, *v.spelling);
  switch (v.kind) {
    case value_kind::undefined: break;
    case value_kind::none: out += "None"; break;
    case value_kind::boolean: out.add_own(v.integer != 0 ? "True" : "False"); break;
    case value_kind::integer:
    case value_kind::large:
      c.charge(cost::integer);
      out.add_own(v.is(value_kind::large) ? std::to_string(v.large) : std::to_string(v.integer));
      break;
    case value_kind::real:
      c.charge(cost::short_real);
      append_real(out, v.real);
      break;
    case value_kind::string: out += v.view(); break;
    case value_kind::list: repr_list(c, out, *v.list); break;
    case value_kind::dict: repr_entries(c, out, v.dict->entries); break;
    case value_kind::space:
      out += "<Namespace ";
      repr_entries(c, out, {v.space->entries, v.space->count});
      out += ">";
      break;
    default: c.fail(std::string(kind_name(v)) + " cannot be shown as text");
  }
}

void append_repr(context& c, text_builder& out, const value& v) {
  c.charge(cost::node);
  if (v.is(value_kind::undefined)) {
    out += "Undefined";
  } else if (v.is(value_kind::string)) {
    c.charge_growth(out, v.size * 4);
    c.charge(2 * cost::decoded(v.size));
    repr_text(out, v.view());
  } else {
    append_text(c, out, v);
  }
}

std::string_view text_of(context& c, const value& v) {
  if (v.is(value_kind::string)) return v.view();
  text_builder out(c);
  append_text(c, out, v);
  return out.kept().view();
}

void append_json(context& c, text_builder& out, const value& v, const json_style& style) {
  json_writer(c, out, style).write(v);
}

}  // namespace orcd::engine::jinja
