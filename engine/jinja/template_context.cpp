#include "engine/jinja/template_context.hpp"

namespace orcd::engine::jinja {

void work_meter::exhausted() {
  template_failure failure("the chat template takes more work than the limit of " + std::to_string(most_) +
                           " units");
  failure.out_of_work = true;
  throw failure;
}

void context::fail_depth() const {
  fail("the chat template nests deeper than the limit of " + std::to_string(limits.depth));
}

}  // namespace orcd::engine::jinja
