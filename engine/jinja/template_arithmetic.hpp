// The operators + - * / // % and ** on values, as in Python. Integers have 64 bits: a result that does not
// fit is a failure. All functions charge what they visit and throw template_failure.
#pragma once

#include "engine/jinja/template_context.hpp"
#include "engine/jinja/template_syntax.hpp"

namespace orcd::engine::jinja {

[[nodiscard]] value arithmetic(context& c, operation op, const value& a, const value& b);
[[nodiscard]] value negative(const value& v);

}  // namespace orcd::engine::jinja
