// The global functions.
#include <algorithm>
#include <ctime>

#include "engine/jinja/template_library.hpp"
#include "engine/jinja/template_loop.hpp"
#include "engine/jinja/template_operators.hpp"
#include "engine/jinja/template_text.hpp"

namespace orcd::engine::jinja {
namespace {

value function_range(context& c, const value&, const arguments& a) {
  constexpr std::uint64_t most = 100'000;  // the sandbox's own limit
  std::int64_t start = a.integer(0, 0);
  std::int64_t stop = a.integer(1, 0);
  const std::int64_t step = a.integer(2, 1);
  if (!a.has(1)) std::swap(start, stop);
  if (step == 0 || step == INT64_MIN) c.fail("the step of range must be an integer that is not 0");
  if (step > 0 ? start >= stop : start <= stop) return c.list({}, list_form::range);
  const std::uint64_t distance = step > 0
                                     ? static_cast<std::uint64_t>(stop) - static_cast<std::uint64_t>(start)
                                     : static_cast<std::uint64_t>(start) - static_cast<std::uint64_t>(stop);
  const std::uint64_t count = (distance - 1) / static_cast<std::uint64_t>(step > 0 ? step : -step) + 1;
  if (count > most) c.fail("range has more items than the limit of " + std::to_string(most));
  const auto out = c.values(count);
  for (std::uint64_t i = 0; i < count; ++i)
    out[i] = make_integer(start + static_cast<std::int64_t>(i) * step);
  return make_value(c.memory.make<list_data>(out, list_form::range));
}

value function_namespace(context& c, const value&, const arguments& a) {
  value v;
  v.kind = value_kind::space;
  v.space = c.memory.make<space_data>();
  for (const value& from : a.raw.items) {
    if (!from.is(value_kind::dict)) c.fail("namespace takes names with values");
    for (const dict_entry& entry : from.dict->entries) {
      if (entry.key.is(value_kind::string)) assign_attribute(c, v, entry.key.view(), entry.item);
    }
  }
  for (const named_value& named : a.raw.named) assign_attribute(c, v, named.name, named.item);
  return v;
}

value function_dict(context& c, const value&, const arguments& a) {
  std::vector<dict_entry> entries;
  for (const value& from : a.raw.items) {
    if (!from.is(value_kind::dict)) c.fail("dict takes names with values");
    for (const dict_entry& entry : from.dict->entries) put(c, entries, entry.key, entry.item);
  }
  for (const named_value& named : a.raw.named) put(c, entries, make_string(named.name), named.item);
  return c.dict(entries);
}

value function_raise(context&, const value&, const arguments& a) {
  constexpr std::size_t most_bytes = 4'096;  // it goes into an answer
  std::string_view text = a.text(0, "");
  if (text.size() > most_bytes) text = text.substr(0, code_before(text, most_bytes + 1));
  template_failure failure{std::string(text)};
  failure.raised = true;
  throw failure;
}

value function_now(context& c, const value&, const arguments& a) {
  constexpr std::size_t most_format = 200;
  const std::string format(a.text(0, ""));
  if (format.size() > most_format) c.fail("the format of strftime_now is over the limit of 200 bytes");
  if (format.empty()) return make_string("");
  constexpr std::uint64_t one_field = 400;
  c.charge(cost::call + one_field * format.size());
  const std::time_t seconds = std::chrono::system_clock::to_time_t(c.now);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  std::array<char, 4096> buffer{};
  const std::size_t size = std::strftime(buffer.data(), buffer.size(), format.c_str(), &local);
  return c.text({buffer.data(), size}, {a[0].view()});
}

constexpr std::array rows{
    function_row{{"range", function_range, "start stop step", 1}},
    function_row{{"namespace", function_namespace, "*"}},
    function_row{{"dict", function_dict, "*"}},
    function_row{{"raise_exception", function_raise, "message", 1}},
    function_row{{"strftime_now", function_now, "format", 1}},
};

}  // namespace

const function_row* find_function(std::string_view name) noexcept {
  const auto* found =
      std::find_if(rows.begin(), rows.end(), [&](const function_row& r) { return r.name == name; });
  return found == rows.end() ? nullptr : found;
}

}  // namespace orcd::engine::jinja
