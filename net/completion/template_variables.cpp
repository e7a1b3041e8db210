#include "net/completion/template_variables.hpp"

#include <string>

#include "net/json/field_checks.hpp"
#include "net/json/text.hpp"

namespace orcd::net {

namespace json = boost::json;
using engine::result;

result<json::object> template_variables_of(const engine::chat_format& format, const completion_request& asked,
                                           const completion_limits& limits) {
  json::object variables;
  const bool told = asked.constraints.tools.empty() || format.tells_tools();
  variables["tools"] = told ? json::value() : json::value(asked.constraints.tools);
  variables["documents"] = nullptr;
  if (!asked.documents.empty()) {
    if (!format.mentions("documents")) {
      return refuse_field("documents", "is nothing that the model's chat template reads");
    }
    variables["documents"] = asked.documents;
  }
  // An effort says whether to reason, too, to a template that knows no more than that.
  const auto* effort = asked.template_variables.if_contains("reasoning_effort");
  if (effort != nullptr && format.mentions("enable_thinking")) {
    variables["enable_thinking"] = *effort != json::value("none");
  }
  for (const auto& variable : asked.template_variables) {
    if (!format.mentions(variable.key())) {
      if (!limits.strict_fields) continue;
      const std::string name = shown_name(variable.key());
      return refuse_field(name, "is nothing that the model's chat template reads");
    }
    variables.insert_or_assign(variable.key(), variable.value());
  }
  for (const auto& hint : asked.template_hints) {
    if (format.mentions(hint.key())) variables.emplace(hint.key(), hint.value());
  }
  if (limits.template_defaults == nullptr) return variables;
  for (const auto& standard : *limits.template_defaults) {
    if (format.mentions(standard.key())) variables.emplace(standard.key(), standard.value());
  }
  return variables;
}

}  // namespace orcd::net
