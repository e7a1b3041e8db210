// The two objects of a template that can change: a loop's state and a namespace.
#pragma once

#include <span>
#include <vector>

#include "engine/jinja/template_context.hpp"

namespace orcd::engine::jinja {

struct loop_data {
  std::span<const value> items;
  std::size_t at = 0;
  mutable const value* last_changed = nullptr;
};

/// A namespace: attributes in order of their first assignment, in blocks of the arena that double.
struct space_data {
  dict_entry* entries = nullptr;
  std::size_t count = 0;
  std::size_t capacity = 0;
};

[[nodiscard]] std::size_t loop_length(const value& loop) noexcept;
/// The value of loop.index and the like; undefined for other names.
[[nodiscard]] value loop_attribute(const value& loop, std::string_view name);
[[nodiscard]] value space_attribute(context& c, const value& space, std::string_view name);
void assign_attribute(context& c, const value& space, std::string_view name, const value& item);

}  // namespace orcd::engine::jinja
