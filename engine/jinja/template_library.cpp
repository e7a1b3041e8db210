#include "engine/jinja/template_library.hpp"

#include <algorithm>
#include <string>

#include "engine/jinja/template_operators.hpp"

namespace orcd::engine::jinja {
namespace {

template <class Row>
const Row* find_in(std::span<const Row> rows, std::string_view name) noexcept {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

/// The parameter's index in a row's list of names, or most_parameters.
std::size_t place_of(std::string_view parameters, std::string_view name) {
  for (std::size_t place = 0; !parameters.empty(); ++place) {
    const std::size_t stop = std::min(parameters.find(' '), parameters.size());
    if (parameters.substr(0, stop) == name) return place;
    parameters.remove_prefix(std::min(stop + 1, parameters.size()));
  }
  return most_parameters;
}

std::size_t count_of(std::string_view parameters) {
  return parameters.empty()
             ? 0
             : 1 + static_cast<std::size_t>(std::count(parameters.begin(), parameters.end(), ' '));
}

}  // namespace

bool arguments::flag(std::size_t i, bool fallback) const noexcept {
  return has(i) ? truth(values[i]) : fallback;
}

std::int64_t arguments::integer(std::size_t i, std::int64_t fallback) const {
  if (!has(i) || values[i].is(value_kind::none)) return fallback;
  if (!is_integral(values[i])) {
    require_defined(values[i]);
    context::fail("an argument must be an integer, not " + std::string(kind_name(values[i])));
  }
  return values[i].integer;
}

std::string_view arguments::text(std::size_t i, std::string_view fallback) const {
  if (!has(i)) return fallback;
  if (!values[i].is(value_kind::string)) {
    require_defined(values[i]);
    context::fail("an argument must be a string, not " + std::string(kind_name(values[i])));
  }
  return values[i].view();
}

const filter_row* find_filter(std::string_view name) noexcept {
  for (const auto rows : {text_filters(), list_filters(), selection_filters()}) {
    if (const filter_row* row = find_in(rows, name)) return row;
  }
  return nullptr;
}

value call_row(context& c, const filter_row& row, const value& self, const call_values& values) {
  c.charge(cost::call);
  arguments bound;
  bound.raw = values;
  if (row.parameters != "*") {
    const std::size_t most = count_of(row.parameters);
    if (values.items.size() > most) {
      c.fail("'" + std::string(row.name) + "' takes at most " + std::to_string(most) + " arguments, not " +
             std::to_string(values.items.size()));
    }
    std::copy(values.items.begin(), values.items.end(), bound.values.begin());
    bound.given = (1U << values.items.size()) - 1;
    for (const named_value& named : values.named) {
      const std::size_t place = place_of(row.parameters, named.name);
      if (place >= most || bound.has(place)) {
        c.fail("'" + std::string(row.name) + "' does not take the argument '" + std::string(named.name) +
               "'");
      }
      bound.values[place] = named.item;
      bound.given |= 1U << place;
    }
    const std::uint32_t needed = (1U << row.required) - 1;
    if ((bound.given & needed) != needed) {
      c.fail("'" + std::string(row.name) + "' needs " + std::to_string(row.required) + " arguments");
    }
  }
  return row.run(c, self, bound);
}

}  // namespace orcd::engine::jinja
