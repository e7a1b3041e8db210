// "..." % values: the format filter and the % operator. Charges what it writes and throws template_failure.
#pragma once

#include <string_view>

#include "engine/jinja/template_context.hpp"

namespace orcd::engine::jinja {

/// format % argument: %s %r %d %i %f %x with flags, width and precision.
[[nodiscard]] value percent_format(context& c, std::string_view format, const value& argument);

}  // namespace orcd::engine::jinja
